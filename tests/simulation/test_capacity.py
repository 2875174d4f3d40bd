"""One process's limit in virtual time: C1 in every window, the use of the capacity, and who is
served, over random loads with callbacks that start late and take their time."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from dispatcher import Operation, Watcher
from dispatcher._core.batches.executors import Job
from limiters import ProvisionedResource
from limiters.testing import ManualClock
from limiters.verifier import Spent, verify
from tests.crank import Crank
from tests.samples import sample

SEEDS = sample(range(4), every=4)


def ignore(batch: list[Operation]) -> None:
    pass


class LateStarts:
    """Callbacks begin a little after they were charged, as on a busy machine."""

    def __init__(self, crank: Crank, seed: int, latest: float) -> None:
        self.crank = crank
        self.random = random.Random(seed)
        self.latest = latest
        self.log: list[Spent] = []
        self.pending: list[tuple[float, int, Job]] = []
        self.running: list[tuple[float, int, Job]] = []
        self.numbers = itertools.count()
        crank.runners.start = self.start  # type: ignore[method-assign]

    def start(self, job: Job, *, on_loop: bool) -> bool:
        at = self.crank.clock.now() + self.random.random() * self.latest
        self.pending.append((at, next(self.numbers), job))
        self.crank.runners.threads_used += 1
        return True

    def tend(self) -> None:
        now = self.crank.clock.now()
        for entry in [one for one in self.pending if one[0] <= now]:
            self.pending.remove(entry)
            job = entry[2]
            if job.starting is not None:
                job.starting()
            self.log.append(Spent(now, "one", sum(o.cost for o in job.arguments[0])))
            self.running.append((now + self.random.random() * 0.2, entry[1], job))
        for entry in [one for one in self.running if one[0] <= now]:
            self.running.remove(entry)
            entry[2].done(None)


def run(seed: int, capacity: float, costs: list[float], size: int, seconds: float) -> LateStarts:
    clock = ManualClock()
    limiter = ProvisionedResource(capacity, clock=clock)
    crank = Crank(limiter=limiter, clock=clock, buffer_size=200)
    starts = LateStarts(crank, seed, latest=0.004)
    pick = random.Random(seed)
    watcher = Watcher(ignore, max_batch_size=size)
    while clock.now() < seconds:
        while crank.engine.open_work.read()[2] < 150:
            crank.enqueue(Operation(watcher, pick.choice(costs), None, batchable=True))
        crank.run(0.002, at_turn=starts.tend)
    return starts


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("capacity", "costs", "size"),
    [(1000, [1, 2, 5], 2), (2000, [10], 2), (333, [0.1, 1.7, 3.3], 1), (50, [0.5], 1)],
)
def test_c1_no_window_over_and_98_percent_used_with_backlog(
    seed: int, capacity: float, costs: list[float], size: int
) -> None:
    seconds = 12.0
    starts = run(seed, capacity, costs, size, seconds)
    assert verify(starts.log, capacity).holds
    settled = [entry.cost for entry in starts.log if 1 <= entry.at < seconds - 1]
    assert math.fsum(settled) >= 0.98 * capacity * (seconds - 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_c4_expensive_among_cheap_all_go_in_bounded_time(seed: int) -> None:
    starts = run(seed, 100, [1, 1, 1, 40, 100], 1, 60.0)
    assert verify(starts.log, 100).holds
    assert {entry.cost for entry in starts.log} == {1, 40, 100}
    gaps = [later.at - entry.at for entry, later in itertools.pairwise(starts.log)]
    assert max(gaps) <= 2.5  # all that an expensive one needs is two periods
