"""The coordinator follows costs that are known after the call: debts always, refunds only for what
permits of their sender have cost and for what has stayed in the pool (laws Z1 to Z3)."""

from __future__ import annotations

from typing import Any

import pytest

from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.settlement import settle
from limiters.leases._coordinator.shares import Level
from limiters.leases._coordinator.state import BoundState, Record, Registry
from limiters.leases._format import NEVER, SHAPE, UNITS, WEIGHT_SCALE
from limiters.leases._messages import Reply, Request, Terms, altered

TERMS = Terms.scalar(100.0, 10.0, 1_000, 2_000)


class Stage:
    """One coordinator, its clock, and who asks."""

    def __init__(self) -> None:
        self.coordinator = Coordinator(default_span=0)
        self.coordinator.registry = Registry("s", NEVER)
        self.clock = 100_000
        self.born: dict[str, int] = {}
        self.seq = 0

    def ask(self, name: str, **said: Any) -> Reply:
        """An answer to a new request."""
        self.seq += 1
        given = {"born": self.born.get(name, 0), "server": "s", "valid": 270, "confirmed": 10**12}
        request = Request.scalar(name, self.seq, TERMS, **(given | said))
        reply = self.coordinator.sync(request, "s", self.clock)
        self.born[name] = reply.born
        return reply

    @property
    def bound(self) -> BoundState:
        """Return the stored state of the limit."""
        assert self.coordinator.limit is not None
        return self.coordinator.limit.bounds[0]

    @property
    def entries(self) -> list[tuple[int, float]]:
        """Return the amount that counts in the pool's ledger."""
        return self.bound.ledger.entries

    def counted_at(self, at: int) -> float:
        """Return the amount that counts there since that time."""
        return dict(self.entries)[at]

    def record(self, name: str) -> Record:
        """Return the stored record of an instance."""
        assert self.coordinator.limit is not None
        return self.coordinator.limit.records[name]


def used(stage: Stage, cost: float, *, name: str = "a") -> tuple[int, float, int]:
    """A permit of so much is granted and used immediately: its stamp, its share of the pool, its
    wave."""
    granted = stage.ask(name, ask=cost)
    assert granted.permit
    stage.clock += 100
    stage.ask(name, permit=granted.permit, permit_spent=((100, cost),))
    [one] = granted.bounds
    return stage.clock - 100, one.permit_stayed, one.permit_wave


def test_z1_a_refund_is_taken_from_the_entry_that_it_names() -> None:
    stage = Stage()
    at, stayed, wave = used(stage, 40.0)
    assert stage.entries == [(at, 40.0)]
    stage.ask("a", refunds=((at, 30.0 / stayed),), wave=wave)
    assert stage.entries == [(at, 10.0)]


def test_z3_a_request_that_is_sent_again_refunds_nothing_again() -> None:
    stage = Stage()
    at, stayed, wave = used(stage, 40.0)
    first = stage.ask("a", refunds=((at, 15.0 / stayed),), wave=wave)
    stage.clock += 50
    stage.seq -= 1
    again = stage.ask("a", refunds=((at, 15.0 / stayed),), wave=wave)
    assert stage.entries == [(at, 25.0)]
    assert again.heard == first.heard == again.now - 50


def test_z3_of_what_was_handed_over_nothing_is_refunded() -> None:
    stage = Stage()
    at, stayed, wave = used(stage, 40.0)
    part = 1 - stage.ask("b", need=75.0).units / UNITS
    assert 0 < part < 1
    assert stage.counted_at(at) == pytest.approx(40.0 * part)
    stage.ask("a", refunds=((at, 30.0 / stayed),), wave=wave)
    assert stage.counted_at(at) == pytest.approx(10.0 * part)


@pytest.mark.parametrize(
    "said", [{"wave": 99}, {"server": "another", "age": 10**7}, {"server": ""}, {"born": 0}]
)
def test_z3_when_unsure_the_refund_is_dropped(said: dict[str, Any]) -> None:
    """It names another wave, comes from another server, or from one that is new here."""
    stage = Stage()
    at, stayed, wave = used(stage, 40.0)
    stage.ask("a", **({"refunds": ((at, 30.0 / stayed),), "wave": wave} | said))
    assert stage.entries == [(at, 40.0)]


@pytest.mark.parametrize("cost", [1e3, 1e300])
def test_z3_no_instance_is_refunded_more_than_its_permits_have_cost(cost: float) -> None:
    stage = Stage()
    at, _, wave = used(stage, 40.0, name="b")
    used(stage, 20.0)
    stage.ask("a", refunds=((at, cost), (at, cost)), wave=wave)
    assert stage.entries[0] == (at, 20.0)


def test_z3_what_older_permits_have_cost_cannot_be_refunded() -> None:
    """Older permits are not refunded, even if there were many and none was refunded before."""
    stage = Stage()
    for _ in range(20):
        at, _, wave = used(stage, 40.0)
        stage.clock += 1_900
    stage.clock -= 1_900
    at, stayed, wave = used(stage, 40.0, name="b")
    before = stage.bound.ledger.total(since=stage.clock - 1_006)
    stage.ask("a", refunds=((at, 1e9 / stayed),) * 9, wave=wave)
    record = stage.record("a")
    assert before - stage.bound.ledger.total(since=0) <= 80.0
    assert record.holdings[0].refundable + record.holdings[0].refundable_before <= 80.0


def test_z1_what_moves_to_the_end_of_its_call_is_no_more_than_was_refunded() -> None:
    stage = Stage()
    at, stayed, wave = used(stage, 40.0)
    stage.clock += 100
    stage.ask("a", refunds=((at, 40.0 / stayed),), moved=((50, 25.0 / stayed),), wave=wave)
    assert stage.entries == [(stage.clock - 50, 25.0)]
    stage.ask("a", refunds=((at, 40.0),), moved=((50, 25.0),), wave=wave)
    assert stage.entries == [(stage.clock - 50, 25.0)]


def test_z2_a_debt_counts_from_its_age_also_if_another_sends_it() -> None:
    stage = Stage()
    used(stage, 10.0, name="b")
    before = stage.bound.ledger.total(since=0)
    stage.ask("new", debts=((300, 30.0), (2_000, 5.0)), server="")
    assert stage.bound.ledger.total(since=0) == before + 30.0
    assert (stage.clock - 300, 30.0) in stage.entries


def test_z2_a_debt_blocks_no_more_than_the_limit_is_worth() -> None:
    stage = Stage()
    stage.ask("a", debts=((0, 1e99),))
    assert stage.entries == [(stage.clock, 100.0)]
    assert not stage.ask("b", ask=1.0).permit
    stage.clock += 1_010
    assert stage.ask("b", ask=1.0).permit


def test_z3_an_uncertain_server_takes_debts_and_refunds_nothing() -> None:
    stage = Stage()
    at, stayed, wave = used(stage, 40.0)
    limit = stage.coordinator.limit
    assert limit is not None
    limit.server = "before"  # another process has taken its place
    first = stage.ask("a", refunds=((at, 30.0 / stayed),), debts=((0, 7.0),), wave=wave)
    assert first.nonce
    assert not stage.entries, "a challenge changes nothing"
    again = {"refunds": ((at, 30.0),), "debts": ((0, 7.0),), "wave": stage.bound.wave}
    stage.ask("a", nonce=first.nonce, ended=True, **again)
    assert stage.entries == [(stage.clock, 7.0)]


def test_f2_a_refund_gives_the_turn_back_that_it_has_cost() -> None:
    stage = Stage()
    at, stayed, wave = used(stage, 40.0)
    stage.bound.fair = Level(UNITS, 2 * WEIGHT_SCALE * SHAPE)  # two such instances need it all
    record, refunds = stage.record("a"), ((at, 30.0 / stayed),)
    turn = record.turn
    request = Request.scalar("a", 9, TERMS, server="s", refunds=refunds, wave=wave)
    assert stage.coordinator.limit is not None
    settle(stage.coordinator.limit, record, request, uncertain=False)
    assert stage.entries == [(at, 10.0)]
    assert turn - record.turn == pytest.approx(30.0 / 50.0 * 1_000)


def test_the_message_of_a_request_that_no_instance_sends_is_refused() -> None:
    stage = Stage()
    assert stage.ask("a", debts=((0, float("nan")),)).kind == "invalid"
    assert altered(Request.scalar("a", 1, TERMS), debts=((0, 1.0),)).bounds[0].debts
