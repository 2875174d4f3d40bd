"""One instance's part, message by message: laws C1, C2, C4, C6, C7, C8 and C9."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters._budgets.pace import UNEVEN
from limiters._budgets.permit_corrections import in_slices
from limiters._instance_share import MIN_REQUEST_INTERVAL, InstanceShare
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import DRIFT, NEVER, UNITS
from limiters.leases._messages import Kind, Reply, Request, Terms, altered, usable_lease
from limiters.leases._terms_change import LimitChange
from limiters.limits import BURST
from tests.examples import examples

TERMS = Terms.scalar(capacity=1_000.0, factor=100.0, period=1_000, lease=2_000)
ALL, HALF = UNITS, UNITS // 2
NOW = 50.0


def reply_of(units: int, **changes: object) -> Reply:
    reply = Reply.scalar(
        Kind.ANSWER,
        seq=1,
        server="one",
        now=round(NOW * 1_000),
        terms=altered(TERMS, in_force=TERMS.capacity),
        born=7,
        units=units,
        keep=units,
        share=ALL,
    )
    return altered(reply, **changes)


def answer(share: InstanceShare, reply: Reply, now: float) -> None:
    share.answered(altered(reply, now=round(now * 1_000)), now, now)


def holding(units: int = ALL, *, waiting: float = 2_000.0) -> InstanceShare:
    """One that holds `units` since NOW and wants `waiting`."""
    share = InstanceShare("me", TERMS)
    share.want(waiting, 0.0, NOW)
    share.compose(NOW)
    answer(share, reply_of(units), NOW)
    return share


def spend(share: InstanceShare, cost: float, at: float, *, begins: bool = True) -> None:
    share.settle(at)
    share.ledger.hold(cost)
    charged = share.ledger.charge(cost, at, share.tenure)
    if begins:
        assert charged.started(at)


def coordinator() -> Coordinator:
    """Return a coordinator whose server was never anywhere else: it grants immediately."""
    made = Coordinator(default_span=0)
    made.registry = Registry("one", NEVER)
    return made


def exchange(share: InstanceShare, with_: Coordinator, now: float, server: str = "one") -> Request:
    """Sends what is due until it is answered."""
    for _ in range(5):
        request = share.compose(now)
        reply = with_.sync(request, server, math.floor(now * 1_000))
        share.answered(reply, now, now)
        if reply.kind in (Kind.ANSWER, Kind.REFUSED, Kind.STALE):
            return request
    raise AssertionError("it is sent back again and again")


# What it is worth.


@pytest.mark.parametrize(
    ("units", "worth"), [(0, 0), (UNITS // 3, 333.333), (HALF, 500), (1, 2e-7), (ALL, 1_000)]
)
def test_c10_an_amount_is_worth_an_exact_fraction_of_the_capacity(units: int, worth: float) -> None:
    share = holding(units)
    assert share.settle(NOW) == pytest.approx(worth, abs=1e-3)


def test_c3_before_anything_is_held_a_share_says_how_much_may_go_together() -> None:
    assert holding(0).burst(NOW) == 1_000 * round(UNEVEN * BURST, 12)


def test_c9_a_capacity_that_changes_moves_nothing_but_what_a_unit_is_worth() -> None:
    share = holding(HALF)
    share.compose(NOW + 0.5)
    terms = altered(TERMS, capacity=300.0, in_force=300.0, factor=7.0, version=2)
    answer(share, reply_of(HALF, terms=terms), NOW + 0.5)
    assert share.settle(NOW + 0.5) == 150
    assert share.units == HALF
    assert share.compose(NOW + 1.0).released == 0


def test_c9_while_a_capacity_rises_what_is_in_force_counts() -> None:
    share = holding(HALF)
    share.compose(NOW + 0.5)
    answer(share, reply_of(HALF, terms=altered(TERMS, in_force=400.0, rising=0.1)), NOW + 0.5)
    assert share.settle(NOW + 0.5) == 200


def test_c3_what_may_go_together_is_never_more_than_could_be_held() -> None:
    share = InstanceShare("me", altered(TERMS, capacity=10.0, factor=1_000.0))
    assert share.burst(NOW) == pytest.approx(10 * UNEVEN * BURST)


def test_c2_a_lease_is_counted_from_before_its_request_was_sent() -> None:
    share = InstanceShare("me", TERMS)
    share.want(500.0, 0.0, NOW)
    share.compose(NOW)
    share.answered(reply_of(ALL), NOW + 0.3, NOW + 0.7)
    until = NOW + usable_lease(2_000) / 1_000
    assert until < NOW + 2.0 * (1 - DRIFT)
    assert share.until == pytest.approx(until)
    assert share.settle(until - 1e-6) == 1_000
    assert share.settle(until) == 0
    assert share.ledger.available(until, 50) == 0


def test_c2_a_request_that_is_sent_again_makes_no_lease_longer() -> None:
    share = holding(HALF)
    share.compose(NOW + 0.5)
    share.unanswered(NOW + 1.0)
    share.compose(NOW + 1.0)
    answer(share, reply_of(HALF), NOW + 1.1)
    assert share.until == pytest.approx(NOW + 0.5 + usable_lease(2_000) / 1_000)


# What it releases.


def test_c5_what_it_may_not_keep_goes_back_with_the_same_fraction_of_all_it_spent() -> None:
    share = holding()
    spend(share, 300.0, NOW)
    share.compose(NOW + 0.4)
    answer(share, reply_of(ALL, keep=ALL // 4), NOW + 0.4)
    assert share.next_call(NOW + 0.4) == pytest.approx(NOW + 0.4 + MIN_REQUEST_INTERVAL)
    request = share.compose(NOW + 0.5)
    assert (request.units, request.released) == (ALL // 4, 3 * ALL // 4)
    assert math.fsum(cost for _, cost in request.bounds[0].history) == pytest.approx(225)
    assert all(age <= 500 for age, _ in request.bounds[0].history)
    assert share.ledger.spent(NOW + 0.5) == pytest.approx(75)
    assert share.settle(NOW + 0.5) == 250
    answer(share, reply_of(ALL // 4), NOW + 0.5)
    assert share.next_call(NOW + 0.5) == pytest.approx(NOW + 0.5 + share.interval)


def test_c2_what_is_inherited_is_passed_on_with_its_stamp() -> None:
    share = holding(0)
    share.compose(NOW + 0.5)
    answer(share, reply_of(ALL, given=((50_100, 80.0), (50_300, 40.0))), NOW + 0.5)
    assert share.ledger.spent(NOW + 0.5) == 120
    share.compose(NOW + 0.6)
    answer(share, reply_of(ALL, keep=HALF), NOW + 0.6)
    request = share.compose(NOW + 0.7)
    assert request.bounds[0].stamped == ((50_100, 40.0), (50_300, 20.0))
    assert request.bounds[0].history == ()


def test_c5_what_it_inherited_is_neither_spent_nor_needed_by_it() -> None:
    share = holding(0, waiting=10.0)
    share.compose(NOW + 0.5)
    answer(share, reply_of(ALL, given=((50_400, 700.0),)), NOW + 0.5)
    spend(share, 10.0, NOW + 0.6)
    share.want(5.0, 0.0, NOW + 0.6)
    request = share.compose(NOW + 1.0)
    assert request.bounds[0].spent == 10
    assert request.need == 15


def test_c2_what_may_start_at_any_moment_is_covered_by_what_is_kept() -> None:
    share = holding()
    spend(share, 250.0, NOW, begins=False)
    share.ledger.hold(100.0)
    request = share.leave(NOW + 0.5)
    assert share.settle(NOW + 0.5) == pytest.approx(350)
    assert request.units == pytest.approx(0.35 * ALL, abs=2)


def test_c2_one_that_stops_keeps_just_what_may_start_however_much_it_has_spent() -> None:
    share = holding()
    spend(share, 900.0, NOW + 0.1)
    spend(share, 20.0, NOW + 0.2, begins=False)
    request = share.leave(NOW + 0.5)
    assert share.settle(NOW + 0.5) == pytest.approx(20)
    assert request.released == pytest.approx(0.98 * ALL, abs=2)
    assert math.fsum(cost for _, cost in request.bounds[0].history) == pytest.approx(900)
    assert share.ledger.spent(NOW + 0.5) == pytest.approx(20)


def test_c2_one_that_stops_after_a_lowered_capacity_keeps_what_it_has_spent() -> None:
    share = holding()
    spend(share, 900.0, NOW + 0.1)
    spend(share, 20.0, NOW + 0.2, begins=False)
    [bound] = share.bounds
    bound.follow(replace(bound.terms, in_force=500.0), NOW + 0.3)
    request = share.leave(NOW + 0.5)
    assert (request.released, request.bounds[0].history) == (0, ())


@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 400), st.booleans()), max_size=12),
    st.floats(0, 1),
)
def test_c2_no_hand_over_leaves_less_than_what_counts_and_may_start(
    spends: list[tuple[float, float, bool]], keep: float
) -> None:
    share = holding()
    now = NOW
    for pause, cost, begins in spends:
        now = min(NOW + 1.5, now + pause)
        share.settle(now)
        cost = min(cost, share.ledger.available(now, cost))
        if cost:
            spend(share, cost, now, begins=begins)
    share.compose(now)
    share.answered(reply_of(ALL, keep=math.floor(ALL * keep)), now, now)
    share.compose(now)
    assert share.ledger.spent(now) <= share.settle(now) * (1 + 1e-6) + 1e-6


# When it asks.


def test_c6_the_first_request_is_due_immediately_and_then_nothing_while_idle() -> None:
    share = InstanceShare("me", TERMS)
    assert share.next_call(NOW) <= NOW
    share.compose(NOW)
    answer(share, reply_of(0), NOW)
    assert share.next_call(NOW + 1_000) == math.inf
    share.want(1.0, 0.0, NOW + 1_000)
    assert share.next_call(NOW + 1_000) <= NOW + 1_000


def test_c6_one_that_has_done_its_work_gives_all_back_and_is_silent() -> None:
    limit = coordinator()
    share = InstanceShare("me", TERMS)
    share.want(300.0, 0.0, NOW)
    exchange(share, limit, NOW)
    spend(share, 100.0, NOW)
    share.want(0.0, 0.0, NOW)
    now, calls = NOW, 0
    while (due := share.next_call(now)) < math.inf:
        now = max(now, due)
        exchange(share, limit, now)
        calls += 1
        assert calls < 10
    assert share.units == 0
    assert limit.limit is not None
    assert limit.limit.bounds[0].pool == UNITS


def test_c6_who_could_use_twice_as_much_asks_immediately() -> None:
    share = holding(HALF, waiting=100.0)
    share.want(190.0, 0.0, NOW + 0.1)
    assert share.next_call(NOW + 0.1) == pytest.approx(NOW + share.interval)
    share.want(500.0, 0.0, NOW + 0.1)
    assert share.next_call(NOW + 0.1) <= NOW + 0.1


def test_c6_who_got_a_time_asks_again_then_but_not_before() -> None:
    for back, expected in ((100, 0.1), (1, MIN_REQUEST_INTERVAL), (10_000, 0.5), (-1, 0.5)):
        share = holding(0)
        share.compose(NOW)
        answer(share, reply_of(0, back=back), NOW)
        assert share.next_call(NOW) == pytest.approx(NOW + expected)


def test_c7_no_answer_and_it_sends_the_very_same_again_ever_less_often() -> None:
    share = holding(HALF)
    first = share.compose(NOW + 0.5)
    now, waits = NOW + 0.5, []
    for _ in range(6):
        share.unanswered(now)
        waits.append(share.next_call(now) - now)
        now = share.next_call(now)
        share.want(3_000.0, 0.0, now)
        assert share.compose(now) == altered(first, confirmed=share.compose(now).confirmed)
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.5, 0.5])


def test_c7_an_idle_one_stops_asking_when_its_lease_has_ended_and_starts_when_it_wants() -> None:
    share = holding(HALF)
    share.compose(NOW + 0.5)
    share.unanswered(NOW + 0.5)
    share.want(0.0, 0.0, NOW + 0.5)
    assert share.next_call(NOW + 1.0) < math.inf
    assert share.next_call(NOW + 3.0) == math.inf
    share.want(5.0, 0.0, NOW + 4.0)
    assert share.next_call(NOW + 4.0) <= NOW + 4.0


def test_c7_who_only_looks_now_and_then_asks_again_each_time_without_an_answer() -> None:
    share = InstanceShare("me", TERMS)
    now, calls = NOW, 0
    for _ in range(20):
        share.want(50.0, 0.0, now)
        share.want(0.0, 0.0, now)
        due = share.next_call(now)
        assert due < math.inf
        now = max(now, due)
        share.compose(now)
        calls += 1
        share.unanswered(now)
        assert share.next_call(now) == math.inf
        now += 1.0
    assert calls == 20


def test_c4_one_that_gathers_asks_immediately_for_a_permit_and_says_since_when() -> None:
    share = holding(HALF, waiting=100.0)
    share.want(900.0, 900.0, NOW + 0.1)
    assert share.next_call(NOW + 0.1) <= NOW + 0.1
    request = share.compose(NOW + 0.3)
    assert (request.ask, request.gathers, request.need) == (900.0, True, 900.0)
    assert 199 <= request.waited <= 200
    assert 0 < request.valid <= TERMS.lease // 2


def test_c4_one_whose_share_covers_what_it_gathers_for_asks_for_no_permit() -> None:
    share = holding(ALL, waiting=100.0)
    share.want(900.0, 900.0, NOW + 0.1)
    assert share.compose(NOW + 0.3).ask == 0


def test_c5_one_that_acquires_a_little_at_a_time_asks_for_more_than_it_spent() -> None:
    share = holding(ALL // 100, waiting=10.0)
    spend(share, 10.0, NOW)
    share.short(True, NOW + 0.1)
    request = share.compose(NOW + 0.5)
    assert request.need == pytest.approx(20), "at most twice what it spent, at a time"


# Permits.


def permitted(cost: float = 500.0) -> InstanceShare:
    share = holding(0, waiting=2_000.0)
    share.want(2_000.0, 500.0, NOW)
    share.compose(NOW + 0.5)
    answer(share, reply_of(0, permit=3, permit_cost=cost), NOW + 0.5)
    return share


def test_c2_a_permit_ends_before_the_server_forgets_it() -> None:
    share = holding(0, waiting=2_000.0)
    share.want(2_000.0, 500.0, NOW)
    valid = share.compose(NOW + 0.5).valid / 1_000
    answer(share, reply_of(0, permit=3, permit_cost=500.0), NOW + 0.5)
    assert share.permit.until < NOW + 0.5 + valid
    assert share.permit.available(share.permit.until - 1e-6) == 500
    assert share.permit.available(share.permit.until) == 0


def test_c4_while_a_permit_is_open_nothing_is_asked_and_then_immediately() -> None:
    share = permitted()
    assert share.next_call(NOW + 0.55) == share.permit.until
    share.permit.hold(500)
    assert share.permit.charge(500, NOW + 0.6).started(NOW + 0.6)
    assert share.next_call(NOW + 0.6) <= NOW + 0.6
    request = share.compose(NOW + 0.65)
    ((age, cost),) = request.bounds[0].permit_spent
    assert (request.permit, cost) == (3, 500)
    assert 49 <= age <= 50, "never older than it is"
    assert (request.need, request.bounds[0].by_permit, request.bounds[0].spent) == (2_500, 500, 500)
    assert share.compose(NOW + 0.65) == request, "sent again, it reports the same"


def test_c3_a_permit_that_was_not_used_is_reported_as_such() -> None:
    share = permitted()
    request = share.compose(share.permit.until)
    assert (request.permit, request.bounds[0].permit_spent) == (3, ())


def test_c2_a_reply_that_comes_twice_grants_its_permit_once() -> None:
    share = permitted()
    share.permit.hold(500)
    assert share.permit.charge(500, NOW + 0.5).started(NOW + 0.5)
    share.compose(NOW + 0.6)
    answer(share, reply_of(0, permit=3, permit_cost=500.0), NOW + 0.6)
    assert share.permit.available(NOW + 0.6) == 0
    assert share.permits == 1


def test_c2_a_permit_whose_reply_is_too_late_is_of_no_use() -> None:
    share = holding(0, waiting=2_000.0)
    share.want(2_000.0, 500.0, NOW)
    valid = share.compose(NOW + 0.5).valid / 1_000
    share.answered(reply_of(0, permit=3, permit_cost=500.0), NOW + 0.5, NOW + 0.5 + valid)
    assert share.permit.available(NOW + 0.5 + valid) == 0


# What replies mean.


def test_c8_a_challenge_is_answered_immediately_by_a_new_request_with_its_nonce() -> None:
    share = holding(HALF)
    first = share.compose(NOW + 0.5)
    share.answered(Reply.scalar(Kind.CHALLENGE, nonce="n", server="two"), NOW + 0.5, NOW + 0.5)
    assert share.next_call(NOW + 0.5) == NOW + 0.5
    second = share.compose(NOW + 0.5)
    assert second.seq > first.seq
    assert (second.nonce, second.ended, second.units) == ("n", True, HALF)
    assert second.server == "one", "the one that answered last: a challenge is no answer"
    assert 0 < second.left <= 1_500
    answer(share, reply_of(HALF, server="two"), NOW + 0.5)
    third = share.compose(NOW + 1.0)
    assert (third.nonce, third.ended, third.server) == ("", False, "two")


def test_c8_after_a_challenge_what_is_not_answered_is_sent_again_after_a_pause() -> None:
    share = holding(HALF)
    share.compose(NOW + 0.5)
    share.answered(Reply.scalar(Kind.CHALLENGE, nonce="n", server="two"), NOW + 0.5, NOW + 0.5)
    for _ in range(6):
        now = share.next_call(NOW + 0.5)
        share.compose(now)
        share.unanswered(now)
        assert share.next_call(now) >= now + 0.05


def test_c8_a_lease_that_has_ended_is_not_claimed() -> None:
    share = holding(HALF)
    share.compose(NOW + 0.5)
    share.answered(Reply.scalar(Kind.CHALLENGE, nonce="n"), NOW + 2.1, NOW + 2.1)
    claim = share.compose(NOW + 2.1)
    assert (claim.units, claim.left) == (0, 0)


def test_c2_a_request_that_is_sent_back_is_sent_again_with_what_was_learned_of_the_clock() -> None:
    share = holding(HALF)
    first = share.compose(NOW + 0.5)
    share.answered(Reply.scalar(Kind.RETRY, server="one"), NOW + 0.5, NOW + 0.6)
    assert share.next_call(NOW + 0.6) == NOW + 0.6
    again = share.compose(NOW + 0.6)
    assert (again.seq, again.tries, first.tries) == (first.seq, 1, 0)
    assert again.confirmed >= first.confirmed + 100
    assert altered(again, tries=0, confirmed=first.confirmed) == first


def test_c2_a_server_s_clock_is_confirmed_by_the_exchange_that_says_least() -> None:
    share = InstanceShare("me", TERMS)
    share.compose(NOW)
    assert share.compose(NOW).confirmed == -1, "nothing is known before the first answer"
    answer(share, reply_of(ALL), NOW)
    share.compose(NOW + 0.5)
    share.answered(reply_of(ALL, now=60_000), NOW + 0.5, NOW + 0.5)  # it leapt by 9.5 s
    confirmed = share.compose(NOW + 1.0).confirmed
    assert 51_000 <= confirmed <= 51_000 + 2 + 20


def test_c2_exchanges_with_another_server_confirm_nothing() -> None:
    share = holding(HALF)
    share.compose(NOW + 0.5)
    share.answered(reply_of(HALF, server="two", now=9_000_000), NOW + 0.5, NOW + 0.5)
    assert 9_000_500 <= share.compose(NOW + 1.0).confirmed <= 9_000_530


def test_c11_an_instance_with_another_lease_is_refused_and_asks_now_and_then() -> None:
    share = holding(0)
    share.compose(NOW + 0.5)
    terms = altered(TERMS, lease=8_000)
    news = share.answered(Reply.scalar(Kind.REFUSED, terms=terms), NOW + 0.5, NOW + 0.5)
    assert news.refused == terms
    assert not news.answered
    assert share.next_call(NOW + 0.5) == NOW + 0.5 + share.interval
    assert share.terms.lease == 2_000


def test_c9_what_an_operator_has_set_is_followed_immediately() -> None:
    share = holding(0)
    share.compose(NOW + 0.5)
    terms = altered(TERMS, lease=1_000, period=5_000, version=9)
    news = share.answered(Reply.scalar(Kind.REFUSED, terms=terms), NOW + 0.5, NOW + 0.5)
    assert news.refused is None
    assert share.next_call(NOW + 0.5) == NOW + 0.5
    assert share.compose(NOW + 0.5).terms.agrees(terms)
    assert share.ledger.period == 5.0
    assert share.interval == 0.25, "a lease lasts at least four intervals"


def test_c9_two_changes_of_one_version_and_one_that_was_lost_refuse_none_for_good() -> None:
    share = holding(0)
    share.compose(NOW + 0.5)
    for terms in (
        altered(TERMS, lease=1_000, version=9),
        altered(TERMS, lease=1_500, version=9),  # set on another server
        altered(TERMS, lease=1_200, version=8),
        TERMS,  # no instance there had received any change
    ):
        assert share.answered(Reply.scalar(Kind.REFUSED, terms=terms), NOW, NOW).refused is None
        assert share.compose(NOW).terms.agrees(terms)


def test_c6_one_that_followed_a_shorter_lease_asks_as_seldom_as_before_when_that_is_over() -> None:
    share = InstanceShare("me", TERMS, interval=0.5)
    share.want(2_000.0, 0.0, NOW)
    share.compose(NOW)
    answer(share, reply_of(ALL), NOW)
    intervals = []
    for number, lease in enumerate((400, 2_000, 60_000), 1):
        now = NOW + number / 10
        share.compose(now)
        terms = altered(TERMS, lease=lease, in_force=TERMS.capacity, version=number)
        answer(share, reply_of(ALL, seq=number + 1, terms=terms), now)
        intervals.append(share.interval)
    assert intervals == [0.1, 0.5, 0.5]


def test_c6_one_that_is_refused_after_it_followed_does_not_ask_all_the_time() -> None:
    share = holding(0)
    share.compose(NOW + 0.5)
    share.answered(
        Reply.scalar(Kind.REFUSED, terms=altered(TERMS, lease=1_000, version=9)), NOW, NOW
    )
    share.compose(NOW + 0.5)
    share.answered(
        Reply.scalar(Kind.REFUSED, terms=altered(TERMS, lease=9_000)), NOW + 0.5, NOW + 0.5
    )
    assert share.next_call(NOW + 0.5) == pytest.approx(NOW + 0.5 + share.interval)


def test_c8_it_says_whether_a_certain_server_has_answered_under_its_terms() -> None:
    share = InstanceShare("me", TERMS)
    assert not share.compose(NOW).terms.served
    answer(share, reply_of(0, certain=False), NOW)
    assert not share.compose(NOW + 0.5).terms.served
    answer(share, reply_of(0), NOW + 0.5)
    assert share.compose(NOW + 1.0).terms.served


def test_a_stale_answer_means_that_another_process_uses_its_identity() -> None:
    share = holding()
    share.compose(NOW + 0.5)
    assert share.answered(Reply.scalar(Kind.STALE), NOW + 0.5, NOW + 0.5).disowned


@given(
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 100)), max_size=30),
    st.sampled_from([1, 100, 1_000, 60_000]),
)
def test_c2_history_is_never_reported_older_than_it_is(
    entries: list[tuple[float, float]], period: int
) -> None:
    told = in_slices(entries, 2.0, period)
    assert math.fsum(c for _, c in told) == pytest.approx(math.fsum(c for _, c in entries))
    for age, _ in told:
        older = math.fsum(c for at, c in entries if (2.0 - at) * 1_000 >= age - 1e-6)
        assert older >= math.fsum(c for its, c in told if its >= age) - 1e-6


# Several that share a limit.


class Several:
    """Some that share one limit and hand it back and forth, while its capacity changes."""

    def __init__(self, seed: int, count: int = 3) -> None:
        self.random = Random(seed)
        self.limit = coordinator()
        self.now = NOW
        self.shares = [InstanceShare(f"i{number}", TERMS, interval=0.1) for number in range(count)]
        self.spent: list[tuple[float, float]] = []
        self.capacities = [(-math.inf, TERMS.capacity)]

    def step(self) -> None:
        random = self.random
        self.now += random.choice([0.0, 0.01, 0.05, 0.2, 0.6])
        if random.random() < 0.01:
            self.now += random.choice([1.0, 2.2, 4.0])
        if random.random() < 0.04:
            self._change_capacity(random.choice([300.0, 900.0, 1_000.0, 1_050.0, 2_500.0]))
        one = random.choice(self.shares)
        one.want(random.choice([0, 50, 600, 3_000]), 0.0, self.now)
        if random.random() < 0.3:
            gathering = random.choice([0, 200, 900])
            one.want(max(500.0, gathering), gathering, self.now)
        self._spend(one)
        if one.next_call(self.now) <= self.now:
            if random.random() < 0.1:
                one.compose(self.now)  # lost
                one.unanswered(self.now)
            else:
                exchange(one, self.limit, self.now)
        self._spend(one)

    def _change_capacity(self, capacity: float) -> None:
        clock = math.floor(self.now * 1_000)
        if self.limit.set_terms("one", clock, "token", LimitChange.scalar(capacity=capacity)):
            self.capacities.append((self.now, capacity))

    def _spend(self, one: InstanceShare) -> None:
        random, now = self.random, self.now
        one.settle(now)
        if (free := one.permit.available(now)) > 0 and random.random() < 0.8:
            one.permit.payment(free, now).enter()
            self.spent.append((now, free))
        most = random.random() * 800
        if (free := one.ledger.available(now, most)) > 0:
            one.ledger.payment(free, now).enter()
            self.spent.append((now, free))

    def bound(self, end: float) -> float:
        """The largest capacity that an instance may have used in the window that ends then."""
        since = end - 1.0 - TERMS.lease / 1_000
        before = [capacity for at, capacity in self.capacities if at <= since][-1]
        return max(before, *(its for at, its in self.capacities if since <= at <= end), before)


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32))
def test_c1_c9_no_window_is_over_whatever_is_handed_over_lost_or_changed(seed: int) -> None:
    several = Several(seed)
    for _ in range(120):
        several.step()
    for end, _ in several.spent:
        window = math.fsum(cost for at, cost in several.spent if end - 1.0 < at <= end)
        assert window <= several.bound(end) * (1 + 1e-6)


def test_c9_capacity_lowered_and_raised_again_while_a_share_changes_hands() -> None:
    limit = coordinator()
    one, other = (InstanceShare(name, TERMS, interval=0.1) for name in ("one", "other"))
    spent: list[tuple[float, float]] = []

    def use_all(share: InstanceShare, now: float) -> None:
        share.settle(now)
        free = share.ledger.available(now, 1_000)
        if free:
            spend(share, free, now)
            spent.append((now, free))

    one.want(3_000.0, 0.0, NOW)
    exchange(one, limit, NOW)
    use_all(one, NOW)
    limit.set_terms("one", round((NOW + 0.1) * 1_000), "t1", LimitChange.scalar(capacity=500.0))
    exchange(one, limit, NOW + 0.1)
    one.want(0.0, 0.0, NOW + 0.15)
    one.leave(NOW + 0.2)
    assert one.pending is not None
    limit.sync(one.pending, "one", round((NOW + 0.2) * 1_000))
    other.want(3_000.0, 0.0, NOW + 0.3)
    exchange(other, limit, NOW + 0.3)
    use_all(other, NOW + 0.3)
    limit.set_terms("one", round((NOW + 0.4) * 1_000), "t2", LimitChange.scalar(capacity=1_000.0))
    for step in range(60):
        now = NOW + 0.4 + step / 20
        exchange(other, limit, now)
        use_all(other, now)
    for end, _ in spent:
        assert math.fsum(cost for at, cost in spent if end - 1.0 < at <= end) <= 1_000 * (1 + 1e-9)
    late = math.fsum(cost for at, cost in spent if at > NOW + 1.4)
    assert late >= 0.9 * 1_000, "and what was spent before is forgotten after a period"


@pytest.mark.parametrize("cut_off_while_asking", [False, True])
def test_c8_a_lease_that_has_ended_proves_nothing_whatever_the_clock_of_the_next_server_says(
    cut_off_while_asking: bool,
) -> None:
    limit = coordinator()
    one, other = InstanceShare("one", TERMS), InstanceShare("other", TERMS)
    for share in (one, other):
        share.want(5_000.0, 0.0, NOW)
    exchange(one, limit, NOW)
    assert one.settle(NOW) == 1_000
    if cut_off_while_asking:
        one.compose(NOW + 0.5)
    given_up = NOW
    while other.settle(given_up) < 1_000:
        given_up += 0.5
        assert given_up < NOW + 6
        exchange(other, limit, given_up)
    assert given_up >= NOW + (2_000 + 1_006) / 1_000
    # The next server has forgotten the last seconds, and its clock is behind.
    for share, at in ((one, given_up + 0.1), (other, given_up + 0.2)):
        for _ in range(3):
            request = share.compose(at)
            reply = limit.sync(request, "two", round((at - 1.5) * 1_000))
            share.answered(reply, at, at)
    assert one.settle(given_up + 0.2) == 0
    assert other.settle(given_up + 0.2) == 1_000
