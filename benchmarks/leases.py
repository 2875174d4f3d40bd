"""What a sync costs Redis: script time at a thousand instances and ten thousand partitions.

Measured inside the server by its slow log, beside a PING there and back.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from limiters._instance_share import InstanceShare
from limiters.embedded import EmbeddedRedis
from limiters.leases._codec import arguments_of, reply_of
from limiters.leases._messages import BoundTerms, Terms
from limiters.leases._scripts import SYNC, keys_of
from limiters.leases.redis import RedisLeaseManager
from tests.bounds import BoundedInstance

INSTANCES, PARTITIONS, ROUNDS = 1_000, 10_000, 6
TERMS = Terms.scalar(float(PARTITIONS), 1.0, 1_000, 2_000)
WAITING = 300
BOUNDED = Terms(
    (
        BoundTerms.rate(10_000.0, 1_000),
        BoundTerms.rate(60_000.0, 6_000),
        BoundTerms.rate(2e6, 1_000),
        BoundTerms.in_flight(1_500, 1_000),
    ),
    1.0,
    2_000,
    "requests:start,requests:start,tokens:start,calls:slots",
)
BOUNDS = len(BOUNDED.bounds)

CONFIG = ("slowlog-log-slower-than 0", "slowlog-max-len 1000000")


def brief() -> Iterator[Figure]:
    """Of a hundred instances. The longest run of a script is the median of the longest of five."""
    with EmbeddedRedis(config=CONFIG) as server, Redis.from_url(server.url) as client:
        crowd = _Crowd(RedisLeaseManager(server.url, name="benchmark", lease_time=2), 100)
        crowd.ask(2)
        runs = [_microseconds(client, lambda: crowd.ask(changing=0.1)) for _ in range(5)]
    everything = sorted(one for run in runs for one in run)
    yield Figure("a sync's script: p50", statistics.median(everything), "µs")
    longest = statistics.median(run[-1] for run in runs)
    yield Figure("a sync's script: the longest", longest, "µs")


def run() -> Iterator[Figure]:
    """The figures."""
    with EmbeddedRedis(config=CONFIG) as server, Redis.from_url(server.url) as client:
        ping = _round_trip(client)
        manager = RedisLeaseManager(server.url, name="benchmark", lease_time=2)
        crowd = _Crowd(manager, INSTANCES)
        cases: list[tuple[str, Callable[[], object]]] = [
            ("first calls", crowd.ask),
            ("all renew", lambda: crowd.ask(ROUNDS)),
            ("one in ten changes", lambda: crowd.ask(ROUNDS, changing=0.1)),
            ("capacity lowered", lambda: crowd.lowered(manager)),
            (f"{WAITING} wait for permits", lambda: crowd.wait_for_permits(manager)),
            ("all expire at once", lambda: crowd.expire(manager)),
        ]
        found = [(what, _microseconds(client, case)) for what, case in cases]
        manager.close()
        found += [(f"{BOUNDS} bounds, {what}", times) for what, times in _several_bounds(client)]
    for what, times in found:
        name = f"{INSTANCES:,} instances, {PARTITIONS:,} partitions, {what}"
        for title, share, at_most in (("p50", 0.5, None), ("p99", 0.99, 2.0), ("max", 1.0, 5.0)):
            value = times[min(len(times) - 1, int(len(times) * share))]
            yield Figure(
                f"{name}: {title}",
                value / 1000,
                "ms of script",
                at_most=at_most,
                note=f"{value / ping:.2g} of a PING there and back",
            )


def _several_bounds(client: Any) -> Iterator[tuple[str, list[int]]]:
    """The same of a limit of requests, with a nested window, tokens and calls in flight."""
    crowd = _BoundedCrowd(client)
    yield "first calls", _microseconds(client, crowd.ask)
    yield "all renew", _microseconds(client, lambda: crowd.ask(ROUNDS))
    yield "one in ten changes", _microseconds(client, lambda: crowd.ask(ROUNDS, changing=0.1))


class _BoundedCrowd:
    """Instances that follow the rules, all of them busy, of mixes that differ."""

    def __init__(self, client: Any) -> None:
        self._client: Any = client
        self._random = Random(1)
        self._keys = keys_of("benchmark", "bounds")
        self._instances = [
            BoundedInstance(f"instance-{n:04}", BOUNDED, (1.0, 1.0, tokens, 1.0), lasts=100)
            for n in range(INSTANCES)
            for tokens in [self._random.choice([60.0, 400.0])]
        ]

    def ask(self, times: int = 1, changing: float = 0.0) -> None:
        """Each of them asks so many times."""
        for _ in range(times):
            for one in self._instances:
                if self._random.random() < changing:
                    one.backlog = not one.backlog
                self._exchange(one)

    def _exchange(self, one: BoundedInstance) -> None:
        for _ in range(4):  # it may be challenged first
            now = math.floor(time.monotonic() * 1000)
            one.spend(now, self._random)
            arguments = [b"bounds", *arguments_of(one.compose(now))]
            answer = self._client.evalsha(self._script(), len(self._keys), *self._keys, *arguments)
            reply = reply_of(answer)
            one.answered(reply, now)
            if reply.kind == "answer":
                return

    @functools.cache  # noqa: B019 - there is one, as long as the benchmark
    def _script(self) -> str:
        return str(self._client.script_load(SYNC.source))


class _Crowd:
    """Instances that follow the rules, all of them busy."""

    def __init__(self, manager: RedisLeaseManager, size: int) -> None:
        self._manager = manager
        self._random = Random(1)
        self._need = {f"instance-{n:04}": 20.0 for n in range(size)}
        self._shares = {name: self._share(name) for name in self._need}
        self._gathers: set[str] = set()

    def _share(self, name: str) -> InstanceShare:
        return InstanceShare(name, TERMS, label="host-1:4711")

    def ask(self, times: int = 1, changing: float = 0.0) -> None:
        """Each of them asks so many times."""
        for _ in range(times):
            for name, share in self._shares.items():
                if self._random.random() < changing:
                    self._need[name] = self._random.choice([0.0, 5.0, 20.0, 200.0])
                self._exchange(name, share)

    def _exchange(self, name: str, share: InstanceShare) -> None:
        for _ in range(4):  # it may be challenged first
            now = time.monotonic()
            need = self._need[name]
            share.settle(now)
            share.want(need, need if name in self._gathers else 0.0, now)
            # Something of what it holds is spent, so that hand-overs carry history.
            for _ in range(5):
                if share.ledger.available(now, 0.2) >= 0.2:
                    share.ledger.hold(0.2)
                    share.ledger.charge(0.2, now).started(now)
            reply = self._manager.sync(share.compose(now, (20.0, 0.0, 0.0, 0.0, 1.0)))
            share.answered(reply, now, time.monotonic())
            if reply.kind == "answer":
                return

    def lowered(self, manager: RedisLeaseManager) -> None:
        """An operator halves the capacity."""
        manager.set_terms(capacity=TERMS.capacity / 2)
        self.ask(2)
        manager.set_terms(capacity=TERMS.capacity)

    def wait_for_permits(self, manager: RedisLeaseManager) -> None:
        """Many have an operation that costs more than their share."""
        for name in list(self._need)[:WAITING]:
            self._need[name] = 2_000.0
            self._gathers.add(name)
        self.ask(3)

    def expire(self, manager: RedisLeaseManager) -> None:
        """All are silent for too long; others come."""
        time.sleep(2 + 1.1 + 2 * 0.5 + 0.5)
        self._shares = {f"new-{n}": self._share(f"new-{n}") for n in range(100)}
        self._need = dict.fromkeys(self._shares, 20.0)
        self._gathers = set()
        self.ask()


def _microseconds(client: Any, work: Callable[[], object]) -> list[int]:
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
