"""Several bounds as one: laws V1, V2 and N1, against a log of what was charged when."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters._budgets.ledger import BoundLedger, ledger_of
from limiters._budgets.permit import PermitBudget
from limiters._budgets.purse import Purse
from limiters._budgets.several import AnyLedger, PurseOfBounds, one_ledger, one_purse
from limiters._budgets.spend import Spend, Tenure
from limiters._costs import AnyCost, Costs, is_covered, lesser
from limiters._support.float_error import FLOAT_ERROR
from limiters.limits import BoundKind, InFlight, Limits, Rate
from tests.examples import examples
from tests.interrupting import ERRORS, each_point

ALWAYS = Tenure(math.inf)

LIMITS = [
    Limits(requests=Rate(60, per=6, also=[Rate(10, per=1)]), tokens=Rate(9_000, per=6)),
    Limits(requests=Rate(20), calls=InFlight(3)),
    Limits(a=Rate(50, counts="end"), b=Rate(30, per=0.5), calls=InFlight(4, strict=False)),
    Limits(requests=Rate(60, per=6, also=[Rate(30, per=2), Rate(20, per=1)])),
]


class Batch:
    """One batch of the log."""

    def __init__(self, spend: Spend, cost: AnyCost, now: float) -> None:
        self.spend = spend
        self.cost = cost
        self.started_at = self.ended_at = math.inf
        self.charged_at = now


class Log:
    """A log of what was charged, and what a plain reading of it gives for each bound."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.batches: list[Batch] = []

    def counted(self, now: float) -> list[float]:
        """For each bound, what it counts now, by definition."""
        sums = [0.0] * len(self.limits.bounds)
        for batch in self.batches:
            for at, cost in enumerate(self.limits.by_bound(batch.cost)):
                bound = self.limits.bounds[at]
                if bound.kind is BoundKind.SLOTS:
                    until = batch.ended_at
                elif bound.at_end:
                    until = batch.ended_at + bound.period
                else:
                    until = batch.started_at + bound.period
                sums[at] += cost if now < until else 0.0
        return sums

    def check(self, now: float) -> None:
        for bound, counted in zip(self.limits.bounds, self.counted(now), strict=True):
            assert counted <= bound.capacity * (1 + FLOAT_ERROR), f"{bound} at {now}"


def some_cost(limits: Limits, chance: random.Random) -> AnyCost:
    if limits.is_scalar:
        return chance.randint(1, 5)
    most = Costs() + limits.most
    amounts = {name: chance.choice([0, 1, 1, max(1, one // 10)]) for name, one in most.items()}
    return Costs(amounts) or Costs({limits.dimensions[0]: 1})


def play(limits: Limits, grant: Callable[[AnyCost, float], Spend | None], seed: int) -> Log:
    """Batches of random costs that begin late, run, are abandoned and end."""
    chance, log, now = random.Random(seed), Log(limits), 0.0
    waiting: list[Batch] = []
    running: list[Batch] = []
    for _ in range(150):
        now += chance.choice([0.0, 0.02, 0.2])
        what = chance.random()
        if what < 0.6:
            cost = some_cost(limits, chance)
            spend = grant(cost, now)
            if spend is not None:
                waiting.append(Batch(spend, cost, now))
                log.batches.append(waiting[-1])
        elif what < 0.8 and waiting:
            batch = waiting.pop(0)
            if chance.random() < 0.1:
                batch.spend.cancel()
                log.batches.remove(batch)
            else:
                assert batch.spend.started(now)
                batch.started_at = now
                running.append(batch)
        elif running:
            batch = running.pop(chance.randrange(len(running)))
            batch.spend.ended(now)
            batch.ended_at = now
        log.check(now)
    return log


def granting(limits: Limits, ledger: AnyLedger) -> Callable[[AnyCost, float], Spend | None]:
    def grant(cost: AnyCost, now: float) -> Spend | None:
        there = lesser(cost, ledger.available(now, cost))
        ledger.hold(there)
        if not is_covered(there, cost):
            ledger.release(there)
            return None
        return ledger.charge(cost, now)

    return grant


def ledgers_of(limits: Limits) -> list[BoundLedger]:
    return [ledger_of(bound) for bound in limits.bounds]


def at_rest(ledgers: list[BoundLedger], now: float) -> bool:
    """Whether nothing is set aside, or counts."""
    return all(one.spent(now) == 0 and abs(one.pledged) < 1e-9 for one in ledgers)


@pytest.mark.parametrize("limits", LIMITS)
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_v1_n1_no_bound_is_ever_over(limits: Limits, seed: int) -> None:
    ledgers = ledgers_of(limits)
    log = play(limits, granting(limits, one_ledger(limits, ledgers)), seed)
    for batch in log.batches:
        batch.spend.ended(100.0)
        batch.spend.cancel()
    assert at_rest(ledgers, 200.0), "something stayed set aside"


def purse_of(limits: Limits) -> PurseOfBounds:
    """A tenth reserved, and the rest shared."""
    purses = []
    for bound in limits.bounds:
        slots = bound.kind is BoundKind.SLOTS
        reserved = 1.0 if slots else bound.capacity / 10
        ledgers = ledger_of(bound, reserved), ledger_of(bound, bound.capacity - reserved)
        purses.append(Purse(ledgers[0], PermitBudget(at_end=bound.at_end), ledgers[1]))
    made = one_purse(limits, purses)
    assert isinstance(made, PurseOfBounds)
    return made


@pytest.mark.parametrize("limits", LIMITS)
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_v1_nor_if_a_part_of_it_is_reserved(limits: Limits, seed: int) -> None:
    purse = purse_of(limits)

    def grant(cost: AnyCost, now: float) -> Spend | None:
        parts = purse.available(now, cost).up_to(cost)
        purse.hold(parts)
        try:
            if not is_covered(parts.amount, cost):
                return None
            paying = parts.paying(cost)
            parts = parts.less(paying)
            return purse.charge(paying, now, ALWAYS)
        finally:
            purse.release(parts)

    log = play(limits, grant, seed)
    for batch in log.batches:
        batch.spend.ended(100.0)
        batch.spend.cancel()
    budgets = [it for one in purse.purses for it in (one.reserved, one.shared)]
    assert at_rest(budgets, 200.0), "something stayed set aside"


def test_v2_a_batch_is_charged_in_all_bounds_at_one_instant_or_in_none() -> None:
    limits = LIMITS[0]
    ledgers = ledgers_of(limits)
    ledger = one_ledger(limits, ledgers)
    cost = Costs({"requests": 1, "tokens": 300})
    grant = granting(limits, ledger)
    spend = grant(cost, 0.0)
    assert spend is not None
    assert [one.starting for one in ledgers] == [1, 1, 300]
    assert grant(Costs({"requests": 1, "tokens": 9_000}), 0.0) is None
    assert [one.pledged for one in ledgers] == [1, 1, 300]
    spend.cancel()
    assert at_rest(ledgers, 0.0)


def test_v2_what_lapses_in_one_bound_costs_nothing_in_the_others() -> None:
    limits = LIMITS[1]
    purse = purse_of(limits)
    parts = purse.available(0.0, Costs({"requests": 5})).up_to(Costs({"requests": 5, "calls": 2}))
    purse.hold(parts)
    spend = purse.charge(parts, 0.0, Tenure(until=1.0))
    assert not spend.started(1.0)
    assert all(at_rest([one.reserved, one.shared], 1.0) for one in purse.purses)


def test_v8_nothing_goes_beyond_a_nested_window_after_a_rest() -> None:
    limits = LIMITS[0]
    ledger = one_ledger(limits, ledgers_of(limits))
    assert ledger.available(100.0) == {"requests": 1, "tokens": 900}
    assert ledger.burst(100.0) == {"requests": 1, "tokens": 900}
    assert ledger.available(100.0, Costs({"requests": 60})) == {"requests": 10, "tokens": 900}


def test_v1_what_is_there_in_one_window_alone_is_not_offered() -> None:
    purse = purse_of(LIMITS[0])
    parts = purse.available(100.0).up_to(LIMITS[0].most)
    outer, inner, tokens = (sum(one) for one in parts.bounds)
    assert outer == inner == pytest.approx(1.0)
    assert tokens == pytest.approx(900)


@pytest.mark.parametrize("limits", LIMITS[:1] + LIMITS[3:])
def test_v4_a_queue_that_waits_for_ready_at_uses_the_binding_bound(limits: Limits) -> None:
    ledger = one_ledger(limits, ledgers_of(limits))
    grant = granting(limits, ledger)
    cost: AnyCost = 1 if limits.is_scalar else Costs({"requests": 1, "tokens": 60})
    now, count = 0.0, 0
    while now < 60.0:
        spend = grant(cost, now)
        if spend is None:
            now = max(now + 1e-4, ledger.ready_at(cost, now))
        else:
            spend.started(now)
            count += 1
    assert 0.97 * 600 <= count <= 1.02 * 600


class Owner:
    """The owner of a call."""


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("limits", LIMITS)
def test_v2_an_interrupted_payment_is_undone_as_a_whole(
    limits: Limits, error: type[BaseException]
) -> None:
    ledgers = ledgers_of(limits)
    ledger = one_ledger(limits, ledgers)
    cost = some_cost(limits, random.Random(1))
    owner, now = Owner(), 0.0

    def prepare() -> Callable[[], object]:
        payments.append(ledger.payment(cost, now, owner))
        return payments[-1].enter

    payments = [ledger.payment(cost, now, owner)]
    for where in each_point(prepare, error=error, every_bytecode=True):
        payments[-1].spend.cancel()
        assert at_rest(ledgers, now), where
        now += 100.0
