"""Calls in flight in one process: laws N1, N3 and N4, against a plain list of calls."""

from __future__ import annotations

import gc
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters._budgets.slots import LOOK_AGAIN, SlotLedger
from limiters._budgets.spend import Spend, Tenure
from tests.examples import examples
from tests.interrupting import ERRORS, each_point


class Calls:
    """Random calls on a ledger, compared with a list of those in flight."""

    def __init__(self, slots: int, *, strict: bool) -> None:
        self.ledger = SlotLedger(slots, strict=strict, freed=self._freed)
        self.slots = slots
        self.strict = strict
        self.now = 0.0
        self.charged: list[tuple[Spend, int]] = []
        self.running: list[tuple[Spend, int]] = []
        self.abandoned: list[tuple[Spend, int]] = []
        self.frees = 0

    def _freed(self) -> None:
        self.frees += 1

    @property
    def taken(self) -> int:
        """Count the slots by the plain lists."""
        lasting = self.charged + self.running + (self.abandoned if self.strict else [])
        return sum(slots for _, slots in lasting)

    def step(self, random: random.Random) -> None:
        self.now += random.random()
        what = random.choice("ggscaaeeel")
        if what == "g":
            self._grant(random)
        elif what == "l":
            self.slots = random.randint(0, 5)
            self.ledger.set_capacity(self.slots)
        else:
            self._follow(what, random)

    def _grant(self, random: random.Random) -> None:
        there = int(self.ledger.available(self.now))
        self.ledger.hold(there)
        assert self.ledger.available(self.now) == 0, "what is set aside goes to no other call"
        used = random.randint(0, there)
        if used:
            self.charged.append((self.ledger.charge(used, self.now), used))
        self.ledger.release(there - used)

    def _follow(self, what: str, random: random.Random) -> None:
        source = {"s": self.charged, "c": self.charged, "a": self.running}.get(what)
        if source is None:
            source = random.choice([self.running, self.abandoned])
        if not source:
            return
        call = source.pop(random.randrange(len(source)))
        if what == "s":
            assert call[0].started(self.now)
            self.running.append(call)
        elif what == "c":
            call[0].cancel()
        elif what == "a":
            call[0].abandoned(self.now)
            self.abandoned.append(call)
        else:
            for _ in range(random.randint(1, 3)):  # reported twice, it counts once
                call[0].ended(self.now)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 5), st.booleans(), st.integers(0, 2**32))
def test_n1_slots_are_taken_from_the_charge_to_the_end(slots: int, strict: bool, seed: int) -> None:
    calls, chance = Calls(slots, strict=strict), random.Random(seed)
    for _ in range(60):
        before = calls.taken
        calls.step(chance)
        assert calls.taken <= max(before, calls.slots), "one call more than there are slots"
        assert calls.ledger.spent(calls.now) == calls.ledger.pledged == calls.taken
        assert calls.ledger.available(calls.now) == max(0, calls.slots - calls.taken)


@settings(max_examples=examples(50), deadline=None)
@given(st.booleans(), st.integers(0, 2**32))
def test_n3_once_all_is_quiet_all_are_free(strict: bool, seed: int) -> None:
    calls, chance = Calls(5, strict=strict), random.Random(seed)
    for _ in range(60):
        calls.step(chance)
    for spend, _ in calls.charged + calls.running + calls.abandoned:
        spend.ended(calls.now)
    calls.ledger.set_capacity(5)
    assert calls.ledger.available(calls.now) == 5
    assert calls.ledger.total() == calls.ledger.charged()


@pytest.mark.parametrize(("strict", "free"), [(True, 0), (False, 1)])
def test_n4_an_abandoned_call_keeps_its_slot_until_it_returns(strict: bool, free: int) -> None:
    ledger = SlotLedger(1, strict=strict)
    ledger.hold(1)
    call = ledger.charge(1, now=0.0)
    assert call.started(0.0)
    call.abandoned(60.0)
    assert ledger.available(60.0) == free
    call.ended(1_000.0)
    assert ledger.available(1_000.0) == 1


def test_n1_a_call_whose_lease_ended_before_it_began_gives_its_slot_back() -> None:
    freed: list[None] = []
    ledger = SlotLedger(1, freed=lambda: freed.append(None))
    ledger.hold(1)
    assert not ledger.charge(1, 0.0, Tenure(until=1.0)).started(1.0)
    assert (ledger.available(1.0), ledger.total(), len(freed)) == (1, 0, 1)


class Owner:
    """Something that a caller keeps as long as its call runs."""


def test_n3_slots_of_an_owner_that_is_lost_are_free_again() -> None:
    ledger = SlotLedger(2)
    owner = Owner()
    payment = ledger.payment(2, 0.0, owner)
    payment.enter()
    assert ledger.available(1.0) == 0
    assert ledger.ready_at(1, 1.0) == 1.0 + LOOK_AGAIN
    del owner
    gc.collect()  # for interpreters that count no references
    assert ledger.available(1.0) == 2
    assert ledger.total() == 2


@pytest.mark.parametrize("error", ERRORS)
def test_n3_an_end_that_is_interrupted_is_not_lost(error: type[BaseException]) -> None:
    ledger = SlotLedger(1)

    def prepare() -> object:
        ledger.hold(1)
        call = ledger.charge(1, 0.0)
        call.started(0.0)
        call.ended(1.0)
        return lambda: ledger.available(1.0)

    for where in each_point(prepare, error=error, every_bytecode=True):  # type: ignore[arg-type]
        assert ledger.available(1.0) == 1, where
