"""Whole Batchers under several limits together, in one process: nothing over, and hardly less used
than by one queue for all (laws V1, V4, N1)."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import Operation, Watcher
from dispatcher._core.queues.batch import OperationBatch
from limiters import InFlight, Limits, ProvisionedResource, Rate
from limiters._budgets.several import LedgerOfBounds
from limiters._costs import AnyCost, Costs
from limiters.limits import Bound, BoundKind
from limiters.testing import ManualClock
from limiters.verifier import SpentCall, verify_limits
from tests.crank import Call, Crank, ignore
from tests.examples import examples

ENOUGH = 500
"""How many operations wait in each Batcher at least."""


def total(costs: Iterable[AnyCost]) -> Costs:
    return Costs() + sum(costs)


@dataclass
class Log:
    """Record the calls that a server sees."""

    calls: list[SpentCall] = field(default_factory=list)

    def note(self, start: float, cost: Costs, end: float) -> None:
        self.calls.append(SpentCall(start, "", cost, end))

    def check(self, limits: Limits) -> None:
        """No window of any bound is over, and no more calls are in flight than there may be."""
        verdict = verify_limits(self.calls, limits)
        assert verdict.holds, str(verdict)

    def used(self, dimension: str, since: float, until: float) -> float:
        within = (call.cost for call in self.calls if since <= call.at < until)
        return total(within).amount(dimension)


@dataclass
class Traffic:
    """Batchers that share a limiter, each with a backlog of its own, and calls that take time."""

    limits: Limits
    lasts: Callable[[], float]
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.limiter = ProvisionedResource(self.limits, clock=self.clock)
        self.running: list[tuple[float, int, Crank, Call]] = []
        self.numbers = itertools.count()
        self.cranks: list[tuple[Crank, Watcher, Iterator[Costs]]] = []
        self.operations = 0
        """How many were raised."""

    def add(self, watcher: Watcher, costs: Iterable[Costs]) -> None:
        crank = Crank(limiter=self.limiter, clock=self.clock)
        self.limiter.add_wake_up(lambda: crank.engine.post(crank.engine.look))
        self.cranks.append((crank, watcher, iter(costs)))

    def run(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while (now := self.clock.now()) < end:
            while self.running and self.running[0][0] <= now:
                _, _, crank, call = heapq.heappop(self.running)
                call.end()
            busy = False
            for crank, watcher, costs in self.cranks:
                while crank.engine.open_work.waiting < ENOUGH and (
                    more := list(itertools.islice(costs, ENOUGH))
                ):
                    crank.entrance.enqueue_many(
                        [Operation(watcher, cost, None, batchable=True) for cost in more]
                    )
                    crank.turn()
                if crank.rung or crank.mailbox or crank.wake <= now:
                    crank.turn()
                    busy = True
                self.note(crank, watcher)
            if not busy:
                wakes = [crank.wake for crank, _, _ in self.cranks]
                ends = [one[0] for one in self.running[:1]]
                self.clock.advance(max(1e-6, min([end, *wakes, *ends]) - now))

    def note(self, crank: Crank, watcher: Watcher) -> None:
        now = self.clock.now()
        for call in list(crank.calls):
            crank.calls.remove(call)
            self.operations += len(call.operations)
            cost = total([watcher.batch_cost, *(one.cost for one in call.operations)])
            end = now + self.lasts()
            self.log.note(now, cost, end)
            heapq.heappush(self.running, (end, next(self.numbers), crank, call))


def first_come_first_served(
    limits: Limits, calls: Iterable[Costs], lasts: Callable[[], float], seconds: float
) -> Log:
    """One queue for all that starts each call as soon as all bounds have room for it."""
    log, now = Log(), 0.0
    spent: dict[Bound, list[tuple[float, float]]] = defaultdict(list)
    for cost in calls:
        for bound in limits.bounds:
            now = max(now, _room_at(bound, spent[bound], cost.amount(bound.dimension), now))
        if now >= seconds:
            return log
        end = now + lasts()
        for bound in limits.bounds:
            until = end if bound.kind is BoundKind.SLOTS else now + bound.period
            heapq.heappush(spent[bound], (until, cost.amount(bound.dimension)))
        log.note(now, cost, end)
    raise AssertionError("it has come to the end of the queue")


def _room_at(bound: Bound, spent: list[tuple[float, float]], cost: float, now: float) -> float:
    while spent and spent[0][0] <= now:
        heapq.heappop(spent)
    total = sum(one for _, one in spent)
    while cost and total + cost > bound.capacity:
        now, freed = heapq.heappop(spent)
        total -= freed
    return now


def api_for(requests: float, tokens: float, calls: int = 20) -> Limits:
    """So many of them a second, judged in 6 s; the requests in each second as well."""
    return Limits(
        requests=Rate(6 * requests, per=6, also=[Rate(requests, per=1)]),
        tokens=Rate(6 * tokens, per=6),
        calls=InFlight(calls),
    )


def prompts(name: str, sizes: Sequence[int]) -> list[Costs]:
    dice = random.Random(name)
    return [Costs({"tokens": dice.choice(sizes)}) for _ in range(10_000)]


def compared(
    limits: Limits, queues: Sequence[list[Costs]], full: int, binding: str, seconds: float
) -> tuple[float, Traffic]:
    """Return how much Batchers use of a dimension, each with one of the `queues`, as a share of
    what one queue for all uses, first come first served, of the same operations in full batches."""
    call = Costs({"requests": 1, "calls": 1})
    dice = random.Random(5)

    def lasts() -> float:
        return dice.uniform(0.2, 1)

    traffic = Traffic(limits, lasts)
    for costs in queues:
        traffic.add(Watcher(ignore, max_batch_size=full, batch_cost=call), costs)
    traffic.run(seconds)
    traffic.log.check(limits)
    starts = range(0, len(queues[0]), full)
    everybody = (
        total([call, *costs[start : start + full]]) for start in starts for costs in queues
    )
    queue = first_come_first_served(limits, everybody, lasts, seconds)
    used, by_queue = (one.used(binding, 12, seconds) for one in (traffic.log, queue))
    return used / by_queue, traffic


MIXES: dict[str, tuple[float, Sequence[Sequence[int]], str]] = {
    "requests bind": (1_500, [[60, 60, 60, 400]], "requests"),
    "tokens bind": (1_500, [[60, 400]], "tokens"),
    "each its own": (1_500, [[60], [400]], "tokens"),
    "example": (2_000, [[20, 380]], "tokens"),
}


@pytest.mark.parametrize(
    ("mix", "many"),
    [
        ("requests bind", 1),
        ("tokens bind", 1),
        pytest.param("tokens bind", 2, marks=pytest.mark.thorough),
        *(
            pytest.param(mix, many, marks=pytest.mark.long)
            for mix, many in [
                ("requests bind", 2),
                ("each its own", 2),
                ("example", 1),
                ("example", 2),
            ]
        ),
    ],
)
def test_v4_hardly_less_of_the_binding_dimension_is_used_than_by_one_queue(
    mix: str, many: int
) -> None:
    tokens, kinds, binding = MIXES[mix]
    queues = [prompts(f"{mix} {n}", kinds[n % len(kinds)]) for n in range(many)]
    share, _ = compared(api_for(10, tokens), queues, 1, binding, 120 / len(queues))
    assert share >= 0.97


@pytest.mark.parametrize(
    ("limits", "binding"),
    [
        (api_for(2, 15_000), "requests"),
        (api_for(2, 3_800), "tokens"),
        (api_for(50, 150_000, calls=3), "calls"),
    ],
)
def test_v3_batches_are_full_where_what_they_cost_binds(limits: Limits, binding: str) -> None:
    share, traffic = compared(limits, [prompts(binding, [60, 400])], 8, binding, 120)
    assert share >= 0.97
    batches = len(traffic.log.calls)
    assert traffic.operations >= 0.97 * 8 * batches


# Any limits, any work.

rates = st.builds(
    lambda capacity, per, inner: Rate(
        capacity, per=per, also=[Rate(capacity * inner, per=per / 4)] if inner else []
    ),
    st.integers(5, 200),
    st.sampled_from([0.5, 1, 3]),
    st.sampled_from([0, 0.3, 0.6]),
)


@settings(max_examples=examples(20))
@given(
    rates,
    rates,
    st.integers(1, 4),
    st.lists(
        st.tuples(
            st.sampled_from([1, 3, None]),
            st.sampled_from([{}, {"a": 1}, {"calls": 1}, {"a": 1, "calls": 1}]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 2**32),
)
def test_v1_n1_no_window_is_over_and_no_call_too_many_whatever_the_limits(
    a: Rate,
    b: Rate,
    calls: int,
    watchers: list[tuple[int | None, dict[str, int]]],
    seed: int,
) -> None:
    limits, dice = Limits(a=a, b=b, calls=InFlight(calls)), random.Random(seed)
    most = Costs() + limits.most
    traffic = Traffic(limits, lambda: dice.choice([0.0, 0.01, 0.3, 2]))
    for size, batch_cost in watchers:
        # Half of a limit at most, so that all of it goes within the time. Each call takes a slot.
        call = Costs() if "calls" in batch_cost else Costs({"calls": 1})
        costs = [
            call
            + Costs({name: dice.choice([0, 0.01, 0.1, 0.5]) * (most[name] - 1) for name in "ab"})
            for _ in range(15)
        ]
        traffic.add(Watcher(ignore, max_batch_size=size, batch_cost=batch_cost), costs)
    traffic.run(100)
    traffic.log.check(limits)
    for crank, _, _ in traffic.cranks:
        work = crank.engine.open_work
        assert (work.totals.done, work.read()) == (15, (Costs(), 0, 0))


# Mistakes.


def paid_never(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperationBatch, "whole_cost", property(lambda self: self.cost))


def paid_twice(patch: pytest.MonkeyPatch) -> None:
    twice = property(lambda self: 2 * self.lane.batch_cost + self.cost)
    patch.setattr(OperationBatch, "whole_cost", twice)


def kept_between_flushes(patch: pytest.MonkeyPatch) -> None:
    """An amount of one dimension that a flush could not use, since another was lacking, stays set
    aside."""
    patch.setattr(LedgerOfBounds, "release", lambda self, amount: None)


@pytest.mark.parametrize("mistake", [paid_never, paid_twice, kept_between_flushes])
def test_v2_v3_a_mistake_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = api_for(2, 15_000)
    queue = prompts("requests", [60, 400])

    def finds() -> bool:
        try:
            share, _ = compared(limits, [queue], 8, "requests", 60)
        except AssertionError:
            return True
        return share < 0.97

    assert not finds()
    mistake(monkeypatch)
    assert finds()
