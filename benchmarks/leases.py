"""Time that Redis spends on a sync, at a thousand instances and ten thousand partitions, with one
dimension and with four.

Measured inside the server by its slow log, in five runs, and compared with a PING there and back.
The longest run of a script is the median of the longest of each run: a single one says more about
what else the machine did.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from limiters._costs import AnyCost, Costs
from limiters._instance_share import InstanceShare
from limiters.embedded import EmbeddedRedis
from limiters.leases._bounds import terms_of_limits
from limiters.leases._messages import Terms
from limiters.leases.redis import RedisLeaseManager
from limiters.limits import InFlight, Limits, Rate

INSTANCES, PARTITIONS, RUNS = 1_000, 10_000, 5
WAITING = 300

LEASE_MS = 2_000
INTERVAL = 0.5
LONGEST = 0.5
"""Seconds that a call may last."""


@dataclass(frozen=True)
class Limit:
    """The terms of a limit, and how instances use it."""

    title: str
    terms: Terms
    mixes: tuple[dict[str, float], ...] = ()
    """How much of each dimension a batch costs for 1 of the first; instances have them in turns.
    None for a limit that is a number."""

    def cost(self, amount: float, number: int) -> AnyCost:
        """The cost in all dimensions of a batch that costs `amount` in the first one. Calls are
        whole numbers."""
        if not self.mixes:
            return amount
        mix = self.mixes[number % len(self.mixes)]
        costs = {name: amount * factor for name, factor in mix.items()}
        return Costs(costs | {"calls": max(1, round(amount / 5))} if amount else {})


ONE = Limit("1 dimension", Terms.scalar(float(PARTITIONS), 1.0, 1_000, LEASE_MS))
FOUR = Limit(
    "4 dimensions",
    terms_of_limits(
        Limits(
            requests=Rate(PARTITIONS, also=[Rate(0.2 * PARTITIONS, per=0.2)]),
            tokens=Rate(800 * PARTITIONS),
            bytes=Rate(4_000 * PARTITIONS),
            calls=InFlight(PARTITIONS // 5, max_operation_time=LONGEST),
        ),
        factor=1.0,
        lease=LEASE_MS,
    ),
    (
        {"requests": 1, "tokens": 800, "bytes": 4_000},
        {"requests": 1, "tokens": 2_000, "bytes": 4_000},
        {"requests": 1, "tokens": 300, "bytes": 9_000},
    ),
)

AT_MOST = {"p50": None, "p99": 2.0, "max": 5.0}
"""How many milliseconds a script may take, by quantile."""

CONFIG = ("slowlog-log-slower-than 0", "slowlog-max-len 1000000")


def brief() -> Iterator[Figure]:
    """Measure a hundred instances."""
    with EmbeddedRedis(config=CONFIG) as server, Redis.from_url(server.url) as client:
        crowd = _Crowd(RedisLeaseManager(server.url, name="benchmark", lease_time=2), ONE, 100)
        crowd.ask(2)
        runs = [_microseconds(client, lambda: crowd.ask(changing=0.1)) for _ in range(RUNS)]
    for title, value in _quantiles(runs).items():
        if title != "p99":
            yield Figure(f"a sync's script: {title}", value, "µs")


def run() -> Iterator[Figure]:
    for limit in (ONE, FOUR):
        pings, runs = zip(*(_script_times(limit) for _ in range(RUNS)), strict=True)
        ping = statistics.median(pings)
        for what in runs[0]:
            name = f"{INSTANCES:,} instances, {PARTITIONS:,} partitions, {limit.title}, {what}"
            for title, value in _quantiles([one[what] for one in runs]).items():
                yield Figure(
                    f"{name}: {title}",
                    value / 1000,
                    "ms of script",
                    at_most=AT_MOST[title],
                    note=f"{value / ping:.2g} of a PING there and back",
                )


def _quantiles(runs: Sequence[list[int]]) -> dict[str, float]:
    """Return the quantiles of all times together, and the median of the longest of each run."""
    everything = sorted(one for run in runs for one in run)
    return {
        "p50": statistics.median(everything),
        "p99": everything[int(len(everything) * 0.99)],
        "max": statistics.median(run[-1] for run in runs),
    }


def _script_times(limit: Limit) -> tuple[float, dict[str, list[int]]]:
    """Return the microseconds of a PING there and back, and those of all scripts by case."""
    with EmbeddedRedis(config=CONFIG) as server, Redis.from_url(server.url) as client:
        manager = RedisLeaseManager(
            server.url, name="benchmark", lease_time=LEASE_MS / 1000, timeout=60
        )
        crowd = _Crowd(manager, limit, INSTANCES)
        cases: dict[str, Callable[[], object]] = {
            "first calls": crowd.ask,
            "all renew": crowd.ask,
            "one in ten changes": lambda: crowd.ask(changing=0.1),
            "capacity lowered": crowd.lowered,
            f"{WAITING} wait for permits": crowd.wait_for_permits,
            "all expire together": crowd.expire,
        }
        ping = _round_trip(client)
        found = {what: _microseconds(client, case) for what, case in cases.items()}
        manager.close()
    return ping, found


class _Crowd:
    """Instances that follow the rules, all of them busy."""

    def __init__(self, manager: RedisLeaseManager, limit: Limit, size: int) -> None:
        self._manager = manager
        self._limit = limit
        self._random = Random(1)
        self._need = [20.0] * size
        self._shares = [self._share(f"instance-{n:04}") for n in range(size)]
        self._gathers: set[int] = set()

    def _share(self, name: str) -> InstanceShare:
        return InstanceShare(name, self._limit.terms, label="host-1:4711")

    def ask(self, times: int = 1, changing: float = 0.0) -> None:
        """Let each instance ask this many times."""
        for _ in range(times):
            for number in range(len(self._shares)):
                if self._random.random() < changing:
                    self._need[number] = self._random.choice([0.0, 5.0, 20.0, 200.0])
                self._exchange(number)

    def _exchange(self, number: int) -> None:
        share = self._shares[number]
        for _ in range(4):  # it may be challenged first
            now = time.monotonic()
            need = self._limit.cost(self._need[number], number)
            share.settle(now)
            nothing = self._limit.cost(0.0, number)
            share.want(need, need if number in self._gathers else nothing, now)
            for _ in range(5):
                self._spend(share, self._limit.cost(0.2, number), now)
            reply = self._manager.sync(share.compose(now, (20.0, 0.0, 0.0, 0.0, 1.0)))
            share.answered(reply, now, time.monotonic())
            if reply.kind == "answer":
                return

    @staticmethod
    def _spend(share: InstanceShare, cost: AnyCost, now: float) -> None:
        """Something of what it holds, so that hand-overs carry history. Calls end immediately."""
        for bound, amount in zip(share.bounds, share.by_bound(cost), strict=True):
            if bound.ledger.available(now, amount) >= amount:
                bound.ledger.hold(amount)
                spend = bound.ledger.charge(amount, now)
                spend.started(now)
                spend.ended(now)

    def lowered(self) -> None:
        """An operator halves the capacity."""
        capacity = self._limit.terms.capacity
        by_name = bool(self._limit.mixes)
        self._manager.set_terms(capacity={"requests": capacity / 2} if by_name else capacity / 2)
        self.ask(2)
        self._manager.set_terms(capacity={"requests": capacity} if by_name else capacity)

    def wait_for_permits(self) -> None:
        """Many have an operation that costs more than their share."""
        for number in range(min(WAITING, len(self._need))):
            self._need[number] = 2_000.0
            self._gathers.add(number)
        self.ask(3)

    def expire(self) -> None:
        """Nine in ten are silent for too long. The others go on: so Redis' clock is believed."""
        del self._shares[len(self._shares) // 10 :]
        self._need = [20.0] * len(self._shares)
        self._gathers = set()
        ends = time.monotonic() + (LEASE_MS + self._limit.terms.counts) / 1000 + 3 * INTERVAL
        while (now := time.monotonic()) < ends:
            self.ask()
            time.sleep(max(0.0, now + INTERVAL - time.monotonic()))
        self.ask()


def _microseconds(client: Any, work: Callable[[], object]) -> list[int]:
    """Return the time of each script that `work` has run, in order of length."""
    client.slowlog_reset()
    work()
    # The server also notes the commands inside of the scripts.
    entries = client.slowlog_get(1_000_000)
    return sorted(one["duration"] for one in entries if one["command"].startswith(b"EVAL"))


def _round_trip(client: Any) -> float:
    """Return the microseconds that most PINGs take, the network included."""
    times = []
    for _ in range(2_000):
        start = time.perf_counter()
        client.ping()
        times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)[len(times) // 2]
