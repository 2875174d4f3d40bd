"""The coordinator of several bounds: each is exact by itself, and all are charged at one instant
(laws V1, V2, V4, V5, N1, N3, N5)."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.certainty import agrees
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import DEFAULT_SPAN, NEVER, UNITS
from limiters.leases._layout import BoundLayout, layout_of
from limiters.leases._messages import BoundRequest, BoundTerms, Kind, Reply, Request, Terms
from limiters.leases._terms_change import BoundChange, LimitChange
from tests.bounds import BoundedInstance, over
from tests.examples import examples
from tests.samples import sample

RATES = Terms(
    (BoundTerms.rate(100.0, 1_000), BoundTerms.rate(20.0, 100), BoundTerms.rate(9_000.0, 1_000)),
    10.0,
    2_000,
    layout_of([BoundLayout("requests"), BoundLayout("requests"), BoundLayout("tokens")]),
)
CALLS = Terms(
    (BoundTerms.rate(1_000.0, 1_000), BoundTerms.in_flight(20, 1_000)),
    100.0,
    2_000,
    layout_of([BoundLayout("requests"), BoundLayout("calls", slots=True)]),
)


class World:
    """Instances and one server at a time; every millisecond is 5."""

    def __init__(self, seed: int, terms: Terms) -> None:
        self.random, self.terms, self.now = Random(seed), terms, 1_000_000
        self.server, self.servers = "s0", 0
        self.coordinator = Coordinator("limit", default_span=DEFAULT_SPAN)
        self.coordinator.registry = Registry(self.server, NEVER)
        self.instances: list[BoundedInstance] = []
        self.cut: set[str] = set()
        self.dead: list[BoundedInstance] = []
        self.capacities = [[(0, one.capacity)] for one in terms.bounds]

    def join(self, mix: tuple[float, ...], **settings: int) -> BoundedInstance:
        one = BoundedInstance(
            f"i{len(self.instances) + len(self.dead)}", self.terms, mix, **settings
        )
        one.due = self.now + self.random.randrange(500)
        self.instances.append(one)
        return one

    def run(self, milliseconds: int, faults: float = 0.0) -> None:
        for _ in range(milliseconds // 5):
            self.now += 5
            for one in self.instances:
                one.spend(self.now, self.random)
                if one.next_call(self.now) <= self.now:
                    self.exchange(one)
            if self.random.random() < faults:
                self.fail()

    def exchange(self, one: BoundedInstance, *, leaving: bool = False) -> Reply | None:
        for _ in range(6):
            request = one.compose(self.now, leaving=leaving)
            if one.name in self.cut or self.random.random() < 0.02:
                one.due = self.now + 100
                return None
            reply = self.coordinator.sync(request, self.server, self.now)
            assert reply.kind is not Kind.INVALID
            if self.random.random() < 0.02:
                one.due = self.now + 100
                return None
            one.answered(reply, self.now)
            one.spend(self.now, self.random)
            if reply.kind not in (Kind.RETRY, Kind.CHALLENGE):
                return reply
        return None

    def fail(self) -> None:
        """Something goes wrong, or an operator changes something."""
        random, what = self.random, self.random.randrange(8)
        one = random.choice(self.instances)
        if what == 0:
            self.cut ^= {one.name}
        elif what == 1 and len(self.instances) > 1:
            self.instances.remove(one)
            self.dead.append(one)
        elif what == 2:
            self.join(random.choice([one.mix, tuple(cost * 2 for cost in one.mix)]))
            self.instances[-1].mix = one.mix
        elif what == 3:
            self.coordinator.limit = None
            self.coordinator.registry = None
        elif what == 4:
            self.servers += 1
            self.server = f"s{self.servers}"
        elif what == 5:
            at = random.randrange(len(self.terms.bounds))
            self.change(at, self.terms.bounds[at].capacity * random.choice([0.5, 0.75, 1.0]))
        elif what == 6:
            one.backlog = not one.backlog
        else:
            self.exchange(one, leaving=True)

    def change(self, at: int, capacity: float) -> None:
        changes = [BoundChange(slots=one.slots) for one in self.terms.bounds]
        whole = float(math.floor(capacity)) if self.terms.bounds[at].slots else capacity
        changes[at] = replace(changes[at], capacity=whole)
        change = LimitChange(tuple(changes), layout=self.terms.layout)
        if self.coordinator.set_terms(self.server, self.now, f"set {self.now}", change):
            self.capacities[at].append((self.now, whole))

    def judge(self) -> None:
        calls = [call for one in (*self.instances, *self.dead) for call in one.calls]
        for at, terms in enumerate(self.terms.bounds):
            # An instance may have received any of them, and restore it after all was lost.
            told = [(0, max(capacity for _, capacity in self.capacities[at]))]
            assert not over(calls, at, terms, told)
        limit = self.coordinator.limit
        assert limit is None or agrees(limit)

    def used(self, at: int, since: int) -> float:
        """The part of a bound that was used since then: of slots, how many were busy."""
        terms = self.terms.bounds[at]
        calls = [call for one in self.instances for call in one.calls if call.ends > since]
        if terms.slots:
            busy = sum(min(call.ends, self.now) - max(call.at, since) for call in calls)
            return busy / (self.now - since) / terms.capacity
        spent = math.fsum(call.costs[at] for call in calls if call.at > since)
        return spent / terms.capacity / ((self.now - since) / terms.period)


MIXES = [(1.0, 1.0, 60.0), (1.0, 1.0, 400.0), (1.0, 1.0, 0.0), (4.0, 4.0, 10.0)]


@settings(max_examples=examples(6))
@given(st.integers(0, 2**32))
def test_v1_no_window_of_any_rate_is_over_whatever_happens(seed: int) -> None:
    world = World(seed, RATES)
    for _ in range(world.random.randrange(1, 7)):
        world.join(world.random.choice(MIXES))
    world.run(15_000, faults=0.01)
    world.judge()


@settings(max_examples=examples(2))
@given(st.integers(0, 2**32))
def test_n1_never_more_calls_than_slots_whatever_happens(seed: int) -> None:
    world = World(seed, CALLS)
    for _ in range(world.random.randrange(1, 30)):
        lasts = world.random.choice([20, 200, 490])
        world.join((world.random.choice([1.0, 5.0]), 1.0), lasts=lasts)
    world.run(15_000, faults=0.01)
    world.judge()


@pytest.mark.parametrize("seed", sample(range(3), every=3))
def test_v4_v5_mixes_that_differ_use_the_bound_that_binds_and_are_fair(seed: int) -> None:
    bounds = (
        BoundTerms.rate(400.0, 1_000),
        BoundTerms.rate(1_600.0, 5_000),
        BoundTerms.rate(30_000.0, 1_000),
    )
    world = World(seed, replace(RATES, bounds=bounds))
    mixes = [(1.0, 1.0, 60.0), (1.0, 1.0, 200.0)]
    instances = [world.join(mixes[at % 2]) for at in range(4)]
    world.run(6_000)
    since = world.now
    world.run(10_000)
    world.judge()
    assert max(world.used(at, since) for at in range(3)) >= 0.95
    dominant = [
        max(
            math.fsum(call.costs[at] for call in one.calls if call.at > since)
            / (bound.capacity / bound.period)
            for at, bound in enumerate(bounds)
        )
        for one in instances
    ]
    assert sum(dominant) ** 2 / 4 / sum(part * part for part in dominant) >= 0.99


@pytest.mark.parametrize(
    ("instances", "slots"),
    [
        (4, 20),
        (12, 3),
        pytest.param(12, 20, marks=pytest.mark.long),
        pytest.param(30, 50, marks=pytest.mark.long),
    ],
)
def test_n5_slots_are_busy_and_move_between_instances(instances: int, slots: int) -> None:
    terms = replace(CALLS, bounds=(CALLS.bounds[0], BoundTerms.in_flight(slots, 1_000)))
    world = World(instances, terms)
    for at in range(instances):
        world.join((1.0, 1.0), lasts=(200, 400)[at % 2])
    world.run(5_000)
    since = world.now
    world.run(40_000)
    world.judge()
    assert world.used(1, since) >= 0.9
    assert all(any(call.at > since for call in one.calls) for one in world.instances)


def test_n3_all_slots_are_free_again_after_kills_and_when_all_is_quiet() -> None:
    world = World(1, CALLS)
    for _ in range(6):
        world.join((1.0, 1.0))
    world.run(3_000)
    world.dead, world.instances = world.instances[:3], world.instances[3:]
    killed = world.now
    limit = world.coordinator.limit
    assert limit is not None
    held = sum(limit.records[one.name].holdings[1].units for one in world.dead)
    assert held
    world.run(2_000 + 2 * 500 + 1_000 + 6)
    assert sum(limit.records[n].holdings[1].units for n in limit.records) <= 20
    world.run(2_000)
    assert world.now - killed < 7_000
    assert not {one.name for one in world.dead} & {
        name for name, one in limit.records.items() if one.holds
    }
    for one in world.instances:
        one.backlog = False
    world.run(3_000)
    assert limit.bounds[1].pool == 20
    world.judge()


def test_n1_while_slots_are_taken_away_none_is_granted_before_enough_came_back() -> None:
    world = World(1, CALLS)
    for _ in range(4):
        world.join((1.0, 1.0), lasts=400)
    world.run(3_000)
    world.change(1, 5.0)
    limit = world.coordinator.limit
    assert limit is not None
    assert limit.bounds[1].pool < 0
    changed = world.now
    world.run(2_500)
    calls = [call for one in world.instances for call in one.calls]
    assert not over(
        [one for one in calls if one.at > changed + 1_500], 1, CALLS.bounds[1], [(0, 5.0)]
    )
    assert limit.bounds[1].pool >= 0
    world.change(1, 20.0)
    since = world.now + 1_500
    world.run(5_000)
    assert world.used(1, since) >= 0.9


# Permits.


def ask(name: str, seq: int, costs: tuple[float, ...], **said: object) -> Request:
    bounds = tuple(BoundRequest(need=cost, ask=cost, piece=cost) for cost in costs)
    return Request(name, seq, RATES, bounds, gathers=True, valid=200, **said)  # type: ignore[arg-type]


def coordinator() -> Coordinator:
    one = Coordinator("limit")
    one.registry = Registry("s", NEVER)
    return one


@pytest.mark.parametrize("scarce", [0, 1, 2])
def test_v2_a_permit_is_granted_in_all_bounds_or_in_none(scarce: int) -> None:
    limit_of = coordinator()
    costs = tuple(one.capacity * 0.9 for one in RATES.bounds)
    others = tuple(
        one.capacity * (0.9 if at == scarce else 0.01) for at, one in enumerate(RATES.bounds)
    )
    busy = [ask(name, 1, costs) for name in ("a", "b")]
    for at, request in enumerate(busy):
        limit_of.sync(request, "s", 1_000 + at)
    first = limit_of.sync(ask("c", 1, costs), "s", 1_010)
    limit = limit_of.limit
    assert limit is not None
    spent = [bound.ledger.total(0) for bound in limit.bounds]
    second = limit_of.sync(ask("d", 1, others), "s", 1_020)
    granted = [one for one in (first, second) if one.permit]
    for at, bound in enumerate(limit.bounds):
        expected = math.fsum(one.bounds[at].permit_cost for one in granted)
        assert bound.ledger.total(0) >= expected * (1 - 1e-9)
        assert bound.ledger.total(0) <= bound.pool * bound.worth(limit.now) + 1e-6
    if not second.permit:
        assert [bound.ledger.total(0) for bound in limit.bounds] == spent
        assert all(one.permit_cost == 0 for one in second.bounds)


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_v2_no_permit_exceeds_the_room_of_any_bound(seed: int) -> None:
    random, limit_of, now = Random(seed), coordinator(), 1_000_000
    borns: dict[str, Reply] = {}
    for seq in range(1, 40):
        now += random.choice([1, 20, 200])
        name = random.choice("abcdef")
        share = random.choice([0.1, 0.5, 0.9])
        costs = tuple(one.capacity * share * random.choice([0.0, 0.3, 1.0]) for one in RATES.bounds)
        known = borns.get(name)
        held = known.bounds if known else ()
        request = ask(name, seq, costs, born=known.born if known else 0, left=1_000 if known else 0)
        bounds = tuple(
            replace(one, units=held[at].units if held else 0)
            for at, one in enumerate(request.bounds)
        )
        reply = limit_of.sync(replace(request, bounds=bounds), "s", now)
        if reply.kind is not Kind.ANSWER:
            continue
        borns[name] = reply
        limit = limit_of.limit
        assert limit is not None
        asked = [one.ask for one in bounds]
        assert not reply.permit or [one.permit_cost for one in reply.bounds] == asked
        for bound in limit.bounds:
            room = bound.pool * bound.worth(limit.now) * (1 + 1e-6) + 1e-6
            assert bound.ledger.total(limit.now - bound.terms.counts) <= room


# Hand-overs.


def test_v1_a_hand_over_carries_the_history_of_each_bound_by_itself() -> None:
    limit_of, costs = coordinator(), tuple(one.capacity for one in RATES.bounds)
    need = tuple(BoundRequest(need=cost) for cost in costs)
    first = limit_of.sync(Request("a", 1, RATES, need), "s", 1_000)
    assert all(one.units == UNITS for one in first.bounds)
    halves = tuple(
        BoundRequest(
            units=UNITS // 2,
            released=UNITS // 2,
            need=cost,
            history=((10 * at, cost / 4),),
            stamped=((950 + at, cost / 8),),
        )
        for at, cost in enumerate(costs)
    )
    born = limit_of.sync(Request("b", 1, RATES, need), "s", 1_010).born
    limit_of.sync(Request("a", 2, RATES, halves, born=first.born, left=1_500), "s", 1_020)
    second = limit_of.sync(Request("b", 2, RATES, need, born=born), "s", 1_021)
    for at, (one, cost) in enumerate(zip(second.bounds, costs, strict=True)):
        part = one.units / (UNITS // 2)
        handed = math.fsum(spent for _, spent in one.given)
        assert handed == pytest.approx(part * cost * 3 / 8, rel=1e-6), at
        width = max(1, RATES.bounds[at].period // 100)
        own = -(-(1_020 - 10 * at) // width) * width
        counting = {stamp for stamp in (950 + at, own) if stamp > 1_021 - RATES.bounds[at].counts}
        assert {stamp for stamp, _ in one.given} == counting


def test_c2_what_a_silent_instance_held_returns_bound_by_bound() -> None:
    terms = replace(
        RATES, bounds=(BoundTerms.rate(100.0, 1_000), BoundTerms.rate(1e6, 60_000)), layout="x"
    )
    limit_of = coordinator()
    need = tuple(BoundRequest(need=one.capacity) for one in terms.bounds)
    limit_of.sync(Request("a", 1, terms, need), "s", 1_000)
    limit = limit_of.limit
    assert limit is not None
    ends = 1_000 + 2_000 + 2 * 500
    none = (BoundRequest(), BoundRequest())
    seen: dict[int, int] = {}
    for seq in range(1, 200):
        now = 1_000 + 400 * seq
        reply = limit_of.sync(Request("b", seq, terms, none, born=0), "s", now)
        for at, bound in enumerate(limit.bounds):
            if bound.pool == UNITS:
                seen.setdefault(at, limit.now)
        assert reply.kind is Kind.ANSWER
    assert 0 <= seen[0] - (ends + terms.bounds[0].lasting) <= 400
    assert 0 <= seen[1] - (ends + terms.bounds[1].lasting) <= 400
    assert "a" not in limit.records
