"""Rules that every lease manager keeps, in memory and in Redis."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from redis import Redis

from limiters import (
    ArgumentError,
    LeaseManager,
    LeaseManagerError,
    MemoryLeaseManager,
    RedisLeaseManager,
)
from limiters._redis.script import of_source
from limiters.embedded import EmbeddedRedis
from limiters.leases._format import UNITS
from limiters.leases._layout import BoundLayout, layout_of
from limiters.leases._messages import (
    BoundRequest,
    BoundTerms,
    Kind,
    Reply,
    Request,
    Terms,
    altered,
)
from limiters.leases._scripts import TWIN, _room_of, registry_key, source_of
from limiters.testing import ManualClock

TERMS = Terms.scalar(1_000.0, 100.0, period=60_000, lease=50_000)
"""Long enough for the slowest of machines."""
QUICK = altered(TERMS, period=100, lease=300)
"""Short terms, for tests that have to wait for their end."""


@dataclass
class Kept:
    """A lease manager, and a way to let time pass for it."""

    manager: LeaseManager
    turn: Callable[[float], object]
    now: Callable[[], float]

    def ask(self, instance: str, seq: int, **changes: Any) -> Reply:
        """Return the answer to a request. A challenge is answered first."""
        settings: dict[str, Any] = {"terms": TERMS, "interval": 500}
        request = Request.scalar(instance, seq, **settings | changes)
        reply = self.manager.sync(request)
        if reply.kind is Kind.CHALLENGE:
            return self.manager.sync(altered(request, nonce=reply.nonce, ended=True))
        return reply

    def all_of(self, instance: str = "a", terms: Terms = TERMS) -> Reply:
        """Grant all of the limit to `instance`."""
        reply = self.ask(instance, 1, terms=terms, need=1_000.0)
        assert reply.units == UNITS
        return reply


@pytest.fixture(params=["memory", "redis", "a client that decodes"])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    if request.param == "memory":
        clock = ManualClock(1000.0)
        memory = MemoryLeaseManager("limit", lease_time=1.0, clock=clock)
        yield Kept(memory, clock.advance, clock.now)
        return
    server: EmbeddedRedis = request.getfixturevalue("shared_redis")
    with Redis.from_url(server.url, decode_responses=True) as client:
        where = server.url if request.param == "redis" else client
        manager = RedisLeaseManager(where, name="limit", lease_time=1.0)
        yield Kept(manager, time.sleep, time.monotonic)
        manager.close()


def cost_of(reply: Reply) -> float:
    return math.fsum(cost for _, cost in reply.given)


def test_it_is_a_lease_manager(kept: Kept) -> None:
    assert isinstance(kept.manager, LeaseManager)
    assert kept.manager.name == "limit"
    assert kept.manager.lease_time == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": 0}, "capacity must be more than zero, not 0"),
        ({"capacity": -1.0}, "capacity must be more than zero, not -1.0"),
        ({"capacity": math.nan}, "capacity must be finite, not nan"),
        ({"capacity": math.inf}, "capacity must be finite, not inf"),
        ({"capacity": 1e-300}, "capacity must be at least 1e-100, not 1e-300"),
        ({"capacity": "five"}, "capacity must be a number.*, not 'five'"),
        ({"factor": math.nan}, "factor must be finite, not nan"),
        ({"capacity": 20_000, "factor": 1}, "factor must be at least 2 for a capacity of 20000"),
        ({"factor": 0.001}, "factor must be at least 0.01 for a capacity of 100"),
        ({"capacity": 200_000}, "factor must be at least 20 for a capacity of 200000"),
        ({"capacity": 1e100}, r"factor must be at least 1e\+96 for a capacity of 1e\+100"),
        ({"period": 0}, "period must be more than zero seconds, not 0"),
        ({"period": 1e-4}, "period must be from 0.001 to 86400 seconds, not 0.0001"),
        ({"period": math.inf}, "period must be finite, not inf"),
        ({"lease_time": -1}, "lease_time must be more than zero seconds, not -1"),
        ({"lease_time": 0.1}, "lease_time must be from 0.2 to 86400 seconds, not 0.1"),
        ({"capacity": 9.0, "ramp": -1}, "ramp must be more than zero, not -1"),
        ({"capacity": 9.0, "ramp": math.nan}, "ramp must be finite, not nan"),
    ],
)
def test_terms_that_no_limit_can_have_are_refused_and_change_nothing(
    kept: Kept, change: dict[str, Any], message: str
) -> None:
    assert kept.manager.set_terms(capacity=100, factor=10, period=1, lease_time=5)
    before = kept.manager.look()
    with pytest.raises(ValueError, match=f"^{message}"):
        kept.manager.set_terms(**change)
    after = kept.manager.look()
    assert before is not None
    assert after is not None
    assert after.terms == before.terms


def test_c10_a_new_limit_of_more_than_10_000_partitions_is_refused_and_not_made(
    kept: Kept,
) -> None:
    with pytest.raises(ValueError, match=r"^factor must be at least 2 for a capacity of 20000"):
        kept.manager.set_terms(capacity=20_000, factor=1, period=1, lease_time=5)
    assert kept.manager.look() is None


@pytest.mark.parametrize("instance", ["", None, 5, b"a", "\ud800"])
def test_an_impossible_name_of_an_instance_is_refused(kept: Kept, instance: Any) -> None:
    with pytest.raises(ValueError, match=r"^instance must be a text that"):
        kept.manager.evict(instance)


def test_c10_a_factor_beyond_the_capacity_makes_one_partition(kept: Kept) -> None:
    assert kept.manager.set_terms(capacity=1, factor=1e12, period=1, lease_time=5)
    view = kept.manager.look()
    assert view is not None
    assert view.partitions == 1


def test_c12_a_new_limit_grants_immediately_on_a_server_that_was_never_used(kept: Kept) -> None:
    reply = kept.ask("a", 1, need=1_000.0)
    assert (reply.kind, reply.created, reply.certain) == (Kind.ANSWER, True, True)
    assert reply.units == reply.keep == reply.share == UNITS
    assert not kept.ask("b", 1).created


def test_c5_a_single_instance_gets_all_it_needs_and_half_of_the_rest(kept: Kept) -> None:
    reply = kept.ask("a", 1, need=400.0)
    assert reply.units == pytest.approx(0.7 * UNITS, abs=2)
    assert reply.share == pytest.approx(0.4 * UNITS, abs=2)
    assert not reply.short
    assert reply.terms == altered(TERMS, in_force=1_000.0, served=reply.terms.served)


def test_c2_spending_is_handed_over_with_capacity_in_proportion(kept: Kept) -> None:
    first = kept.all_of()
    spent = tuple((age, 10.0) for age in range(0, 80, 10))
    gives = {"released": UNITS, "history": spent}
    kept.ask("a", 2, born=first.born, **gives)
    half = kept.ask("b", 1, need=250.0)  # half of the rest in addition, as no instance is short
    assert half.units == pytest.approx(0.625 * UNITS, abs=2)
    assert cost_of(half) == pytest.approx(50.0)
    rest = kept.ask("a", 3, born=first.born, need=1_000.0)
    assert cost_of(rest) == pytest.approx(30.0)


def test_c2_spending_never_becomes_older_than_it_is(kept: Kept) -> None:
    terms = altered(TERMS, period=1_000)
    first = kept.all_of(terms=terms)
    before = kept.now()
    gives = {"released": UNITS, "history": ((200, 5.0),)}
    kept.ask("a", 2, terms=terms, born=first.born, **gives)
    reply = kept.ask("b", 1, terms=terms, need=1_000.0)
    ((stamp, cost),) = reply.given
    assert cost == 5.0
    # Rounded up to the end of a slice; the clocks are read at other moments.
    assert reply.now - stamp <= 201 + (kept.now() - before) * 1000


def test_c2_spending_is_forgotten_after_a_period(kept: Kept) -> None:
    first = kept.all_of(terms=QUICK)
    gives = {"released": UNITS, "history": ((20, 5.0),)}
    kept.ask("a", 2, terms=QUICK, born=first.born, **gives)
    kept.turn(0.11)
    assert kept.ask("b", 1, terms=QUICK, need=1_000.0).given == ()


def test_c2_a_holder_that_is_killed_is_given_up_a_period_after_its_lease(kept: Kept) -> None:
    granted = kept.now()
    kept.all_of(terms=QUICK)
    for seq in range(1, 1_000):
        reply = kept.ask("b", seq, terms=QUICK, need=1_000.0, interval=50)
        if reply.units:
            break
        kept.turn(0.01)
    assert kept.now() - granted >= 0.3 + 0.1
    assert reply.units == UNITS
    assert reply.given == ()


def test_c2_a_repeated_request_gets_the_same_answer(kept: Kept) -> None:
    first = kept.all_of()
    kept.ask("a", 2, born=first.born, released=UNITS, history=((0, 7.0), (30, 5.0)))
    one = kept.ask("b", 1, need=500.0)
    again = kept.ask("b", 1, need=500.0)
    assert again.units == one.units
    assert again.given == one.given
    assert (again.permit, again.born) == (one.permit, one.born)


def test_c2_what_was_released_is_not_released_twice(kept: Kept) -> None:
    first = kept.all_of()
    for _ in range(2):
        reply = kept.ask(
            "a",
            2,
            born=first.born,
            need=0.0,
            units=UNITS // 2,
            left=40_000,
            released=UNITS // 2,
            history=((0, 50.0),),
        )
        assert reply.units == UNITS // 2
    taken = kept.ask("b", 1, need=1_000.0)
    assert taken.units == UNITS // 2
    assert cost_of(taken) == 50.0


def test_c2_a_late_request_changes_nothing(kept: Kept) -> None:
    first = kept.ask("a", 5, need=1_000.0)
    assert kept.ask("a", 4, released=UNITS).kind is Kind.STALE
    assert kept.ask("a", 6, born=first.born, need=1_000.0).units == UNITS


def test_c2_no_instance_releases_the_leases_of_others(kept: Kept) -> None:
    kept.all_of()
    kept.ask("b", 1, released=UNITS)
    assert kept.ask("c", 1, need=1_000.0).units == 0


def test_c4_an_instance_that_needs_more_than_its_share_for_one_operation_gets_a_permit(
    kept: Kept,
) -> None:
    known = kept.ask("b", 1, need=1.0, ask=1.0, piece=1.0)  # otherwise it saves for its first batch
    kept.ask("b", 2, born=known.born, released=known.units)
    first = kept.all_of()
    asks = {"need": 1_000.0, "ask": 800.0, "gathers": True, "valid": 300, "piece": 800.0}
    waits = kept.ask("b", 3, born=known.born, **asks)
    assert (waits.permit, waits.units) == (0, 0)
    reply = kept.ask("a", 2, born=first.born, need=1_000.0, units=UNITS, left=40_000)
    assert reply.keep <= 0.2 * UNITS + 2
    kept.ask("a", 3, born=first.born, need=1_000.0, units=reply.keep, released=UNITS - reply.keep)
    permitted = kept.ask("b", 4, born=known.born, **asks)
    assert permitted.permit
    assert permitted.permit_cost == 800.0


def test_c3_a_permit_is_corrected_by_the_report_and_refunded_if_it_was_not_used(kept: Kept) -> None:
    both = {name: kept.ask(name, 1, need=1_000.0, piece=1_000.0).born for name in "ab"}
    asks = {"need": 1_000.0, "ask": 1_000.0, "gathers": True, "valid": 300, "piece": 1_000.0}
    first = kept.ask("a", 2, born=both["a"], released=UNITS, **asks)
    assert first.permit
    waits = kept.ask("b", 2, born=both["b"], **asks)
    assert not waits.permit
    assert waits.back > 0
    kept.ask("a", 3, born=both["a"], need=1_000.0, piece=1_000.0, permit=first.permit)
    assert kept.ask("b", 3, born=both["b"], **asks).permit, "it was not used"


def test_c5_shares_follow_the_weights(kept: Kept) -> None:
    first = kept.ask("a", 1, need=1_000.0, weight=4_000)
    other = kept.ask("b", 1, need=1_000.0, weight=1_000)
    assert other.share == pytest.approx(UNITS / 5, abs=2)
    assert other.short
    reply = kept.ask("a", 2, born=first.born, need=1_000.0, weight=4_000, units=UNITS, left=40_000)
    assert reply.keep == pytest.approx(0.8 * UNITS, abs=2)


def test_c5_more_instances_than_partitions_hold_fractions(kept: Kept) -> None:
    terms = altered(TERMS, factor=1_000.0)  # a single one
    for seq in range(1, 4):
        kept.turn(0.01)
        shares = [kept.ask(f"i{n}", seq, terms=terms, need=1_000.0).share for n in range(30)]
    assert shares[0] == pytest.approx(UNITS / 30, abs=2)
    assert len(set(shares)) == 1


def test_c9_a_capacity_set_through_one_manager_counts_for_all(kept: Kept) -> None:
    first = kept.all_of()
    assert kept.manager.set_terms(capacity=2_000.0)
    reply = kept.ask("a", 2, born=first.born, need=5_000.0, units=UNITS, left=40_000)
    assert (reply.terms.capacity, reply.terms.in_force) == (2_000, 2_000)
    assert reply.units == UNITS, "no units are moved"
    assert reply.terms.version > TERMS.version
    assert kept.manager.set_terms(factor=7.0)
    view = kept.manager.look()
    assert view is not None
    assert (view.terms.capacity, view.terms.factor) == (2_000.0, 7.0)


BOUNDED = Terms(
    (BoundTerms.rate(600.0, 60_000), BoundTerms.rate(10.0, 1_000), BoundTerms.in_flight(20, 1_000)),
    60.0,
    50_000,
    layout_of([BoundLayout("requests"), BoundLayout("requests"), BoundLayout("calls", slots=True)]),
)


def bounded(kept: Kept, seq: int = 1, **changes: Any) -> Reply:
    """Answer a request of one instance that needs half of each bound."""
    needs = tuple(BoundRequest(need=one.capacity / 2) for one in BOUNDED.bounds)
    request = Request("a", seq, BOUNDED, needs, **changes)
    reply = kept.manager.sync(request)
    if reply.kind is Kind.CHALLENGE:
        return kept.manager.sync(replace(request, nonce=reply.nonce, ended=True))
    return reply


def test_v1_each_bound_is_granted_and_shown_by_its_name(kept: Kept) -> None:
    reply = bounded(kept)
    assert [
        one.units >= terms.units // 2
        for one, terms in zip(reply.bounds, BOUNDED.bounds, strict=True)
    ]
    view = kept.manager.look()
    assert view is not None
    assert [one.dimension for one in view.bounds] == ["requests", "requests/1s", "calls"]
    [instance] = view.instances
    assert [one.need for one in instance.bounds] == pytest.approx([300.0, 5.0, 10.0])
    assert [one.held >= 0.5 for one in instance.bounds] == [True, True, True]


def test_c9_an_operator_changes_the_capacity_of_one_dimension(kept: Kept) -> None:
    born = bounded(kept).born
    assert kept.manager.set_terms(capacity={"calls": 5.0, "requests/1s": 20.0})
    reply = bounded(kept, 2, born=born)
    assert [one.capacity for one in reply.terms.bounds] == [600.0, 20.0, 5.0]
    assert [one.in_force for one in reply.terms.bounds] == [600.0, 20.0, 5.0]
    view = kept.manager.look()
    assert view is not None
    assert [one.capacity for one in view.bounds] == [600.0, 20.0, 5.0]


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (
            {"capacity": 5.0},
            "capacity must say of which dimension it is, requests, requests/1s or calls",
        ),
        (
            {"capacity": {"tokens": 5.0}},
            "capacity must be of requests, requests/1s or calls, not 'tokens'",
        ),
        ({"capacity": {"calls": 2.5}}, "capacity must be a whole number for calls, not 2.5"),
        ({"capacity": {"calls": 2.0}, "period": 5.0}, "period must be left out"),
    ],
)
def test_v7_a_change_that_does_not_fit_the_dimensions_is_refused(
    kept: Kept, change: dict[str, Any], advice: str
) -> None:
    bounded(kept)
    with pytest.raises(ArgumentError, match=advice):
        kept.manager.set_terms(**change)
    view = kept.manager.look()
    assert view is not None
    assert view.terms.bounds[2].capacity == 20.0


def test_c11_an_instance_with_other_bounds_is_refused_and_receives_those_of_the_limit(
    kept: Kept,
) -> None:
    bounded(kept)
    reply = kept.ask("b", 1, terms=TERMS, need=5.0)
    assert (reply.kind, reply.terms.layout) == (Kind.REFUSED, BOUNDED.layout)
    assert len(reply.terms.bounds) == 3


def test_c9_a_raise_can_be_ramped(kept: Kept) -> None:
    # a lease as long as this test waits, so that the time is trusted
    terms = altered(QUICK, lease=2_000)
    kept.ask("a", 1, terms=terms)
    before = kept.now()
    assert kept.manager.set_terms(capacity=2_000.0, ramp=5_000.0)
    kept.turn(0.05)
    reply = kept.ask("a", 2, terms=terms, need=5_000.0)
    elapsed = kept.now() - before
    assert reply.terms.capacity == 2_000.0
    assert 1_000.0 + 5_000.0 * 0.048 <= reply.terms.in_force <= 1_010.0 + 5_000.0 * elapsed
    kept.turn(0.25)
    assert kept.ask("a", 3, terms=terms, need=5_000.0).terms.in_force == 2_000.0


@pytest.mark.parametrize("field", ["lease", "period"])
def test_c11_another_lease_or_period_is_refused_until_an_operator_sets_it(
    kept: Kept, field: str
) -> None:
    first = kept.all_of()
    terms = altered(TERMS, **{field: 30_000})
    refused = kept.ask("b", 1, terms=terms)
    assert (refused.kind, refused.terms.agrees(TERMS)) == (Kind.REFUSED, True)
    changes: dict[str, Any] = {"lease_time": 30.0} if field == "lease" else {"period": 30.0}
    assert kept.manager.set_terms(**changes)
    reply = kept.ask("b", 2, terms=terms, need=1_000.0)
    assert (reply.kind, reply.units, reply.certain) == (Kind.ANSWER, 0, False)
    assert reply.uncertain > 0
    assert reply.cause == "an operator changed the lease or the period"
    assert kept.ask("a", 2, born=first.born).kind is Kind.REFUSED


def test_c9_terms_can_be_set_before_the_first_request(kept: Kept) -> None:
    assert not kept.manager.set_terms(capacity=300.0), "there is no such limit"
    assert kept.manager.set_terms(capacity=300.0, factor=10.0, period=60.0, lease_time=50.0)
    reply = kept.ask("a", 1)
    assert (reply.terms.capacity, reply.created) == (300.0, False)


def test_evicted_instance_loses_everything(kept: Kept) -> None:
    first = kept.all_of()
    assert kept.manager.evict("a")
    assert not kept.manager.evict("unknown")
    reply = kept.ask("a", 2, born=first.born, need=1_000.0, units=UNITS, left=40_000)
    assert (reply.evicted, reply.keep) == (True, 0)
    gone = kept.ask("a", 3, born=first.born, need=1_000.0, released=UNITS)
    assert (gone.units, gone.evicted) == (0, True)
    assert kept.ask("b", 1, need=1_000.0).units == UNITS


def test_c6_an_instance_that_leaves_gives_back_immediately(kept: Kept) -> None:
    first = kept.all_of()
    kept.ask("a", 2, born=first.born, released=UNITS, leaving=True)
    assert kept.ask("b", 1, need=1_000.0).units == UNITS


def test_c2_units_of_a_deleted_limit_are_claimed_by_their_holder_and_not_granted_again(
    kept: Kept,
) -> None:
    kept.all_of()
    assert kept.manager.delete()
    assert not kept.manager.delete()
    assert kept.manager.look() is None
    newcomer = kept.ask("b", 1, need=1_000.0)
    assert (newcomer.units, newcomer.certain) == (0, False)
    assert newcomer.cause == "an operator deleted it"
    claim = kept.ask("a", 2, need=1_000.0, units=UNITS, left=40_000)
    assert claim.units == UNITS


def test_c12_a_limit_without_leases_can_be_deleted_and_created_again(kept: Kept) -> None:
    first = kept.ask("a", 1, terms=QUICK)
    kept.ask("a", 2, terms=QUICK, born=first.born, leaving=True)
    assert kept.manager.delete()
    kept.turn(0.01)
    reply = kept.ask("b", 1, terms=altered(QUICK, capacity=70.0), need=70.0)
    assert (reply.created, reply.certain, reply.units) == (True, True, UNITS)


def test_look_returns_the_terms_and_the_instances(kept: Kept) -> None:
    odd = "host 1 | ä\n"
    kept.ask("i|1\n ö", 1, need=200.0, spent=1.5, reserved=3.0, weight=2_000, label=odd)
    kept.manager.evict("i|1\n ö")
    view = kept.manager.look()
    assert view is not None
    assert (view.terms.capacity, view.capacity, view.partitions) == (1_000.0, 1_000.0, 10)
    assert (view.uncertain_ms, view.cause, view.rising) == (0, "", 0)
    (one,) = view.instances
    assert view.free == pytest.approx(1 - one.held)
    assert (one.instance, one.label, one.evicted) == ("i|1\n ö", "host 1 | ä", True)
    assert (one.spent, one.reserved, one.weight) == (1.5, 3, 2)
    assert one.need == pytest.approx(200)
    assert one.held == pytest.approx(0.6)
    assert one.share == pytest.approx(0.2)
    assert (one.waits_for, one.permit) == (0, 0)
    assert one.seen_ms >= 0
    assert one.lease_ms <= 50_000


def test_look_shows_which_instance_waits_for_a_permit(kept: Kept) -> None:
    kept.all_of()
    kept.ask("b", 1, need=1_000.0, ask=800.0, gathers=True, valid=300, piece=800.0, waited=250)
    view = kept.manager.look()
    assert view is not None
    (one,) = (one for one in view.instances if one.instance == "b")
    assert one.waits_for == 800
    assert one.waits_ms >= 250


def shown(kept: Kept) -> list[str]:
    view = kept.manager.look()
    assert view is not None
    return [one.instance for one in view.instances]


def test_look_leaves_out_an_instance_that_has_left(kept: Kept) -> None:
    first = kept.ask("a", 1, need=200.0)
    kept.ask("b", 1)
    assert shown(kept) == ["a", "b"], "b is idle, and there"
    kept.turn(0.01)
    kept.ask("a", 2, born=first.born, released=UNITS, leaving=True)
    assert shown(kept) == ["b"]
    kept.ask("a", 3, born=first.born, need=100.0)
    assert shown(kept) == ["a", "b"], "it has come back"
    kept.turn(0.01)
    kept.ask("a", 4, born=first.born, units=UNITS // 100, left=40_000, leaving=True)
    assert shown(kept) == ["a", "b"], "it still holds units that others cannot have yet"


def test_look_leaves_out_an_instance_that_was_idle_for_a_lease_and_a_period(kept: Kept) -> None:
    kept.ask("a", 1, terms=QUICK, need=200.0, interval=50)
    kept.ask("b", 1, terms=QUICK, interval=50)
    kept.turn(1.0)
    assert shown(kept) == ["a"], "a still holds units, since no other instance has asked"


def test_totals_are_counted_once(kept: Kept) -> None:
    first = kept.ask("a", 1)
    assert not first.counted
    for _ in range(2):
        assert kept.ask("a", 2, born=first.born, totals=(3.0, 1.0)).counted
    kept.ask("b", 1, totals=(50.0,))  # an instance without a record reports it again
    view = kept.manager.look()
    assert view is not None
    assert view.totals[:2] == (3, 1)


# Bounds of what is stored.


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two instances in a limit, and for two limits in the registry of a server."""
    for name, places in {
        "MAX_INSTANCES": ("_format", "_coordinator.coordinator"),
        "MAX_NAMES": ("_format", "_coordinator.state"),
    }.items():
        for place in places:
            monkeypatch.setattr(f"limiters.leases.{place}.{name}", 2)
    read_again = _room_of.__wrapped__
    monkeypatch.setattr("limiters.leases._scripts._room_of", read_again)
    for part in ("sync", "delete"):
        script = of_source(source_of(*TWIN, part))
        monkeypatch.setattr(f"limiters.leases.redis.{part.upper()}", script)


def test_an_instance_beyond_the_highest_number_is_refused(little_room: None, kept: Kept) -> None:
    for name in ("a", "b"):
        assert kept.ask(name, 1).kind is Kind.ANSWER
    with pytest.raises(LeaseManagerError, match="instances, as many as there may be; this one"):
        kept.ask("c", 1)
    assert kept.ask("a", 2).kind is Kind.ANSWER
    view = kept.manager.look()
    assert view is not None
    assert {one.instance for one in view.instances} == {"a", "b"}


def test_an_instance_takes_part_once_another_has_left(little_room: None) -> None:
    clock = ManualClock(1_000.0)
    manager = MemoryLeaseManager("limit", lease_time=1.0, clock=clock)
    kept = Kept(manager, clock.advance, clock.now)
    assert kept.ask("a", 1, terms=QUICK, leaving=True).kind is Kind.ANSWER
    assert kept.ask("b", 1, terms=QUICK).kind is Kind.ANSWER
    clock.advance(1.0)
    assert kept.ask("c", 1, terms=QUICK).kind is Kind.ANSWER


def test_a_limit_for_which_the_registry_has_no_room_is_uncertain_at_first(
    little_room: None, shared_redis: EmbeddedRedis
) -> None:
    managers = {
        name: RedisLeaseManager(shared_redis.url, name=name, timeout=10)
        for name in ("first", "second", "third")
    }
    for name, manager in managers.items():
        reply = manager.sync(Request.scalar("a", 1, TERMS))
        assert reply.kind is (Kind.CHALLENGE if name == "third" else Kind.ANSWER)
    again = managers["third"].sync(Request.scalar("a", 2, TERMS, nonce=reply.nonce))
    assert again.kind is Kind.ANSWER
    assert again.uncertain > 0
    for manager in managers.values():
        assert manager.delete()
        manager.close()
    with Redis.from_url(shared_redis.url) as client:
        assert client.hlen(registry_key("dispatcher")) == 2 + 2
