"""The coordinator, history by history: who holds what, and when it may grant (laws C1 to C12)."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters.leases._format import DEFAULT_SPAN, FORMAT, QUEUE_LENGTH, UNITS
from limiters.leases._messages import Kind, Reply, Request, Terms, altered
from limiters.leases._terms_change import LimitChange
from tests.examples import examples
from tests.samples import sample, tuples
from tests.story import TERMS, Instance, Server, Story

SPAN = TERMS.span / 1_000
FORGIVEN = 1 + 1e-6


def terms_with(changes: dict[str, int]) -> Terms:
    return altered(
        TERMS,
        lease=changes.get("lease", TERMS.lease),
        period=changes.get("period", TERMS.period),
    )


def two_that_share(server: Server | None = None) -> tuple[Story, Instance, Instance]:
    """Two that have worked on one limit for a while."""
    story = Story(server)
    one, other = story.join("one"), story.join("other")
    story.run(3)
    assert story.used(story.now - 1) > 0.9
    return story, one, other


# A new limit.


def test_c12_a_new_limit_grants_immediately_on_a_server_that_was_started_empty() -> None:
    story = Story()
    one = story.join("one")
    one.turn(story.server, story.now)
    [reply] = one.replies
    assert (reply.created, reply.certain, reply.units) == (True, True, UNITS)
    assert one.spent


def test_c12_a_new_name_grants_immediately_on_a_server_whose_registry_is_old_enough() -> None:
    server = Server("one", empty_from_the_start=False)
    story = Story(server)
    first = story.join("first")
    story.run(DEFAULT_SPAN / 1_000 + 1)
    assert first.spent
    server.stored.limit, server.stored.name = None, "another"
    late = Instance("late")
    late.turn(server, story.now + 0.1)
    assert late.held(story.now + 0.1) == 1_000
    assert late.calls == 1


def test_c8_a_server_of_which_nothing_is_known_grants_nothing_before_a_span_has_passed() -> None:
    story = Story(Server("one", empty_from_the_start=False))
    one = story.join("one")
    began = story.now
    story.run(8)
    first = one.spent[0][0]
    assert began + DEFAULT_SPAN / 1_000 <= first <= began + DEFAULT_SPAN / 1_000 + 1


def test_c12_after_a_clean_stop_the_next_one_is_granted_everything_immediately() -> None:
    story, one, other = two_that_share()
    one.leave(story.server, story.now)
    other.leave(story.server, story.now)
    late = Instance("late")
    late.turn(story.server, story.now + 0.1)
    assert late.held(story.now + 0.1) == pytest.approx(1_000, rel=0.01)


def test_c12_a_limit_that_was_deleted_after_a_clean_stop_is_made_again_when_nothing_counts() -> (
    None
):
    story, one, other = two_that_share()
    one.leave(story.server, story.now)
    other.leave(story.server, story.now)
    assert story.server.delete(story.now)
    assert not story.server.delete(story.now), "there is none any more"
    late = story.join("late")
    story.run(1.2)
    assert late.spent, "what the others spent counts for a period"
    assert story.worst() <= 1_000 * FORGIVEN


# Amnesia.


@pytest.mark.parametrize("how", ["flushed", "restarted empty", "restarted with all"])
def test_c8_holders_keep_what_they_hold_and_a_newcomer_waits(how: str) -> None:
    story, one, other = two_that_share()
    if how == "flushed":
        story.server.flush()
    else:
        story.server.restart("two", empty=how == "restarted empty")
    forgot = story.now
    before = one.calls
    newcomer = story.join("newcomer")
    story.run(1.0)
    assert one.calls - before <= 4, "a challenge is answered immediately, and one call an interval"
    assert one.used(forgot, story.now) + other.used(forgot, story.now) > 0.9 * 1_000
    story.run(7.0)
    assert story.worst() <= 1_000 * FORGIVEN
    first = newcomer.spent[0][0]
    # It may be given what the two no longer state only when all that may be out has ended.
    assert first >= forgot + SPAN
    assert one.used(story.now - 1, story.now) == pytest.approx(333, rel=0.1)


@pytest.mark.parametrize("cut_off", [True, False])
@pytest.mark.parametrize("shorter", ["lease", "period"])
def test_c8_a_newcomer_with_shorter_terms_after_amnesia_shortens_nothing(
    cut_off: bool, shorter: str
) -> None:
    story, one, other = two_that_share()
    story.server.flush()
    one.connected = other.connected = not cut_off
    terms = altered(TERMS, lease=400) if shorter == "lease" else altered(TERMS, period=100)
    newcomer = story.join("newcomer", terms)
    story.run(8)
    last = max(at for at, _ in one.spent + other.spent)
    if cut_off:  # where spans are longer than the default, see exception X2
        assert newcomer.spent[0][0] >= last + 1.0
    else:
        assert not newcomer.spent
        assert newcomer.replies[-1].kind is Kind.REFUSED
        assert one.used(story.now - 1, story.now) > 400
        assert story.worst() <= 1_000 * FORGIVEN


def test_c8_a_misconfigured_newcomer_after_amnesia_delays_no_other() -> None:
    story, one, other = two_that_share()
    story.server.flush()
    newcomer = Instance("newcomer", altered(TERMS, lease=3_600_000))
    newcomer.exchange(story.server, story.now + 0.001)
    story.run(DEFAULT_SPAN / 1_000 + 1)
    assert one.replies[-1].certain
    assert other.used(story.now - 1, story.now) > 400
    late = story.join("late")
    story.run(1.5)
    assert late.spent


# Failover.


@pytest.mark.parametrize("delayed", [0, 1, 30])
def test_c2_c8_failover_to_a_server_that_is_behind_with_delayed_requests(delayed: int) -> None:
    story = Story()
    one = story.join("one")
    story.run(2)
    behind = story.server.copy("two", ahead=-4.0)
    other = story.join("other")
    story.run(4)
    old = one.requests[-1], other.requests[-1]
    one.leave(story.server, story.now)
    story.run(0.5)
    story.server = behind
    copies = [old[0]] * delayed

    def replay() -> None:
        if copies:
            story.server.sync(copies.pop(), story.now)

    story.run(9, replay)
    assert story.worst() <= 1_000 * FORGIVEN
    assert other.used(story.now - 1, story.now) > 900


@pytest.mark.parametrize("ahead", sample([-6.0, -0.5, 0.01, 0.5, 2.0, 3_600.0], every=2))
def test_c2_the_server_s_clock_is_set_back_or_forward_while_capacity_changes_hands(
    ahead: float,
) -> None:
    story, one, other = two_that_share()
    late = one.requests[-1]
    one.backlog = 0.0
    story.run(0.3)
    story.server.ahead = ahead
    story.server.sync(late, story.now)  # a delayed copy
    one.backlog = 1e6
    other.connected = False
    story.run(2.5)
    story.join("third")
    other.connected = True
    story.run(10)
    # A step that looks like a delay may let what changed hands go that much earlier: X4.
    allowed = 1.02 if 0 < ahead < 0.02 else FORGIVEN
    assert story.worst() <= 1_000 * allowed
    assert story.used(story.now - 1) > 0.9


def test_c2_a_server_s_clock_that_leaps_while_all_are_cut_off_frees_nothing_early() -> None:
    story, one, _ = two_that_share()
    story.instances.pop().alive = False
    story.server.ahead = 3_600.0
    newcomer = story.join("newcomer")
    killed = story.now
    story.run(8)
    assert story.worst() <= 1_000 * FORGIVEN
    assert newcomer.used(killed, killed + SPAN) <= 510, "only what no instance held"
    assert one.used(story.now - 1, story.now) > 400


@pytest.mark.parametrize("faster", sample([0.009, 0.0009, 0.05], every=3))
def test_c2_a_server_s_clock_that_is_too_fast_ends_no_lease_early(faster: float) -> None:
    terms = terms_with({"lease": 60_000})
    story = Story()
    one, other = (story.join(name, terms, backlog=1e6) for name in ("one", "other"))

    def drift() -> None:
        story.server.ahead += faster * 0.01

    story.run(5, drift)
    one.connected = False
    story.run(75, drift)
    assert max(at for at, _ in one.spent) > story.now - 25, "as long as its lease lasts"
    assert story.worst() <= 1_000 * FORGIVEN
    # While the clock cannot be believed, what the other one held stays reserved for it.
    assert other.used(story.now - 1, story.now) > (900 if faster < 0.002 else 450)


def test_c8_from_a_server_to_another_and_back() -> None:
    story, one, other = two_that_share()
    first = story.server
    story.server = first.copy("two")
    story.run(1.0)
    story.server = first
    third = story.join("third")
    story.run(DEFAULT_SPAN / 1_000 + 2)
    assert story.worst() <= 1_000 * FORGIVEN
    assert one.used(story.now - 1, story.now) + other.used(story.now - 1, story.now) > 600
    assert third.spent


def test_c8_an_address_that_flips_between_two_servers_is_certain_a_span_after_the_last_flip() -> (
    None
):
    story, one, _ = two_that_share()
    both = [story.server, story.server.copy("two")]
    for flip in range(20):
        story.server = both[flip % 2]
        story.run(0.13)
    story.run(DEFAULT_SPAN / 1_000 + 1)
    assert story.worst() <= 1_000 * FORGIVEN
    assert one.replies[-1].certain


def test_c8_a_nonce_that_was_given_before_proves_nothing_after_the_next_takeover() -> None:
    story, one, _ = two_that_share()
    story.server.flush()
    one.exchange(story.server, story.now + 0.01)
    old = one.share.compose(story.now + 0.01)
    assert old.nonce
    story.server.flush()
    reply = story.server.sync(old, story.now + 0.5)
    assert reply.kind is Kind.CHALLENGE
    assert reply.nonce != old.nonce


# Who holds what.


def test_c2_one_that_is_silent_is_given_up_when_its_lease_and_a_period_have_passed() -> None:
    story, one, other = two_that_share()
    one.alive = False
    story.run(SPAN + 0.4)
    assert other.used(story.now - 1, story.now) < 600
    story.run(2)
    assert other.used(story.now - 0.9, story.now) > 800
    assert story.worst() <= 1_000 * FORGIVEN


def test_c7_from_two_intervals_after_a_kill_the_others_use_what_is_not_lost() -> None:
    story = Story()
    all_ = [story.join(f"i{number}", backlog=1e6) for number in range(4)]
    story.run(3)
    all_[0].alive = False
    story.run(1.1)
    since = story.now
    story.run(1.5)
    others = sum(one.used(since, story.now) for one in all_[1:])
    assert others >= 0.9 * 0.75 * 1_000 * (story.now - since)


def test_c2_a_request_that_comes_again_is_answered_alike_and_renews_nothing() -> None:
    story, one, _ = two_that_share()
    one.backlog = 0.0
    one.ask(story.server, story.now + 0.5)
    again = one.requests[-1]
    limit = story.server.stored.limit
    assert limit is not None
    until = limit.records["one"].until
    first, second = (story.server.sync(again, story.now + later) for later in (0.6, 0.9))
    assert limit.records["one"].until == until
    assert (first.units, first.given, first.permit) == (second.units, second.given, second.permit)


def test_c2_a_late_request_changes_nothing() -> None:
    story, one, _ = two_that_share()
    late = altered(one.requests[-2], tries=2)
    before = str(story.server.stored.limit and story.server.stored.limit.records["one"])
    assert story.server.sync(late, story.now).kind is Kind.STALE
    assert str(story.server.stored.limit and story.server.stored.limit.records["one"]) == before


def test_c2_a_late_request_of_one_that_was_given_up_swallows_nothing() -> None:
    story, one, other = two_that_share()
    one.connected = False
    late = one.requests[-1]
    story.run(6)
    reply = story.server.sync(late, story.now)
    assert reply.units == 0 or reply.kind is not Kind.ANSWER or reply.born != late.born
    one.connected = True
    story.run(4)
    assert story.worst() <= 1_000 * FORGIVEN
    assert one.used(story.now - 1, story.now) == pytest.approx(500, rel=0.1)
    assert other.used(story.now - 1, story.now) == pytest.approx(500, rel=0.1)


def test_c2_no_instance_releases_what_others_hold() -> None:
    story, one, other = two_that_share()
    thief = Request.scalar("thief", 1, TERMS, units=0, released=UNITS, interval=500)
    story.server.sync(thief, story.now)
    limit = story.server.stored.limit
    assert limit is not None
    assert (
        limit.bounds[0].pool + sum(one.holdings[0].units for one in limit.records.values()) == UNITS
    )
    assert one.held(story.now) + other.held(story.now) <= 1_000 * FORGIVEN


def test_c8_a_change_of_a_limit_of_which_a_part_is_lost_starts_it_over() -> None:
    story, _, _ = two_that_share()
    coordinator = story.server.stored
    limit = coordinator.limit
    assert limit is not None
    del limit.records["other"]
    assert coordinator.set_terms(
        limit.server, limit.now, "token", LimitChange.scalar(capacity=500.0)
    )
    assert (limit.cause, limit.records) == ("what is stored of it did not agree", {})
    assert (limit.bounds[0].pool, limit.terms.capacity) == (UNITS, 500.0)


def test_c8_if_a_part_of_what_is_stored_is_lost_the_whole_limit_is_forgotten() -> None:
    story, one, other = two_that_share()
    limit = story.server.stored.limit
    assert limit is not None
    del limit.records["other"]
    lost = story.now
    newcomer = story.join("newcomer")
    story.run(2)
    causes = {reply.cause for reply in one.replies} - {""}
    assert causes == {"what is stored of it did not agree"}
    assert one.used(lost, story.now) > 800, "holders claim what they hold"
    assert other.used(lost, story.now) > 800
    assert not newcomer.spent
    story.run(5)
    assert newcomer.spent
    assert story.worst() <= 1_000 * FORGIVEN


# Terms.


@pytest.mark.parametrize("capacity", sample([950.0, 500.0], every=2))
def test_c9_capacity_lowered_and_raised_again_as_shares_change_hands(capacity: float) -> None:
    story = Story()
    crowd = [story.join(f"i{number}", backlog=1e6) for number in range(6)]
    story.run(1)
    random = Random(7)
    for number in range(20):
        capacity_now = capacity if number % 2 == 0 else 1_000.0
        assert story.server.set_terms(story.now, capacity=capacity_now)
        for one in crowd:
            one.backlog = random.choice([0.0, 1e6])
        story.run(random.choice([0.4, 1.3]))
    assert story.worst() <= 1_000 * FORGIVEN


def test_c9_two_intervals_and_a_period_after_a_capacity_was_lowered_no_window_is_over_it() -> None:
    story = Story()
    for number in range(6):
        story.join(f"i{number}", backlog=1e6)
    story.run(3)
    assert story.server.set_terms(story.now, capacity=400.0)
    lowered = story.now
    story.run(5)
    assert story.worst(since=lowered + 1.0 + 1.0 + 0.01) <= 400 * FORGIVEN
    assert story.used(story.now - 2) > 0.9


def test_c9_a_ramp_rises_by_so_much_and_goes_on_after_a_restart() -> None:
    story, _, _ = two_that_share()
    assert story.server.set_terms(story.now, capacity=10_000.0, ramp=0.1)  # 100 a second
    raised = story.now
    story.run(4)
    story.server.restart("two", empty=True)
    story.run(8)
    limit = story.server.stored.limit
    assert limit is not None
    assert limit.terms.capacity == 10_000
    assert limit.bounds[0].in_force(limit.now) <= 1_000 + 100 * (story.now - raised) + 1
    assert limit.bounds[0].in_force(limit.now) >= 1_000 + 100 * (story.now - raised - SPAN)


def test_c2_after_a_lease_was_shortened_a_killed_one_is_given_up_as_soon_as_that_says() -> None:
    story = Story()
    before = Instance("before", altered(TERMS, lease=3_600_000), backlog=1e6)
    before.share.interval = 900.0
    before.turn(story.server, story.now)
    before.leave(story.server, story.now)
    assert story.server.set_terms(story.now, lease=TERMS.lease)
    killed = story.join("killed", backlog=1e6)
    story.run(8)
    assert killed.held(story.now) == pytest.approx(1_000, rel=0.01)
    killed.alive = False
    late = story.join("late", backlog=1e6)
    story.run(SPAN + 2 * 0.5 + 1)
    assert late.held(story.now) == pytest.approx(1_000, rel=0.01)


@pytest.mark.parametrize("ahead", [3_600.0, 1.0, -3_600.0])
def test_c9_a_ramp_goes_on_by_the_clock_of_the_server_that_takes_over(ahead: float) -> None:
    story, _, _ = two_that_share()
    assert story.server.set_terms(story.now, capacity=10_000.0, ramp=0.1)  # 100 a second
    raised = story.now
    story.run(4)
    story.server = story.server.copy("two", ahead=ahead)
    story.run(8)
    limit = story.server.stored.limit
    assert limit is not None
    allowed = 1_000 + 100 * (story.now - raised) + 1
    assert allowed - 100 * SPAN <= limit.bounds[0].in_force(limit.now) <= allowed
    assert story.worst(since=raised) <= allowed


def test_c9_a_ramp_does_not_rise_by_unconfirmed_time_when_its_server_is_restarted() -> None:
    story, one, other = two_that_share()
    one.alive = other.alive = False
    story.run(3_600)  # in which no instance asks
    late = story.join("late")
    assert story.server.set_terms(story.now, capacity=10_000.0, ramp=0.1)
    raised = story.now
    story.run(2)
    assert story.server.stored.limit is not None
    assert story.server.stored.limit.skew > 3_000_000
    story.server.restart("two", empty=False)
    story.run(8)
    assert late.share.terms.in_force <= 1_000 + 100 * (story.now - raised) + 1


def test_c9_what_an_operator_sets_while_nothing_is_certain_stays() -> None:
    story, _, _ = two_that_share()
    story.server.flush()
    story.run(0.6)
    assert story.server.set_terms(story.now, capacity=300.0)
    story.run(8)
    limit = story.server.stored.limit
    assert limit is not None
    assert limit.terms.capacity == 300
    assert story.worst(since=story.now - 1) <= 300 * FORGIVEN


def test_c9_after_a_failover_to_a_clock_behind_what_an_operator_sets_stays() -> None:
    story, one, _ = two_that_share()
    assert story.server.set_terms(story.now, capacity=800.0)
    story.run(1)
    story.server = story.server.copy("two", ahead=-3_600.0)
    assert story.server.set_terms(story.now, capacity=300.0)
    story.run(8)
    assert one.share.terms.capacity == 300
    assert story.server.stored.limit is not None
    assert story.server.stored.limit.terms.capacity == 300


@pytest.mark.parametrize("field", ["lease", "period"])
def test_c11_an_instance_with_another_lease_or_period_is_refused_and_learns_which_are_in_force(
    field: str,
) -> None:
    story, one, _ = two_that_share()
    different = Instance("different", terms_with({field: 3_000}))
    reply = different.ask(story.server, story.now)
    assert reply.kind is Kind.REFUSED
    assert reply.terms.agrees(TERMS)
    limit = story.server.stored.limit
    assert limit is not None
    assert "different" not in limit.records
    assert one.replies[-1].certain


@pytest.mark.parametrize("changes", [{"lease": 4_000}, {"period": 2_000}, {"lease": 1_000}])
def test_c9_a_deploy_with_another_lease_or_period_rolls_after_the_operator_s_command(
    changes: dict[str, int],
) -> None:
    story, one, other = two_that_share()
    assert story.server.set_terms(story.now, **changes)
    set_at = story.now
    story.run(4)
    other.leave(story.server, story.now)
    new = story.join("new", terms_with(changes), backlog=1e6)
    one.backlog = 1e6
    story.run(12)
    span = max(SPAN, terms_with(changes).span / 1_000, DEFAULT_SPAN / 1_000)
    assert story.worst() <= 1_000 * FORGIVEN
    assert one.share.terms.agrees(new.share.terms)
    rate = 1_000 / one.share.terms.period * 1_000
    assert one.used(story.now - 2, story.now) == pytest.approx(rate, rel=0.1)
    assert new.used(story.now - 2, story.now) == pytest.approx(rate, rel=0.1)
    late = story.join("late")
    assert story.now > set_at + span
    story.run(3)
    assert late.spent


def test_c2_c9_a_limit_that_is_deleted_while_it_is_held_grants_nothing_a_second_time() -> None:
    story, one, other = two_that_share()
    other.connected = False
    assert story.server.delete(story.now)
    newcomer = story.join("newcomer", backlog=1e6)
    deleted = story.now
    story.run(1.5)
    assert one.used(deleted, story.now) > 600, "it claims what it holds"
    story.run(8)
    assert story.worst() <= 1_000 * FORGIVEN
    assert newcomer.spent[0][0] >= deleted + SPAN - 1.0


def test_c11_a_request_of_another_format_changes_nothing() -> None:
    server = Server("one")
    reply = server.sync(Request.scalar("new", 1, TERMS, format=FORMAT + 1, need=500.0), 100.0)
    assert (reply.kind, reply.format) == (Kind.FORMAT, FORMAT)
    assert server.stored.limit is None


def test_an_evicted_one_loses_all_and_is_granted_nothing() -> None:
    story, one, other = two_that_share()
    assert story.server.stored.evict("one")
    assert not story.server.stored.evict("nobody")
    story.run(2)
    assert one.replies[-1].evicted
    assert one.held(story.now) == 0
    since = story.now
    story.run(1.5)
    assert not one.used(since, story.now)
    assert other.used(story.now - 1, story.now) > 900


# Shares.


def crowd_of(*costs_and_backlogs: tuple[float, float], terms: Terms = TERMS) -> Story:
    story = Story()
    for number, (cost, backlog) in enumerate(costs_and_backlogs):
        story.join(f"i{number}", terms, cost=cost, backlog=backlog)
    return story


def jain(story: Story, since: float) -> float:
    used = [one.used(since, story.now) for one in story.instances]
    return sum(used) ** 2 / (len(used) * math.fsum(it * it for it in used))


@pytest.mark.parametrize(("instances", "cost"), tuples([(30, 1), (2, 5), (13, 1)], every=3))
def test_c5_equals_get_the_same_also_with_more_instances_than_partitions(
    instances: int, cost: float
) -> None:
    story = crowd_of(*[(cost, 1e6)] * instances)
    story.run(3)
    since = story.now
    story.run(5)
    assert jain(story, since) >= 0.99
    assert story.used(since) >= 0.97
    assert story.worst() <= 1_000 * FORGIVEN


@pytest.mark.parametrize("light", sample([10, 1, 19], every=3))
def test_c5_instances_that_need_a_thousandth_hold_a_thousandth(light: int) -> None:
    story = crowd_of((5.0, 1e6))
    quiet = [story.join(f"q{number}", cost=0.1, backlog=0.0) for number in range(light)]
    for _ in range(60):
        for one in quiet:
            one.backlog = 0.1
        story.run(0.1)
        for one in quiet:
            one.backlog = 0.0
    since = story.now - 3
    assert story.used(since) >= 0.97
    assert story.worst() <= 1_000 * FORGIVEN


def test_c5_a_weight_is_a_share_of_what_is_short() -> None:
    story = crowd_of((5.0, 1e6), (5.0, 1e6))
    heavier = story.instances[0].share
    heavier.profile = altered(heavier.profile, weight=3_000)
    story.run(4)
    since = story.now
    story.run(5)
    heavy, light = (one.used(since, story.now) for one in story.instances)
    assert heavy == pytest.approx(3 * light, rel=0.02)


def test_c5_an_idle_one_holds_nothing() -> None:
    story, one, other = two_that_share()
    one.backlog = 0.0
    story.run(4)
    assert one.held(story.now) == 0
    assert other.held(story.now) == pytest.approx(1_000, rel=0.01)


def test_c6_one_call_an_interval_and_none_while_idle() -> None:
    story = crowd_of(*[(5.0, 1e6)] * 4)
    story.run(4)
    before = sum(one.calls for one in story.instances)
    story.run(10)
    assert sum(one.calls for one in story.instances) - before <= 4 * 20 * 1.05
    for one in story.instances:
        one.backlog = 0.0
    story.run(4)
    before = sum(one.calls for one in story.instances)
    story.run(10)
    assert sum(one.calls for one in story.instances) == before


def test_c5_debt_grows_old_also_where_the_period_is_long() -> None:
    terms = Terms.scalar(1_000.0, 500.0, 30_000, 2_000)
    story = Story(period=30.0)
    for number in range(3):
        story.join(f"i{number}", terms, backlog=1e6)
    story.run(190)
    assert story.used(story.now - 60) >= 0.97
    assert story.worst() <= 1_000 * FORGIVEN


# Permits.


@pytest.mark.parametrize(
    # Of two, each has a share of two batches, and the last one comes by permits.
    ("instances", "least"),
    tuples([(2, 0.90), (8, 0.97), (3, 0.97)], every=2),
)
def test_c5_a_limit_of_five_a_second_is_used_in_full_and_fairly(
    instances: int, least: float
) -> None:
    terms = Terms.scalar(5.0, 1.0, 1_000, 2_000)
    story = crowd_of(*[(1.0, 1e6)] * instances, terms=terms)
    story.run(3)
    since = story.now
    story.run(24)
    assert story.worst() <= 5 * FORGIVEN
    assert story.used(since) >= least
    assert jain(story, since) >= 0.98


def test_c5_one_with_less_than_two_batches_of_what_is_short_lives_on_permits() -> None:
    terms = Terms.scalar(10.0, 1.0, 1_000, 2_000)
    story = crowd_of(*[(1.0, 1e6)] * 6, terms=terms)
    story.run(4)
    assert all(one.held(story.now) == 0 for one in story.instances)
    assert all(one.share.permits for one in story.instances)
    for one in story.instances[2:]:
        one.backlog = 0.0
    story.run(4)
    assert all(one.held(story.now) >= 4 for one in story.instances[:2])


def test_c5_one_that_needs_less_than_its_fair_share_has_a_share_of_one_batch() -> None:
    story = crowd_of((5.0, 1e6), (5.0, 0.0))
    light = story.instances[1]
    light.backlog = 5.0
    story.run(2)
    assert light.spent
    assert not light.share.permits


def test_c5_what_was_spent_by_a_share_puts_the_next_permit_off() -> None:
    story = crowd_of((5.0, 1e6), (5.0, 1e6))
    story.run(8)
    limit = story.server.stored.limit
    assert limit is not None
    turns = [one.turn for one in limit.records.values()]
    assert all(limit.now - turn <= 1_000 for turn in turns), "they get what they may have"


def test_c5_a_new_one_takes_turns_with_those_who_have_waited() -> None:
    terms = Terms.scalar(5.0, 1.0, 1_000, 2_000)
    story = crowd_of(*[(1.0, 1e6)] * 12, terms=terms)
    story.run(20)
    story.join("new", terms, cost=1.0, backlog=1e6)
    came = story.now
    story.run(26)
    new, *others = (one.used(came, story.now) for one in reversed(story.instances))
    assert new >= min(others) - 1


def test_c4_c5_operations_that_cost_the_whole_limit_starve_no_other() -> None:
    story = crowd_of((1_000.0, 1e7), (5.0, 1e6), (5.0, 1e6))
    story.run(5)
    since = story.now
    story.run(30)
    expensive, *others = (one.used(since, story.now) / 30 for one in story.instances)
    assert expensive >= 250
    assert min(others) >= 280
    assert story.used(since) >= 0.95
    assert story.worst() <= 1_000 * FORGIVEN


@pytest.mark.parametrize("cost", sample([800.0, 400.0, 1_000.0], every=3))
def test_c4_several_with_operations_that_cost_more_than_a_share_take_turns(cost: float) -> None:
    story = crowd_of(*[(cost, 1e7)] * 4)
    story.run(3)
    since = story.now
    story.run(24)
    assert jain(story, since) >= 0.98
    assert story.worst() <= 1_000 * FORGIVEN
    whole = 1_000 // cost * cost / 1_000  # what one queue for all would use
    assert story.used(since) >= 0.97 * whole


def test_c4_the_owner_of_an_expensive_operation_is_killed_and_the_others_go_on() -> None:
    story = crowd_of((1_000.0, 1e7), (5.0, 1e6), (5.0, 1e6))
    story.run(4.3)
    story.instances[0].alive = False
    story.run(1.1)  # two sync intervals and 0.1 s
    since = story.now
    story.run(2)
    assert sum(one.used(since, story.now) for one in story.instances) >= 0.9 * 2_000 - 1_000
    story.run(2)
    since = story.now
    story.run(2)
    assert story.used(since) >= 0.9


def test_c4_the_last_of_twenty_with_operations_of_the_whole_limit_starts_one_each_period() -> None:
    story = crowd_of(*[(1_000.0, 1e7)] * 20)
    story.run(3)
    for one in story.instances[1:]:
        one.alive = False
    story.run(3)
    since = story.now
    story.run(5)
    assert story.used(since) >= 0.79


def test_c2_a_permit_whose_holder_is_killed_counts_for_a_period() -> None:
    story = crowd_of((1_000.0, 1e7), (1_000.0, 1e7))
    one, other = story.instances
    story.run(3)
    while not one.used(story.now - 0.05, story.now):
        story.run(0.05)
    assert one.share.permits
    one.alive = False
    story.run(1.3)
    assert story.worst() <= 1_000 * FORGIVEN
    assert other.used(story.now - 0.3, story.now) == 1_000, "at its next turn"


def test_c4_an_unused_permit_is_refunded_immediately() -> None:
    server = Server("one")
    both = [
        Request.scalar(name, 1, TERMS, need=1_000.0, piece=1_000.0, interval=500) for name in "ab"
    ]
    first, second = (server.sync(one, 100.0) for one in both)
    asks = [altered(one, seq=2, ask=1_000.0, gathers=True, valid=300) for one in both]
    gives = altered(asks[0], released=first.units, born=first.born)
    granted = server.sync(gives, 100.1)
    assert granted.permit
    waits = server.sync(altered(asks[1], born=second.born), 100.15)
    assert (waits.permit, waits.back > 0) == (0, True)
    unused = altered(asks[0], seq=3, born=first.born, permit=granted.permit, ask=0.0)
    assert not server.sync(unused, 100.2).permit
    assert server.sync(altered(asks[1], seq=3, born=second.born), 100.25).permit


def test_nothing_grows_with_those_that_came_and_went() -> None:
    server = Server("one")
    now = 100.0
    for number in range(450):
        now += 0.02
        request = Request.scalar(
            f"i{number}", 1, TERMS, need=1_000.0, ask=1_000.0, gathers=True, valid=50, interval=500
        )
        reply = server.sync(request, now)
        if number % 2:
            gives = altered(
                request, seq=2, born=reply.born, released=reply.units, leaving=True, need=0, ask=0
            )
            server.sync(gives, now + 0.001)
    limit = server.stored.limit
    assert limit is not None
    assert len(limit.records) <= (SPAN + 1.0) / 0.02 + 2
    assert len(limit.queue) <= QUEUE_LENGTH
    assert len(limit.bounds[0].ledger.entries) <= 210
    assert len(limit.bounds[0].returning) <= 210


# Whatever happens.


class Faults:
    """Random instances whose requests are mostly true, on servers that fail in every way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.story = Story(Server("s0", empty_from_the_start=self.random.random() < 0.7))
        self.servers = 0
        for number in range(5):
            self.story.join(f"i{number}", cost=self.random.choice([5.0, 60.0, 400.0]))
        self.old: list[Request] = []

    def step(self) -> None:
        random, story = self.random, self.story
        one = random.choice(story.instances)
        what = random.randrange(60)
        one.backlog = random.choice([one.backlog, one.backlog, 0.0, 5_000.0])
        if what == 0:
            one.connected = not one.connected
        elif what == 1:
            story.server.flush()
        elif what == 2:
            self.servers += 1
            story.server = story.server.copy(f"s{self.servers}", ahead=random.uniform(-5, 5))
        elif what == 3:
            story.server.set_terms(story.now, capacity=random.choice([700.0, 1_000.0, 1_300.0]))
        elif what == 4:
            story.server.stored.evict(one.name)
        elif what == 5:
            story.server.delete(story.now)
        elif what == 6:
            story.server.ahead += random.choice([-4.0, 0.3, 30.0])
        elif what == 7:
            story.server.set_terms(story.now, lease=random.choice([1_000, 2_000]))
        elif what < 12 and one.requests:
            story.server.sync(random.choice(one.requests[-5:]), story.now)
        story.run(random.choice([0.01, 0.02, 0.1]))


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_c2_whatever_happens_the_amounts_sum_to_the_limit_and_nothing_stops(seed: int) -> None:
    faults = Faults(seed)
    for _ in range(60):
        faults.step()
        limit = faults.story.server.stored.limit
        if limit is None:
            continue
        held = sum(one.holdings[0].units for one in limit.records.values())
        back = sum(units for _, units in limit.bounds[0].returning)
        assert limit.bounds[0].pool >= 0
        assert limit.bounds[0].pool + held + back == UNITS
        assert all(one.holdings[0].units >= 0 for one in limit.records.values())
        assert len(limit.queue) <= QUEUE_LENGTH


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32))
def test_c8_while_it_is_uncertain_no_instance_is_granted_what_it_did_not_state(seed: int) -> None:
    faults = Faults(seed)
    for _ in range(60):
        faults.step()
        for one in faults.story.instances:
            stated = {request.seq: request.units for request in one.requests}
            for reply in one.replies:
                if reply.kind is Kind.ANSWER and not reply.certain:
                    assert reply.units <= stated[reply.seq]
                    assert (reply.permit, reply.given) == (0, ())
            one.replies.clear()
            del one.requests[:-5]


def test_a_reply_says_what_it_is_of() -> None:
    reply = Server("one").sync(Request.scalar("a", 7, TERMS, need=10.0), 100.0)
    assert isinstance(reply, Reply)
    assert (reply.seq, reply.server, reply.now, reply.format) == (7, "one", 100_000, FORMAT)


def test_c8_limit_that_is_lost_waits_for_leases_longer_than_those_of_who_comes_first() -> None:
    long = altered(TERMS, lease=60_000)
    story = Story()
    held = story.join("held", long)
    story.run(2)
    assert held.held(story.now) == 1_000
    held.connected = False
    story.server.stored.limit = None
    late = story.join("late")
    began = story.now
    story.run(20)
    assert held.spent[-1][0] > began + 15
    assert not late.spent
    assert story.worst() <= 1_000 * FORGIVEN
