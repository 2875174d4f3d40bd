"""Actual costs known only afterwards: what settling them costs, and how much of a limit it gives
back.

With e reserved, a used, call time L and period P, a limit that charges e while a call runs and a
from then on can be used by U = aP / (eL + a(P - L)); without settlement by a / e. Periods of 60 s
are scaled to 6 s, and call times with them.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from benchmarks.figures import Figure
from dispatcher import Batcher, Learned, Operation, ProvisionedResource, Watcher, settle
from limiters.verifier import Spent, Verdict, verify

COUNT, SIZE, ROUNDS = 2_000, 100, 1_500
"""Many short rounds: what else the machine does falls into few of them."""

PERIOD, CALL = 6.0, 0.5
ESTIMATED, ACTUAL = 4_500, 1_000
IN_WINDOW = 50
"""How many estimates fit into one period: with few, it matters which part of one is left over."""
PERIODS = 6
"""For how many it is judged, after two that it has to begin."""
MEDIAN, SIGMA = 1_000.0, 0.35
"""The sigma of the log-normal cost that is learned."""
QUANTILE_95 = 1.6448536269514722


def usable(estimated: float, actual: float, call: float = CALL, period: float = PERIOD) -> float:
    """The share of a limit that can be used.

    >>> round(usable(4_500, 1_000, 5, 60), 2), round(usable(1_800, 1_000, 5, 60), 2)
    (0.77, 0.94)
    """
    return actual * period / (estimated * call + actual * (period - call))


def run() -> Iterator[Figure]:
    """Measure all of it."""
    yield from brief()
    yield from _use("constant", ESTIMATED, lambda chance: ACTUAL, usable(ESTIMATED, ACTUAL))
    learned = MEDIAN * math.exp(SIGMA * QUANTILE_95)
    mean = MEDIAN * math.exp(SIGMA**2 / 2)
    yield from _use(
        "learned percentile of 95",
        Learned(ESTIMATED),
        lambda chance: chance.lognormvariate(math.log(MEDIAN), SIGMA),
        usable(learned, mean),
        typical=learned,
    )


def brief() -> Iterator[Figure]:
    """Measure what settling costs. A second plain run shows how exact that is."""
    callbacks = {
        "plain": _ignore,
        "not settled, once more": _ignore,
        "settled as one": _settle_batch,
        "each operation settled": _settle_each,
    }
    took: dict[str, list[float]] = {name: [] for name in callbacks}
    with ExitStack() as running:
        runs = {name: running.enter_context(_Run(one)) for name, one in callbacks.items()}
        gc.collect()
        chance, order = random.Random(1), list(runs)
        for number in range(ROUNDS):
            chance.shuffle(order)  # what ran before has an effect
            for name in order:
                seconds = runs[name].processor_time()
                if number:
                    took[name].append(seconds)
    plain = took.pop("plain")
    for name, ones in took.items():
        yield _beside(ones, plain, name, 1.03 if name == "settled as one" else None)


def _beside(ones: list[float], plain: list[float], name: str, at_most: float | None) -> Figure:
    ratios = [one / other for one, other in zip(ones, plain, strict=True)]
    low, _, high = statistics.quantiles(ratios)
    error = 1.25 * (high - low) / 1.35 / math.sqrt(len(ratios))  # few rounds are far from the rest
    what = f"processor time, batches of {SIZE}, {name}"
    note = f"standard error {error:.3f}"
    return Figure(what, statistics.median(ratios), "x", at_most=at_most, note=note)


def _ignore(batch: list[Operation]) -> None:
    pass


def _settle_batch(batch: list[Operation]) -> None:
    settle(batch, SIZE / 2)


def _settle_each(batch: list[Operation]) -> None:
    for one in batch:
        one.settle(0.5)


class _Run:
    """A Batcher whose batches go to `callback`."""

    def __init__(self, callback: Callable[[list[Operation]], None]) -> None:
        self._watcher = Watcher(callback, max_batch_size=SIZE)
        limiter = ProvisionedResource(1e9)
        self._batcher = Batcher(rate_limiter=limiter, max_buffer_size=COUNT)

    def __enter__(self) -> _Run:
        self._batcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._batcher.stop()

    def processor_time(self) -> float:
        """Send COUNT operations. Return the seconds of processor time of all threads."""
        began = time.process_time()
        for number in range(COUNT):
            self._batcher.enqueue(Operation(self._watcher, 1, number, batchable=True))
        self._batcher.drain()
        return time.process_time() - began


def _use(
    name: str,
    cost: float | Learned,
    actual: Callable[[random.Random], float],
    usable: float,
    typical: float = ESTIMATED,
) -> Iterator[Figure]:
    """Raise calls one by one, as fast as the limit allows, and settle each at its end."""
    chance, lock = random.Random(1), threading.Lock()
    log: list[Spent] = []
    capacity = IN_WINDOW * typical
    now = time.monotonic

    async def call(batch: list[Operation]) -> None:
        began = now()
        await asyncio.sleep(CALL)
        with lock:
            used = actual(chance)
        batch[0].settle(used)
        log.append(Spent(began, "", batch[0].cost, used))

    watcher = Watcher(call)
    limiter = ProvisionedResource(capacity, period=PERIOD)
    end = now() + (PERIODS + 2) * PERIOD
    with Batcher(rate_limiter=limiter, max_buffer_size=20, flush_interval=0.01) as batcher:
        while now() < end:
            batcher.enqueue(Operation(watcher, cost, None))
        batcher.stop()
    first = min(entry.at for entry in log)
    verdict = verify(log, capacity, period=PERIOD, late=0.02)
    yield from _judged(name, verdict, _used(log, first, capacity), usable, cost, log, capacity)


def _used(log: list[Spent], first: float, capacity: float) -> float:
    start, end = first + 2 * PERIOD, first + (PERIODS + 2) * PERIOD - CALL
    spent = math.fsum(entry.judged for entry in log if start <= entry.at < end)
    return spent * PERIOD / (capacity * (end - start))


def _judged(
    name: str,
    verdict: Verdict,
    used: float,
    usable: float,
    cost: float | Learned,
    log: list[Spent],
    capacity: float,
) -> Iterator[Figure]:
    note = f"U is {usable:.3f}"
    yield Figure(f"{name}: used of what can be", used / usable, "of U", at_least=0.95, note=note)
    if isinstance(cost, Learned):
        excess = max(
            math.fsum(
                max(0.0, one.judged - one.cost) for one in log if end.at - PERIOD < one.at <= end.at
            )
            for end in log
        )
        most = 1 + excess / capacity
        yield Figure(f"{name}: fullest window", verdict.worst, "of the limit", at_most=most)
    else:
        yield Figure(f"{name}: windows over by actual costs", verdict.over, "", at_most=0)
        ratio = ACTUAL / ESTIMATED
        yield Figure(f"{name}: use of the limit", used, "", note=f"without settling {ratio:.2f}")
