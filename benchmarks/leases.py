"""What a sync costs Redis: script time at a thousand instances and ten thousand partitions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from random import Random
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from limiters.embedded import EmbeddedRedis
from limiters.leases import ranges
from limiters.leases.messages import Reply, Request, Terms
from limiters.leases.redis import RedisLeaseManager

MEMBERS, PARTITIONS, ROUNDS = 1_000, 10_000, 6
TERMS = Terms(float(PARTITIONS), 1.0, 1_000, 2_000)
NO_QUARANTINE = 3.1
"""Seconds after which a new limit grants: its lease, its period and a little more."""


CONFIG = ("slowlog-log-slower-than 0", "slowlog-max-len 1000000")


def brief() -> Iterator[Figure]:
    """Of a hundred instances. The longest run of a script is the median of the longest of five."""
    with EmbeddedRedis(config=CONFIG) as server, Redis.from_url(server.url) as client:
        crowd = _Crowd(RedisLeaseManager(server.url, name="benchmark"), members=100)
        crowd.ask()
        time.sleep(NO_QUARANTINE)
        crowd.ask()
        runs = [_microseconds(client, lambda: crowd.ask(changing=0.1)) for _ in range(5)]
    everything = sorted(one for run in runs for one in run)
    yield Figure("a sync's script: p50", statistics.median(everything), "µs")
    longest = statistics.median(run[-1] for run in runs)
    yield Figure("a sync's script: the longest", longest, "µs")


def run() -> Iterator[Figure]:
    """The figures, measured inside the server by its slow log, beside a PING's way and back."""
    with EmbeddedRedis(config=CONFIG) as server, Redis.from_url(server.url) as client:
        ping = _round_trip(client)
        manager = RedisLeaseManager(server.url, name="benchmark")
        crowd = _Crowd(manager)
        crowd.ask()
        time.sleep(NO_QUARANTINE)
        crowd.ask()
        steady = _microseconds(client, lambda: crowd.ask(times=ROUNDS))
        restless = _microseconds(client, lambda: crowd.ask(changing=0.1, times=ROUNDS))
        manager.close()
    name = f"{MEMBERS:,} instances, {PARTITIONS:,} partitions"
    for what, all_of_them in (("all renew", steady), ("one in ten changes", restless)):
        for title, share, at_most in (("p50", 0.5, None), ("p99", 0.99, 2.0), ("max", 1.0, None)):
            value = all_of_them[min(len(all_of_them) - 1, int(len(all_of_them) * share))]
            ratio = value / ping
            yield Figure(
                f"{name}, {what}: {title}",
                value / 1000,
                "ms of script",
                at_most=at_most,
                note=f"{ratio:.2g} of a PING there and back",
            )


class _Crowd:
    """Instances that keep to the rules, all of them busy."""

    def __init__(self, manager: RedisLeaseManager, members: int = MEMBERS) -> None:
        self._manager = manager
        self._random = Random(1)
        self._told: dict[str, Reply] = {}
        self._need = {f"instance-{n}": 20.0 for n in range(members)}
        self._seq = 0

    def ask(self, changing: float = 0.0, times: int = 1) -> None:
        """Each of them asks so many times."""
        for _ in range(times):
            self._ask_once(changing)

    def _ask_once(self, changing: float) -> None:
        self._seq += 1
        for name in self._need:
            if self._random.random() < changing:
                self._need[name] = self._random.choice([0.0, 5.0, 20.0, 200.0])
            told = self._told.get(name, Reply())
            keep = min(told.keep, int(self._need[name]))
            released = ranges.highest(told.held, max(0, ranges.count(told.held) - keep))
            history = tuple((age, 0.05) for age in range(0, 1000, 25)) if released else ()
            request = Request(
                name,
                self._seq,
                TERMS,
                held=ranges.without(told.held, released),
                until_ms=told.until_ms,
                released=released,
                history=history,
                need=self._need[name],
                label="host-1:4711",
                totals=(20.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 20.0, 0.0, 0.0),
            )
            self._told[name] = self._manager.sync(request)


def _microseconds(client: Any, work: Any) -> list[int]:
    """The time of each script that `work` has run, in order of length."""
    client.slowlog_reset()
    work()
    # The server also notes the commands inside of the scripts.
    entries = client.slowlog_get(1_000_000)
    return sorted(one["duration"] for one in entries if one["command"].startswith(b"EVAL"))


def _round_trip(client: Any) -> float:
    """The microseconds that most PINGs take, the network included."""
    times = []
    for _ in range(2_000):
        start = time.perf_counter()
        client.ping()
        times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)[len(times) // 2]
