"""A cluster under every fault at once, at random, from a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from limiters.testing import Backlog, Dear, Network, OnAndOff, SimulatedCluster, Work
from limiters.verifier import Spent, Verdict, verify

CAPACITY = 20_000.0


class Storm:
    """Instances that come, go, crash, hang and are cut off; a coordinator that goes away,
    forgets, or is replaced by an older copy; a capacity that changes."""

    def __init__(self, seed: int, *, seconds: float = 60.0, calm: bool = False, **options: object):
        self.random = Random(seed)
        self.seconds = seconds
        settings: dict[str, object] = {
            "capacity": CAPACITY,
            "factor": self.random.choice([1_000.0, 700.0, 5_000.0]),
            "drift": 0.004,
            "network": Network(
                delay=self.random.choice([0.0003, 0.003, 0.02]),
                lost_requests=0.02,
                lost_replies=0.03,
                doubled=0.03,
            ),
        }
        self.cluster = SimulatedCluster(seed=seed, **(settings | options))  # type: ignore[arg-type]
        self.copy = self.cluster.snapshot()
        self.names = 0
        for _ in range(self.random.choice([3, 5, 9, 24])):
            self.come()
        if not calm:
            self.cluster.at(1.0, self.strike)

    def run(self) -> list[Spent]:
        """The log of what was spent."""
        self.cluster.run(self.seconds)
        return self.cluster.log

    def come(self) -> None:
        self.names += 1
        self.cluster.add(f"i{self.names}", self.work(), weight=self.random.choice([1, 1, 1, 3]))

    def work(self) -> Work:
        random = self.random
        kinds: list[Work] = [
            Backlog(random.choice([20, 100, 200])),
            Backlog(100),
            OnAndOff(100, random.uniform(0.1, 3), random.uniform(0.1, 3)),
            OnAndOff(700, random.uniform(0.1, 5), random.uniform(0.5, 5)),
            Dear(random.choice([600, 1_000, 2_500]), random.uniform(0.5, 3)),
            Dear(random.choice([8_000, 20_000]), random.uniform(5, 20), random.uniform(0, 9)),
        ]
        return random.choice(kinds)

    def strike(self, now: float) -> None:
        """One more misfortune, and the next one soon."""
        random, cluster = self.random, self.cluster
        name = random.choice(sorted(cluster.instances))
        fault = random.randrange(100)
        if fault < 15:
            self.come()
        elif fault < 25 and len(cluster.instances) > 2:
            cluster.kill(name)
        elif fault < 40:
            cluster.hang(name, random.choice([0.1, 1.0, 2.1, 4.0]))
        elif fault < 55:
            cluster.cut_off(name, random.choice([0.2, 1.5, 2.5, 5.0]))
        elif fault < 60:
            cluster.stop_serving(random.choice([0.3, 1.0, 4.0]))
        elif fault < 64:
            cluster.forget()
        elif fault < 68:
            cluster.fail_over(self.copy)
            self.copy = cluster.snapshot()
        elif fault < 75:
            cluster.set_capacity(random.choice([7_300.0, 12_000.0, 20_000.0]))
        elif fault < 80:
            self.copy = cluster.snapshot()
        else:
            cluster.instances[name].work = self.work()
        cluster.at(now + random.expovariate(1.2), self.strike)


def every_fault(seed: int) -> Verdict:
    """The usual terms, a minute of it."""
    storm = Storm(seed)
    lease = storm.cluster.terms.lease_ms / 1000
    return verify(storm.run(), storm.cluster.limits, settling=lease)


def long_periods(seed: int) -> Verdict:
    """A period of ten seconds, and long leases."""
    storm = Storm(seed, seconds=120.0, period=10.0, lease_time=8.0, interval=2.0)
    return verify(storm.run(), storm.cluster.limits, period=10.0, settling=8.0)


STORMS: dict[str, Callable[[int], Verdict]] = {
    "every-fault": every_fault,
    "long-periods": long_periods,
}
"""Each judges a cluster run from a seed: some seeds in `make test`, many in `make storms`."""
