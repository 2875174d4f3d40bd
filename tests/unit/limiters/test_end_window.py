"""A rate that counts from the end of a call: law V1 for what its server sees."""

from __future__ import annotations

import gc
import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from limiters._budgets.end_window import EndWindowLedger
from limiters._budgets.permit import PermitBudget
from limiters._budgets.release import last_release, releasable
from limiters._budgets.spend import Spend
from limiters._support.float_error import FLOAT_ERROR
from tests.examples import examples
from tests.unit.limiters.test_slot_ledger import Owner

CAPACITY, PERIOD = 100.0, 1.0


class Call:
    def __init__(self, spend: Spend, cost: float, charged_at: float) -> None:
        self.spend = spend
        self.cost = cost
        self.charged_at = charged_at
        self.ended_at = math.inf

    def counts(self, now: float) -> bool:
        """Whether the call counts: from its charge until a period after its end."""
        return self.charged_at <= now < self.ended_at + PERIOD


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32))
def test_v1_what_runs_or_ended_in_the_last_period_is_never_over(seed: int) -> None:
    chance = random.Random(seed)
    ledger = EndWindowLedger(CAPACITY, PERIOD, burst=1.0)
    now, calls = 0.0, list[Call]()
    open_calls: list[Call] = []
    for _ in range(200):
        now += chance.choice([0.0, 0.01, 0.3])
        there = ledger.available(now, at_least=chance.uniform(0, CAPACITY))
        if there and chance.random() < 0.6:
            cost = there * chance.choice([0.1, 0.5, 1.0])
            ledger.hold(there)
            open_calls.append(Call(ledger.charge(cost, now), cost, now))
            calls.append(open_calls[-1])
            ledger.release(there - cost)
        elif open_calls:
            call = open_calls[chance.randrange(len(open_calls))]
            if call.spend.started_at is None:
                assert call.spend.started(now)
            else:
                open_calls.remove(call)
                call.spend.abandoned(now)
                call.spend.ended(now)
                call.ended_at = now
        counted = math.fsum(call.cost for call in calls if call.counts(now))
        assert counted <= CAPACITY * (1 + FLOAT_ERROR)
        assert ledger.spent(now) >= counted * (1 - FLOAT_ERROR)


def running(cost: float) -> tuple[EndWindowLedger, Spend]:
    ledger = EndWindowLedger(CAPACITY, PERIOD)
    ledger.hold(cost)
    call = ledger.charge(cost, 0.0)
    assert call.started(0.0)
    return ledger, call


def test_c2_what_runs_stays_with_its_holder() -> None:
    ledger, call = running(30)
    assert ledger.split(0.5, 10.0) == ([], ())
    assert releasable(ledger, 1_000, 1_000, CAPACITY, 10.0) == 700
    assert last_release(ledger, 1_000, CAPACITY, 10.0) == 700
    call.ended(10.0)
    assert releasable(ledger, 1_000, 1_000, CAPACITY, 10.1) == 1_000
    ((ended_at, cost),), _ = ledger.split(0.5, 10.1)
    assert (round(ended_at, 3), cost) == (10.0, 15)


def test_what_runs_has_begun_and_may_not_count_twice() -> None:
    ledger, call = running(30)
    assert (ledger.running, ledger.total(), ledger.charged()) == (30, 30, 30)
    call.ended(5.0)
    assert (ledger.running, ledger.total(), ledger.charged()) == (0, 30, 30)


def test_c4_ready_is_not_before_what_runs_could_have_ended() -> None:
    ledger, _ = running(100)
    assert ledger.ready_at(50, 7.0) >= 7.0 + PERIOD


def test_n3_a_call_whose_owner_is_lost_has_ended() -> None:
    ledger = EndWindowLedger(CAPACITY, PERIOD, burst=1.0)
    owner = Owner()
    ledger.payment(CAPACITY, 0.0, owner).enter()
    assert ledger.available(50.0) == 0
    del owner
    gc.collect()
    assert ledger.available(50.0) == 0
    assert ledger.available(51.1, CAPACITY) == CAPACITY


def test_c2_a_permit_reports_the_end_of_a_call_and_what_still_runs() -> None:
    permit = PermitBudget(at_end=True)
    permit.open(7, 10.0, until=5.0)
    ended, runs = permit.charge(2.0, 0.0), permit.charge(3.0, 0.0)
    assert ended.started(0.1)
    assert runs.started(0.1)
    assert permit.is_open(0.2), "something of it is left"
    ended.ended(0.5)
    assert permit.close(1.0) == (7, ((500, 2.0), (-1, 3.0)))
