"""The coordinator over random histories: what has to be true after every single request."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters.leases import ranges
from limiters.leases.coordinator import Coordinator
from limiters.leases.messages import Reply, Request, Terms
from limiters.leases.ranges import EMPTY, Ranges

TERMS = Terms(capacity=1_050.0, factor=100.0, period_ms=1_000, lease_ms=2_000)
GONE_MS = 2_000 + 1_006
"""How long after it was last heard of an instance is given up."""


class Asker:
    """An instance that follows what it is told, and mostly tells what is true."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.random = random
        self.seq = 0
        self.held: Ranges = EMPTY
        self.until_ms = 0
        self.terms = TERMS
        self.last: Request | None = None

    def ask(self, **changes: object) -> Request:
        random = self.random
        released = ranges.EMPTY
        if random.random() < 0.4:
            released = ranges.highest(self.held, random.randrange(6))
        self.held = ranges.without(self.held, released)
        self.seq += 1
        worth = ranges.count(released) * TERMS.factor
        request = Request(
            instance=self.name,
            seq=self.seq,
            terms=self.terms,
            held=self.held,
            until_ms=self.until_ms,
            released=released,
            history=((random.randrange(0, 1_000, 5), worth * random.random()),) if worth else (),
            need=random.choice([0, 50, 300, 700, 2_000]),
            gathering=random.choice([0, 0, 0, 250, 1_050]),
            waited_ms=random.choice([0, 100, 6_000]),
            weight=random.choice([1.0, 3.0]),
            leaving=random.random() < 0.03,
        )
        self.last = replace(request, **changes)  # type: ignore[arg-type]
        return self.last

    def hear(self, reply: Reply) -> None:
        if not reply.stale:
            self.held, self.until_ms, self.terms = reply.held, reply.until_ms, reply.terms


class History:
    """Random requests, some lost on the way there or back, some doubled; and random faults."""

    def __init__(self, seed: int, *, forgetful: bool = True) -> None:
        self.random = Random(seed)
        self.coordinator = Coordinator(forgetful=forgetful)
        self.now_ms = 1_000_000
        self.server = "one"
        self.askers = [Asker(f"i{number}", self.random) for number in range(6)]
        self.old = self.askers[0].ask()

    def step(self) -> None:
        random = self.random
        self.now_ms += random.choice([0, 1, 20, 50, 200, 500, 900])
        what = random.random()
        if what < 0.02:
            self.now_ms += random.choice([1_500, 2_500, 3_500, 9_000])
        elif what < 0.05:
            terms = replace(TERMS, capacity=random.choice([120.0, 700.0, 1_050.0, 1_600.0]))
            ramp = random.choice([None, 0.2])
            self.coordinator.set_capacity(terms, self.now_ms, self.server, ramp)
        elif what < 0.06:
            self.server = random.choice(["one", "two"])
        elif what < 0.065:
            self.coordinator.forget()
        elif what < 0.08:
            self.coordinator.evict(random.choice(self.askers).name)
        self.exchange(random.choice(self.askers))

    def exchange(self, asker: Asker) -> None:
        random = self.random
        again = asker.last is not None and random.random() < 0.2
        request = asker.last if again and asker.last is not None else asker.ask()
        if random.random() < 0.1:
            return  # lost
        if random.random() < 0.05:
            request, self.old = self.old, request  # an old one, late
            self.coordinator.sync(request, self.now_ms, self.server)
            return
        before = self.coordinator.now_ms
        reply = self.coordinator.sync(request, self.now_ms, self.server)
        self.now_ms = max(self.now_ms, before)
        if random.random() >= 0.1:
            asker.hear(reply)


def check(coordinator: Coordinator) -> None:
    """Every partition is free, or held by one; of those that are too many, all are held."""
    there = set(range(coordinator.pool.partitions))
    free = set(ranges.indexes(coordinator.pool.free))
    condemned = set(ranges.indexes(coordinator.pool.condemned))
    held: list[int] = []
    for member in coordinator.members.values():
        held += ranges.indexes(member.held)
    assert len(held) == len(set(held)), "two hold the same"
    assert not free & set(held)
    assert free | (set(held) & there) == there
    assert set(held) - there == condemned
    waiting = {name for _, name in coordinator.going}
    assert waiting == set(coordinator.members)
    for known in (coordinator.asking, coordinator.dear, coordinator.coming.at_ms):
        assert set(known) <= set(coordinator.members)
    assert all(cost > 0 for cost in coordinator.pool.spent.values()) or not coordinator.pool.spent


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.booleans())
def test_c2_whatever_happens_a_partition_has_one_holder_or_none(seed: int, forgetful: bool) -> None:
    history = History(seed, forgetful=forgetful)
    for _ in range(80):
        history.step()
        if history.coordinator.terms is not None:
            check(history.coordinator)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_c8_nobody_is_granted_anything_while_it_is_not_known_who_holds_what(seed: int) -> None:
    history = History(seed)
    for _ in range(80):
        held = {name: one.held for name, one in history.coordinator.members.items()}
        late = history.old
        history.step()
        coordinator = history.coordinator
        if coordinator.terms is None or coordinator.now_ms >= coordinator.quarantine_ms:
            continue
        for name, member in coordinator.members.items():
            told = next(one for one in history.askers if one.name == name)
            claims = ranges.union(held.get(name, EMPTY), told.held)
            asked = told.last.held if told.last else EMPTY
            old = late.held if late.instance == name else EMPTY
            claims = ranges.union(claims, ranges.union(asked, old))
            assert not ranges.without(member.held, claims)


def state_of(coordinator: Coordinator) -> tuple[object, ...]:
    """What decides who holds what, but for how long leases last."""
    members = {
        name: (one.seq, one.held, one.need, one.gathering, one.weight, tuple(one.given))
        for name, one in coordinator.members.items()
    }
    return (
        members,
        coordinator.pool.free,
        coordinator.pool.condemned,
        dict(coordinator.pool.spent),
        coordinator.terms,
        coordinator.quarantine_ms,
    )


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_c2_a_request_sent_again_changes_nothing_but_the_lease(seed: int) -> None:
    history = History(seed)
    for _ in range(40):
        history.step()
    coordinator, asker = history.coordinator, history.askers[1]
    asker.seq += 1
    request = asker.ask()
    first = coordinator.sync(request, history.now_ms, history.server)
    before = state_of(coordinator)
    later = history.now_ms + history.random.randrange(400)
    # Nobody is given up meanwhile: that would not be this request's doing.
    if any(history.now_ms < one.gone_ms <= later for one in coordinator.members.values()):
        return
    if coordinator.now_ms < coordinator.quarantine_ms <= later or coordinator.ramp.per_ms:
        return
    second = coordinator.sync(request, later, history.server)
    assert state_of(coordinator) == before
    assert second.held == first.held
    assert second.until_ms == (first.until_ms if request.leaving else later + 2_000)
    assert [cost for _, cost in second.history] == [cost for _, cost in first.history]


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_c2_an_older_request_changes_nothing_at_all(seed: int) -> None:
    history = History(seed)
    for _ in range(40):
        history.step()
    coordinator, asker = history.coordinator, history.askers[2]
    old = asker.ask(leaving=False)
    coordinator.sync(asker.ask(leaving=False), history.now_ms, history.server)
    leases = {name: one.until_ms for name, one in coordinator.members.items()}
    before = copy.deepcopy(state_of(coordinator))
    assert coordinator.sync(old, history.now_ms, history.server) == Reply(stale=True)
    assert state_of(coordinator) == before
    assert {name: one.until_ms for name, one in coordinator.members.items()} == leases


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_c2_what_was_spent_of_the_released_is_never_lost_while_it_counts(seed: int) -> None:
    # Whatever is released is in the pool, or has gone along with a grant.
    random = Random(seed)
    coordinator = Coordinator(forgetful=False)
    now_ms = 5_000
    askers = [Asker(f"i{number}", random) for number in range(4)]
    spent: list[tuple[int, float]] = []
    went: list[tuple[int, float]] = []
    for _ in range(60):
        now_ms += random.choice([1, 30, 100, 300])
        asker = random.choice(askers)
        request = asker.ask(leaving=False)
        # Nothing is given up: what was spent of that counts until it is.
        for other in askers:
            if other is not asker and other.last is not None:
                coordinator.sync(other.last, now_ms)
        spent += [(now_ms - age, cost) for age, cost in request.history]
        reply = coordinator.sync(request, now_ms)
        asker.hear(reply)
        went += [(now_ms - age, cost) for age, cost in reply.history]
        # What counts for sure: in the pool it may count longer, as its time is rounded up.
        recent = math.fsum(cost for at, cost in spent if at > now_ms - 1_000)
        pool = math.fsum(coordinator.pool.spent.values())
        given_ = math.fsum(cost for at, cost in went if at > now_ms - 1_006)
        assert pool + given_ >= recent - 1e-6


def test_c8_a_forgetful_one_grants_nothing_before_lease_and_period_are_over() -> None:
    coordinator = Coordinator()
    reply = coordinator.sync(Request("a", 1, TERMS, need=5_000), 10_000)
    assert reply.created
    assert reply.held == EMPTY
    assert reply.quarantine_ms == reply.come_back_ms == GONE_MS
    reply = coordinator.sync(Request("a", 2, TERMS, need=5_000), 10_000 + GONE_MS - 1)
    assert reply.held == EMPTY
    reply = coordinator.sync(Request("a", 3, TERMS, need=5_000), 10_000 + GONE_MS)
    assert reply.held == ((0, 10),)
    assert not reply.created


def test_c8_after_a_loss_who_shows_a_lease_keeps_it_and_who_shows_none_waits() -> None:
    coordinator = Coordinator()
    lease = {"held": ((0, 3),), "until_ms": 11_500}
    kept = coordinator.sync(Request("a", 7, TERMS, need=400, **lease), 10_000, "new")  # type: ignore[arg-type]
    assert kept.held == ((0, 3),)
    other = coordinator.sync(
        Request("b", 4, TERMS, held=((2, 5),), until_ms=9_999, need=400), 10_000, "new"
    )
    assert other.held == EMPTY
    both = coordinator.sync(
        Request("c", 4, TERMS, held=((2, 5),), until_ms=11_000, need=400), 10_001, "new"
    )
    assert both.held == ((4, 5),)


def test_c2_one_that_is_not_heard_of_is_given_up_a_period_after_its_lease() -> None:
    coordinator = Coordinator(forgetful=False)
    assert coordinator.sync(Request("a", 1, TERMS, need=5_000), 10_000).held == ((0, 10),)
    assert coordinator.sync(Request("b", 1, TERMS, need=5_000), 10_000 + GONE_MS - 1).held == EMPTY
    reply = coordinator.sync(Request("b", 2, TERMS, need=5_000), 10_000 + GONE_MS)
    assert reply.held == ((0, 10),)
    assert reply.history == ()
    assert "a" not in coordinator.members


def test_c5_an_evicted_one_loses_all_and_gets_nothing() -> None:
    coordinator = Coordinator(forgetful=False)
    coordinator.sync(Request("a", 1, TERMS, need=5_000), 10_000)
    assert coordinator.evict("a")
    assert not coordinator.evict("nobody")
    reply = coordinator.sync(Request("a", 2, TERMS, held=((0, 10),), need=5_000), 10_100)
    assert reply.evicted
    assert reply.at_once
    assert reply.keep == 0
    assert not reply.keep_last


@pytest.mark.parametrize("capacity", [0.0, 0.5, 99.0, 100.0, 101.0, 1e6])
def test_c10_partitions_add_up_to_the_capacity(capacity: float) -> None:
    coordinator = Coordinator(forgetful=False)
    terms = replace(TERMS, capacity=capacity)
    reply = coordinator.sync(Request("a", 1, terms, need=2e6), 10_000)
    assert ranges.count(reply.held) == math.ceil(capacity / 100)
    assert coordinator.pool.units(reply.held) * 100 == pytest.approx(capacity)


def test_nothing_grows_with_those_that_have_come_and_gone() -> None:
    coordinator = Coordinator(forgetful=False)
    now_ms = 10_000
    for number in range(2_000):
        now_ms += 20
        name = f"i{number}"
        dear = 1_050.0 if number % 3 else 0.0
        request = Request(name, 1, TERMS, need=1_050.0, gathering=dear, waited_ms=9_000)
        held = coordinator.sync(request, now_ms).held
        if number % 2:
            history = ((number % 900, 1.0),)
            request = Request(name, 2, TERMS, released=held, history=history, leaving=True)
            coordinator.sync(request, now_ms + 1)
    assert len(coordinator.members) <= GONE_MS / 20 + 2
    named = (coordinator.asking, coordinator.dear, coordinator.coming.at_ms)
    for known in (coordinator.going, *named):
        assert len(known) <= len(coordinator.members)
    assert len(coordinator.pool.spent) <= 210


def test_c2_a_late_request_of_one_that_was_given_up_swallows_nothing() -> None:
    """It is granted something, and what was spent of that: to nobody."""
    terms = Terms(1_000.0, 100.0, 1_000, 2_000)
    coordinator = Coordinator(forgetful=False)
    old = coordinator.sync(Request("b", 5, terms, need=0.0), 1_000)
    coordinator.sync(Request("a", 1, terms, need=1_000.0), 5_000)  # b was given up
    coordinator.sync(Request("a", 2, terms, released=((0, 9),), history=((10, 1_000.0),)), 5_100)
    late = coordinator.sync(Request("b", 4, terms, need=1_000.0), 5_200)
    assert sum(cost for _, cost in late.history) == 1_000  # and nobody hears of it
    reply = coordinator.sync(Request("b", 6, terms, need=1_000.0, born_ms=old.born_ms), 5_300)
    assert reply.held == ((0, 9),)
    assert sum(cost for _, cost in reply.history) == 1_000
