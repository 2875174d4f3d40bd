"""A limit of many instances: what a request costs does not grow with their number, and shares are
fair all the same (laws C2, C5, C6)."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest

from limiters.leases._coordinator import Coordinator, division
from limiters.leases._coordinator.state import Limit, Record
from limiters.leases._format import MOST_VISITS, NEVER, UNITS
from limiters.leases._messages import Kind, Reply, Request, Terms
from tests.samples import sample

SIZE = 300
INTERVAL = 500
TERMS = Terms.scalar(10_000.0, 1.0, period=1_000, lease=2_000)


class Fleet:
    """Instances that follow the replies. They spend nothing, so nothing comes along."""

    def __init__(self, size: int = SIZE) -> None:
        self.coordinator = Coordinator()
        self.clock = 1_000_000
        self.needs = [10.0] * size
        self.replies: list[Reply | None] = [None] * size
        self.seq = 0

    @property
    def limit(self) -> Limit:
        assert self.coordinator.limit is not None
        return self.coordinator.limit

    def ask(self, number: int) -> Reply:
        """One of them asks; until it is answered."""
        for _ in range(3):
            last, self.seq = self.replies[number], self.seq + 1
            held = last.units if last else 0
            keep = min(held, last.keep) if last else 0
            reply = self.coordinator.sync(
                Request.scalar(
                    f"instance-{number}",
                    self.seq,
                    TERMS,
                    born=last.born if last else 0,
                    nonce=self.nonce,
                    left=TERMS.lease if last else 0,
                    interval=INTERVAL,
                    units=keep,
                    released=held - keep,
                    need=self.needs[number],
                ),
                "server",
                self.clock,
            )
            if reply.kind is Kind.ANSWER:
                self.replies[number] = reply
                return reply
        raise AssertionError(reply)

    @property
    def nonce(self) -> str:
        return self.coordinator.limit.nonce if self.coordinator.limit else ""

    def pass_intervals(self, count: int, numbers: range | None = None) -> None:
        """Each of these asks once in each sync interval, evenly spread over it."""
        numbers = numbers or range(len(self.needs))
        for _ in range(count):
            began = self.clock
            for at, number in enumerate(numbers):
                self.clock = began + at * INTERVAL // len(numbers)
                self.ask(number)
            self.clock = began + INTERVAL


@pytest.fixture(scope="module")
def _satisfied() -> Fleet:
    fleet = Fleet()
    while not fleet.replies[-1] or not fleet.replies[-1].certain:
        fleet.pass_intervals(1)
    fleet.pass_intervals(2)
    assert all(one is not None and one.units >= UNITS * 10 / 10_000 - 1 for one in fleet.replies)
    return fleet


@pytest.fixture
def fleet(_satisfied: Fleet) -> Fleet:
    """Instances that have all they need."""
    return deepcopy(_satisfied)


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The instances that were visited."""
    names: list[str] = []
    visit = division._visit

    def counted(limit: Limit, name: str, record: Record, orders: division.Orders) -> None:
        names.append(name)
        visit(limit, name, record, orders)

    monkeypatch.setattr(division, "_visit", counted)
    return names


def test_c6_a_request_visits_few_however_many_there_are(fleet: Fleet, visits: list[str]) -> None:
    for number in range(SIZE):
        visits.clear()
        fleet.clock += INTERVAL // SIZE
        fleet.ask(number)
        assert 0 < len(visits) <= MOST_VISITS
    visits.clear()
    fleet.pass_intervals(1)
    assert set(visits) == set(fleet.limit.records), "all in a sync interval"


def max_min(needs: list[float], capacity: float) -> list[float]:
    """Return the part of each, one after the other in order of their needs."""
    shares, left = [0.0] * len(needs), capacity
    order = sorted(range(len(needs)), key=lambda at: needs[at])
    for count, at in enumerate(order):
        shares[at] = min(needs[at], left / (len(needs) - count))
        left -= shares[at]
    return shares


@pytest.mark.parametrize("seed", sample(range(3), every=3))
def test_c5_after_needs_change_shares_are_fair_within_two_sync_intervals_and_a_period(
    fleet: Fleet, seed: int
) -> None:
    random = Random(seed)
    for _ in range(3):
        fleet.needs = [random.choice([0.0, 1.0, 20.0, 50.0, 500.0]) for _ in fleet.needs]
        fleet.pass_intervals(2 + TERMS.period // INTERVAL)
        shares = max_min(fleet.needs, TERMS.capacity)
        for share, reply in zip(shares, fleet.replies, strict=True):
            assert reply is not None
            assert reply.units / UNITS * TERMS.capacity == pytest.approx(share, rel=0.01, abs=0.01)


def test_c5_needs_that_fall_are_satisfied_within_two_sync_intervals(fleet: Fleet) -> None:
    was_short = []
    for need in (50.0, 20.0):
        fleet.needs = [need] * SIZE
        fleet.pass_intervals(2)
        was_short.append(fleet.limit.is_short)
    assert was_short == [True, False]
    assert all(one is not None and one.units >= UNITS * 20 / 10_000 - 1 for one in fleet.replies)


def test_c2_what_many_lost_instances_held_comes_back_some_at_a_time(fleet: Fleet) -> None:
    left = range(SIZE - 30, SIZE)
    began, known, most = fleet.clock, len(fleet.limit.records), 0
    fleet.needs = [1_000.0] * SIZE
    while len(fleet.limit.records) > len(left):
        fleet.clock += INTERVAL // len(left)
        fleet.ask(left[fleet.seq % len(left)])
        most = max(most, known - len(fleet.limit.records))
        known = len(fleet.limit.records)
        held = sum(one.holdings[0].units for one in fleet.limit.records.values())
        assert held + fleet.limit.bounds[0].pool == UNITS
    assert 0 < most <= MOST_VISITS
    assert fleet.clock - began <= TERMS.span + 2 * INTERVAL + 2 * INTERVAL
    assert fleet.limit.due != NEVER
    fleet.pass_intervals(3, left)
    assert sum(one.units for one in fleet.replies[left[0] :] if one) >= 0.99 * UNITS


@pytest.mark.parametrize("requests", sample([1_500, 4_000], every=2))
def test_c2_instances_leave_and_come_while_others_are_visited(requests: int) -> None:
    fleet, random = Fleet(150), Random(1)
    for _ in range(requests):
        fleet.clock += random.choice((0, 1, 5, 60))
        number = random.randrange(random.choice((10, 150)))
        fleet.needs[number] = random.choice((0.0, 3.0, 400.0))
        fleet.ask(number)
        held = sum(one.holdings[0].units for one in fleet.limit.records.values())
        back = sum(units for _, units in fleet.limit.bounds[0].returning)
        assert held + back + fleet.limit.bounds[0].pool == UNITS
        assert fleet.limit.visited < len(fleet.limit.records)
