"""What every lease manager keeps to, in memory and in Redis."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from redis import Redis

from limiters import LeaseManager, MemoryLeaseManager, RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases import ranges
from limiters.leases.messages import Reply, Request, Terms
from limiters.leases.scripts import keys_of
from limiters.testing import ManualClock

TERMS = Terms(1000.0, 100.0, period_ms=2_000, lease_ms=50_000, version=1)
QUICK = replace(TERMS, period_ms=100, lease_ms=300)
"""For what has to be waited for."""
SLOW = replace(TERMS, period_ms=60_000)
"""For what must not be over, however slow the machine."""
ALL = ((0, 9),)


@dataclass
class Kept:
    """A lease manager, and how to let time pass for it."""

    manager: LeaseManager
    turn: Callable[[float], object]
    now: Callable[[], float]
    trust: Callable[[], object]
    """Ends the time in which nothing is granted, so that not every test has to wait for it."""

    def ask(self, instance: str, seq: int, **said: Any) -> Reply:
        return self.manager.sync(Request(instance, seq, **({"terms": TERMS} | said)))

    def ready(self, terms: Terms = TERMS) -> None:
        """Makes a limit that grants."""
        self.ask("first", 1, terms=terms, leaving=True)
        self.trust()


@pytest.fixture(params=["memory", "redis", "a client that decodes"])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    if request.param == "memory":
        clock = ManualClock(1000.0)
        memory = MemoryLeaseManager(lease_time=1.0, clock=clock)
        yield Kept(memory, clock.advance, clock.now, lambda: None)
        return
    server: EmbeddedRedis = request.getfixturevalue("shared_redis")
    with Redis.from_url(server.url, decode_responses=True) as client:
        where = server.url if request.param == "redis" else client
        manager = RedisLeaseManager(where, name="limit", lease_time=1.0)
        limit = keys_of("dispatcher", "limit")[0]
        yield Kept(
            manager,
            time.sleep,
            time.monotonic,
            trust=lambda: client.hset(limit, "quarantine_ms", "0"),
        )
        manager.close()


def test_it_is_a_lease_manager(kept: Kept) -> None:
    assert isinstance(kept.manager, LeaseManager)
    assert kept.manager.lease_time == 1.0


def test_who_asks_alone_gets_all_it_needs(kept: Kept) -> None:
    kept.ready()
    reply = kept.ask("a", 1, need=420.0)
    assert (reply.held, reply.share, reply.keep) == (((0, 4),), 5.0, 5)
    assert (reply.capacity, reply.terms) == (1000.0, TERMS)
    assert reply.lease_ms == 50_000


def test_c2_history_goes_along_with_partitions_in_proportion(kept: Kept) -> None:
    kept.ready(SLOW)
    kept.ask("a", 1, need=1000.0)
    spent = tuple((age, 10.0) for age in range(0, 80, 10))
    reply = kept.ask("a", 2, need=1.0, held=((0, 1),), released=((2, 9),), history=spent)
    assert reply.held == ((0, 1),)
    half = kept.ask("b", 1, need=400.0)
    assert ranges.count(half.held) == 4
    assert math.isclose(sum(cost for _, cost in half.history), 40.0)
    rest = kept.ask("c", 1, need=400.0)
    assert ranges.count(rest.held) == 4
    assert math.isclose(sum(cost for _, cost in rest.history), 40.0)


def test_c2_history_is_never_told_to_be_older_than_it_is(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=1000.0)
    before = kept.now()
    kept.ask("a", 2, released=ALL, history=((200, 5.0),))
    kept.turn(0.01)
    ((age_ms, cost),) = kept.ask("b", 1, need=1000.0).history
    assert cost == 5.0
    # Rounded to the later end of a slice; the clocks are read at other moments.
    assert 199 <= age_ms <= 201 + (kept.now() - before) * 1000


def test_c2_history_is_forgotten_after_a_period(kept: Kept) -> None:
    kept.ready(QUICK)
    kept.ask("a", 1, need=1000.0)
    kept.ask("a", 2, released=ALL, history=((20, 5.0),))
    kept.turn(0.1)
    assert kept.ask("b", 1, need=1000.0).history == ()


def test_c2_killed_holder_is_given_up_a_period_after_its_lease(kept: Kept) -> None:
    kept.ready(QUICK)
    granted = kept.now()
    kept.ask("a", 1, need=1000.0)
    for seq in range(1, 1000):
        reply = kept.ask("b", seq, need=1000.0)
        if reply.held:
            break
        kept.turn(0.01)
    assert kept.now() - granted >= 0.3 + 0.1
    assert reply.held == ALL
    assert reply.history == ()


def test_c2_request_sent_again_gets_the_same_answer(kept: Kept) -> None:
    kept.ready(SLOW)
    kept.ask("a", 1, need=1000.0)
    kept.ask("a", 2, released=ALL, history=((0, 7.0), (30, 5.0)))
    first = kept.ask("b", 1, need=500.0)
    again = kept.ask("b", 1, need=500.0)
    assert again.held == first.held == ((0, 4),)
    assert [cost for _, cost in again.history] == [cost for _, cost in first.history]
    assert again.until_ms >= first.until_ms


def test_c2_what_was_released_is_not_released_twice(kept: Kept) -> None:
    kept.ready(SLOW)
    kept.ask("a", 1, need=1000.0)
    for _ in range(2):
        reply = kept.ask("a", 2, held=((0, 4),), released=((5, 9),), history=((0, 50.0),))
        assert reply.held == ((0, 4),)
    taken = kept.ask("b", 1, need=1000.0)
    assert taken.held == ((5, 9),)
    assert sum(cost for _, cost in taken.history) == 50.0


def test_c2_late_request_changes_nothing(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 5, need=1000.0)
    assert kept.ask("a", 4, released=ALL).stale
    assert kept.ask("a", 6, need=1000.0).held == ALL


def test_c2_nobody_releases_what_others_hold(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=1000.0)
    kept.ask("b", 1, released=ALL)
    assert kept.ask("c", 1, need=1000.0).held == ()


def test_c4_dear_operation_of_two_gathers_what_it_needs(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=1000.0)
    told = kept.ask("b", 1, need=1000.0, gathering=800.0)
    assert (told.share, told.keep) == (8.0, 8)
    other = kept.ask("a", 2, need=1000.0, held=ALL)
    assert (other.keep, other.at_once) == (2, True)


def test_c5_shares_follow_the_weights(kept: Kept) -> None:
    kept.ready()
    first = kept.ask("a", 1, need=1000.0, weight=4.0)
    assert first.come_back_ms == 50  # it got everything at once: others may want some of it
    other = kept.ask("b", 1, need=1000.0, weight=1.0)
    assert other.share == 2.0
    assert 0 < other.come_back_ms <= 103  # when what the first one has too much of will be there
    for seq in range(2, 100):
        told = kept.ask("a", seq, need=1000.0, weight=4.0, held=ALL)
        assert (told.keep, told.at_once) == (8, True)
        waits = kept.ask("b", seq, need=1000.0)
        assert waits.come_back_ms <= 53
        if waits.come_back_ms > 0:
            return  # sooner or later, on the slowest of machines
    raise AssertionError("nobody was told when to come back")


def test_c5_more_instances_than_partitions_take_turns(kept: Kept) -> None:
    terms = replace(TERMS, capacity=100.0)
    kept.ready(terms)
    had: set[str] = set()
    held = dict.fromkeys("abc", ranges.EMPTY)
    keep = dict.fromkeys("abc", 1)
    for seq in range(1, 200):
        for name in "abc":
            gives = held[name] if not keep[name] else ranges.EMPTY
            left = ranges.without(held[name], gives)
            reply = kept.ask(name, seq, terms=terms, need=100.0, held=left, released=gives)
            held[name], keep[name] = reply.held, reply.keep
            had |= {name} if reply.held else set()
            assert sum(map(ranges.count, held.values())) <= 1
        if had == {"a", "b", "c"}:
            return
        kept.turn(0.02)
    raise AssertionError(f"only {had} had a turn")


def test_c9_anyone_changes_the_capacity_for_all(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=5000.0)
    kept.manager.set_capacity(replace(TERMS, capacity=2000.0))
    reply = kept.ask("a", 2, need=5000.0)
    assert (reply.capacity, reply.held) == (2000.0, ((0, 19),))
    assert reply.terms == replace(TERMS, capacity=2000.0, version=reply.terms.version)
    assert reply.terms.version > TERMS.version


def test_c9_what_is_held_beyond_a_lower_capacity_comes_back_at_once(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=5000.0)
    kept.manager.set_capacity(replace(TERMS, capacity=400.0))
    reply = kept.ask("a", 2, need=5000.0)
    assert (reply.held, reply.keep, reply.at_once) == (ALL, 4, True)
    assert kept.ask("a", 3, need=5000.0, released=((4, 9),)).held == ((0, 3),)
    kept.manager.set_capacity(replace(TERMS, capacity=1000.0))
    assert kept.ask("a", 4, need=5000.0).held == ALL


def test_c9_a_raise_can_be_ramped(kept: Kept) -> None:
    kept.ready()
    before = kept.now()
    kept.manager.set_capacity(replace(TERMS, capacity=2000.0), ramp=5000.0)
    kept.turn(0.05)
    reply = kept.ask("a", 1, need=5000.0)
    elapsed = kept.now() - before
    assert reply.terms.capacity == 2000.0
    assert 1000.0 + 5000.0 * 0.048 <= reply.capacity <= 1010.0 + 5000.0 * elapsed
    kept.turn(0.25)
    assert kept.ask("a", 2, need=5000.0).capacity == 2000.0


def test_c9_another_factor_starts_over(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=1000.0)
    kept.manager.set_capacity(replace(TERMS, factor=50.0))
    reply = kept.ask("a", 2, need=1000.0, held=ALL)
    assert reply.held == ()
    assert 0 < reply.quarantine_ms <= 50_000 + 2_012


def test_c9_capacity_can_be_set_before_anybody_asks(kept: Kept) -> None:
    kept.manager.set_capacity(replace(TERMS, capacity=300.0))
    reply = kept.ask("a", 1)
    assert (reply.capacity, reply.created) == (300.0, False)


def test_c9_newer_terms_win_over_those_that_instances_bring_back(kept: Kept) -> None:
    kept.manager.set_capacity(replace(TERMS, capacity=300.0, version=7))
    assert kept.ask("a", 1, terms=replace(TERMS, version=7)).capacity == 300.0


def test_c10_last_partition_is_worth_the_remainder(kept: Kept) -> None:
    terms = replace(TERMS, capacity=250.0)
    kept.ready(terms)
    reply = kept.ask("a", 1, terms=terms, need=1000.0)
    assert (reply.held, reply.share) == (((0, 2),), 2.5)


def test_c10_up_to_ten_thousand_partitions(kept: Kept) -> None:
    kept.ready(replace(TERMS, factor=0.1))
    assert kept.ask("a", 1, need=5000.0).held == ((0, 9_999),)
    with pytest.raises(ValueError, match=r"factor must be at least 0.2 for a capacity of 2000"):
        kept.manager.set_capacity(replace(TERMS, capacity=2000.0, factor=0.1))


def test_evicted_instance_loses_everything(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=1000.0)
    assert kept.manager.evict("a")
    assert not kept.manager.evict("nobody")
    reply = kept.ask("a", 2, need=1000.0, held=ALL)
    assert (reply.evicted, reply.keep, reply.at_once) == (True, 0, True)
    assert kept.ask("a", 3, need=1000.0, released=ALL).held == ()
    assert kept.ask("b", 1, need=1000.0).held == ALL


def test_leaving_gives_back_at_once(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=1000.0)
    kept.ask("a", 2, released=ALL, leaving=True)
    assert kept.ask("b", 1, need=1000.0).held == ALL


def test_delete_forgets_the_limit(kept: Kept) -> None:
    kept.ready()
    assert kept.manager.delete()
    assert not kept.manager.delete()
    assert kept.manager.look() is None
    assert kept.ask("a", 1).created


def test_look_tells_what_is_known(kept: Kept) -> None:
    kept.ready()
    odd = "host 1 | ä\n"
    kept.ask("i|1\n ö", 1, need=200.0, spent=1.5, reserved=3.0, weight=2.0, label=odd)
    kept.manager.evict("i|1\n ö")
    view = kept.manager.look()
    assert view is not None
    assert (view.terms, view.capacity, view.partitions) == (TERMS, 1000.0, 10)
    assert (view.free, view.quarantine_ms) == (((2, 9),), 0)
    (member,) = (one for one in view.members if one.instance == "i|1\n ö")
    assert (member.label, member.held, member.evicted) == (odd, ((0, 1),), True)
    assert (member.need, member.spent, member.reserved, member.weight) == (200, 1.5, 3, 2)
    assert (member.share, member.gathering) == (2.0, 0.0)
    assert member.seen_ms >= 0
    assert member.lease_ms <= 50_000


def shown(kept: Kept) -> list[str]:
    view = kept.manager.look()
    assert view is not None
    return [one.instance for one in view.members]


def test_look_leaves_out_an_instance_that_has_said_goodbye(kept: Kept) -> None:
    kept.ready()
    kept.ask("a", 1, need=200.0)
    kept.ask("b", 1)
    assert shown(kept) == ["a", "b"], "b is idle, and there"
    kept.turn(0.01)
    kept.ask("a", 2, released=((0, 1),), leaving=True)
    assert shown(kept) == ["b"]
    kept.ask("a", 3, need=100.0)
    assert shown(kept) == ["a", "b"], "it has come back"
    kept.turn(0.01)
    kept.ask("a", 4, leaving=True)
    assert shown(kept) == ["a", "b"], "it holds something still: others cannot have it yet"


def test_look_leaves_out_an_instance_that_was_idle_for_a_lease_and_a_period(kept: Kept) -> None:
    kept.ready(QUICK)
    kept.ask("a", 1, need=200.0)
    kept.ask("b", 1)
    kept.turn(1.0)
    assert shown(kept) == ["a"], "nobody has asked since; what a holds, another has to be given"
