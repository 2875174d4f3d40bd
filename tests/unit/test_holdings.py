"""One instance's part, message by message: laws C2, C4, C6, C7 and C9."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters.holdings import DRIFT, LATEST, MARGIN, SOONEST, Holdings, in_slices
from limiters.leases import ranges
from limiters.leases.coordinator import Coordinator
from limiters.leases.messages import Reply, Request, Terms
from limiters.leases.ranges import EMPTY
from limiters.window import BURST, UNEVEN_BURST

TERMS = Terms(capacity=1_050.0, factor=100.0, period_ms=1_000, lease_ms=2_000)
ALL = ((0, 10),)
NOW = 50.0


def reply_of(held: ranges.Ranges, **changes: object) -> Reply:
    reply = Reply(
        held=held,
        until_ms=9_000,
        lease_ms=2_000,
        share=11.0,
        keep=10,
        keep_last=True,
        capacity=TERMS.capacity,
        terms=replace(TERMS, version=1),
    )
    return replace(reply, **changes)  # type: ignore[arg-type]


def holding(held: ranges.Ranges = ALL, *, waiting: float = 2_000.0) -> Holdings:
    """One that holds `held` since NOW and wants `waiting`."""
    holdings = Holdings("me", TERMS)
    holdings.want(waiting, 0.0, NOW)
    holdings.compose(NOW)
    holdings.answered(reply_of(held), NOW, NOW)
    return holdings


def spend(holdings: Holdings, cost: float, at: float, *, begins: bool = True) -> None:
    holdings.ledger.hold(cost)
    charged = holdings.ledger.charge(cost, at, holdings.tenure)
    if begins:
        assert charged.started(at)


# What it is worth.


@pytest.mark.parametrize(
    ("held", "worth"),
    [(EMPTY, 0), (((0, 0),), 100), (((10, 10),), 50), (((9, 10),), 150), (ALL, 1_050)],
)
def test_c10_the_last_partition_is_worth_the_remainder(held: ranges.Ranges, worth: float) -> None:
    holdings = holding(held)
    assert holdings.settle(NOW) == worth
    assert holdings.burst(NOW) == (worth * BURST or 100 * UNEVEN_BURST)


def test_c3_what_may_go_at_once_is_never_more_than_could_be_held() -> None:
    holdings = Holdings("me", replace(TERMS, capacity=10.0, factor=1_000.0))
    assert holdings.burst(NOW) == 10 * UNEVEN_BURST


def test_c2_a_lease_is_reckoned_from_before_it_was_asked_for() -> None:
    holdings = Holdings("me", TERMS)
    holdings.want(500.0, 0.0, NOW)
    holdings.compose(NOW)
    holdings.answered(reply_of(ALL), NOW, NOW + 0.7)
    until = NOW + 2.0 * (1 - DRIFT) - MARGIN
    assert holdings.until == pytest.approx(until)
    assert holdings.settle(until - 1e-6) == 1_050
    assert holdings.settle(until) == 0
    assert holdings.ledger.available(until, 50) == 0


# What it releases.


def test_c5_what_it_does_not_need_goes_back_with_its_part_of_what_was_spent() -> None:
    holdings = holding(((0, 9),))
    spend(holdings, 300.0, NOW)
    holdings.want(200.0, 0.0, NOW)
    request = holdings.compose(NOW + 0.5)
    assert request.released == ((5, 9),)
    assert request.held == ((0, 4),)
    assert request.need == 500
    assert math.fsum(cost for _, cost in request.history) == pytest.approx(150)
    assert all(age <= 500 for age, _ in request.history)
    assert holdings.ledger.spent(NOW + 0.5) == pytest.approx(150)


def test_c2_what_may_begin_at_any_moment_is_covered_by_what_is_kept() -> None:
    holdings = holding(((0, 9),))
    spend(holdings, 250.0, NOW, begins=False)
    holdings.ledger.hold(100.0)
    holdings.want(0.0, 0.0, NOW)
    request = holdings.leave(NOW + 0.5)
    assert ranges.count(request.held) == 4
    assert holdings.settle(NOW + 0.5) == 400


def test_c5_one_told_of_less_gives_back_at_once_and_not_twice() -> None:
    holdings = holding(((0, 9),))
    spend(holdings, 100.0, NOW)
    holdings.compose(NOW + 0.5)
    holdings.answered(reply_of(((0, 9),), keep=4, at_once=True), NOW + 0.5, NOW + 0.5)
    assert holdings.next_call(NOW + 0.5) == NOW + 0.5 + SOONEST
    assert ranges.count(holdings.compose(NOW + 0.6).released) == 6
    holdings.answered(reply_of(((0, 3),), keep=4), NOW + 0.6, NOW + 0.6)
    assert holdings.next_call(NOW + 0.6) == NOW + 0.6 + holdings.interval


def test_c9_partitions_there_are_no_more_go_back_though_they_are_wanted() -> None:
    holdings = holding()
    holdings.compose(NOW + 0.5)
    terms = replace(TERMS, capacity=300.0, version=2)
    holdings.answered(
        reply_of(ALL, capacity=300.0, terms=terms, keep=3, keep_last=False, at_once=True),
        NOW + 0.5,
        NOW + 0.5,
    )
    assert holdings.settle(NOW + 0.5) == 300
    assert holdings.compose(NOW + 0.6).held == ((0, 2),)


# When it asks.


def test_c6_the_first_request_is_due_at_once_and_then_nothing_while_idle() -> None:
    holdings = Holdings("me", TERMS)
    assert holdings.next_call(NOW) <= NOW
    holdings.compose(NOW)
    holdings.answered(reply_of(EMPTY), NOW, NOW)
    assert holdings.next_call(NOW + 1_000) == math.inf
    holdings.want(1.0, 0.0, NOW + 1_000)
    assert holdings.next_call(NOW + 1_000) <= NOW + 1_000


def test_c6_one_that_has_done_its_work_gives_all_back_and_is_silent() -> None:
    holdings = holding()
    spend(holdings, 100.0, NOW)
    holdings.want(0.0, 0.0, NOW)
    now, calls = NOW, 0
    while (due := holdings.next_call(now)) < math.inf:
        now = max(now, due)
        request = holdings.compose(now)
        holdings.answered(reply_of(request.held), now, now)
        calls += 1
        assert calls < 10
    assert holdings.held == EMPTY
    assert holdings.ledger.spent(now + 1.1) == 0


@pytest.mark.parametrize("cut_off_while_asking", [False, True])
def test_c8_a_lease_that_is_over_proves_nothing_whatever_the_clock_of_the_next_server_says(
    cut_off_while_asking: bool,
) -> None:
    one, other = Holdings("one", TERMS), Holdings("other", TERMS)
    coordinator = Coordinator(forgetful=False)

    def exchange(holdings: Holdings, now: float, server: str = "first", ahead: float = 0) -> None:
        holdings.want(5_000.0, 0.0, now)
        request = holdings.compose(now)
        reply = coordinator.sync(request, round((now + ahead) * 1_000), server)
        holdings.answered(reply, now, now)

    exchange(one, NOW, "first")
    assert one.settle(NOW) == 1_050
    if cut_off_while_asking:
        one.compose(NOW + 0.5)
    given_up = NOW + 3.1
    exchange(other, given_up)
    assert other.settle(given_up) == 1_050

    exchange(one, given_up + 0.1, "second", -1.5)
    exchange(other, given_up + 0.2, "second", -1.5)
    assert one.settle(given_up + 0.2) + other.settle(given_up + 0.2) <= 1_050
    assert other.settle(given_up + 0.2) == 1_050


def test_c7_no_answer_and_it_asks_again_ever_less_often_the_very_same() -> None:
    holdings = holding(((0, 4),))
    holdings.want(2_000.0, 0.0, NOW)
    first = holdings.compose(NOW + 0.5)
    now, waits = NOW + 0.5, []
    for _ in range(6):
        holdings.unanswered(now)
        waits.append(holdings.next_call(now) - now)
        now = holdings.next_call(now)
        holdings.want(3_000.0, 0.0, now)
        proof = first.until_ms if now < holdings.until else 0
        assert holdings.compose(now) == replace(first, until_ms=proof)
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.5, 0.5])


def test_c7_an_idle_one_stops_asking_when_its_lease_is_over_and_begins_when_it_wants() -> None:
    holdings = holding(((0, 4),))
    holdings.compose(NOW + 0.5)
    holdings.unanswered(NOW + 0.5)
    holdings.want(0.0, 0.0, NOW + 0.5)
    assert holdings.next_call(NOW + 1.0) < math.inf
    assert holdings.next_call(NOW + 3.0) == math.inf
    holdings.want(5.0, 0.0, NOW + 4.0)
    assert holdings.next_call(NOW + 4.0) <= NOW + 4.0


def test_it_comes_back_when_told_unless_that_is_far_off() -> None:
    holdings = holding(EMPTY)
    interval = holdings.interval
    for ms, expected in ((100, 0.1), (1, SOONEST), (10_000, interval), (-1, interval)):
        holdings.compose(NOW)
        holdings.answered(reply_of(EMPTY, come_back_ms=ms), NOW, NOW)
        assert holdings.next_call(NOW) == pytest.approx(NOW + expected)
    assert LATEST * interval < 10


def test_c4_one_that_gathers_asks_at_once_for_enough_and_says_since_when() -> None:
    holdings = holding(((0, 1),), waiting=100.0)
    holdings.want(900.0, 900.0, NOW + 0.1)
    assert holdings.next_call(NOW + 0.1) <= NOW + 0.1
    request = holdings.compose(NOW + 0.3)
    assert (request.gathering, request.waited_ms, request.need) == (900.0, 199, 900.0)


# What it hears.


def test_a_stale_answer_means_that_somebody_else_is_me() -> None:
    holdings = holding()
    holdings.compose(NOW + 0.5)
    assert holdings.answered(Reply(stale=True), NOW + 0.5, NOW + 0.5).disowned


def test_news_are_what_changed() -> None:
    holdings = holding(((0, 4),))
    holdings.want(0.0, 0.0, NOW)
    spend(holdings, 200.0, NOW)
    released = holdings.compose(NOW + 0.5).released
    news = holdings.answered(reply_of(((1, 1), (7, 7))), NOW + 0.5, NOW + 0.6)
    assert released == ((2, 4),)
    assert (news.gained, news.lost, news.released, news.missing) == (
        ((7, 7),),
        ((0, 0),),
        released,
        0,
    )


def test_c2_what_others_spent_of_new_partitions_counts_from_its_age() -> None:
    holdings = holding(EMPTY)
    holdings.compose(NOW)
    holdings.answered(reply_of(((0, 4),), history=((400, 150.0),)), NOW, NOW)
    assert holdings.ledger.spent(NOW) == 150
    assert holdings.ledger.spent(NOW + 0.59) == 150
    assert holdings.ledger.spent(NOW + 0.62) == 0


def test_it_follows_another_period_and_a_shorter_lease() -> None:
    holdings = holding()
    holdings.compose(NOW)
    terms = replace(TERMS, period_ms=5_000, lease_ms=1_000, version=9)
    holdings.answered(reply_of(ALL, terms=terms, lease_ms=1_000), NOW, NOW)
    assert holdings.ledger.period == 5.0
    assert holdings.interval == 0.25


@given(
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 100)), max_size=30),
    st.sampled_from([1, 100, 1_000, 60_000]),
)
def test_c2_history_is_never_told_older_than_it_is(
    entries: list[tuple[float, float]], period_ms: int
) -> None:
    told = in_slices(entries, 2.0, period_ms)
    assert math.fsum(c for _, c in told) == pytest.approx(math.fsum(c for _, c in entries))
    for age_ms, _ in told:
        older = math.fsum(c for at, c in entries if (2.0 - at) * 1_000 >= age_ms - 1e-6)
        assert older >= math.fsum(c for age, c in told if age >= age_ms) - 1e-6


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1), st.floats(0, 0.6)), max_size=60))
def test_c1_the_ledgers_of_all_and_of_the_pool_are_never_more_than_the_capacity(
    steps: list[tuple[int, float, float]],
) -> None:
    # Two that share one limit and hand it back and forth, at random but in order.
    coordinator = Coordinator(forgetful=False)
    both = [Holdings("a", TERMS, interval=0.1), Holdings("b", TERMS, interval=0.1)]
    spent: list[tuple[float, float]] = []
    now = NOW
    for who, share, pause in steps:
        now += pause
        if who == 2:
            for one in both:
                one.want(share * 1_500, 0.0, now)
            continue
        one = both[who]
        one.settle(now)
        free = share * one.ledger.available(now, 500.0 * share)
        if free > 0:
            spend(one, free, now)
            spent.append((now, free))
        if one.next_call(now) <= now:
            request = one.compose(now)
            one.answered(serve(coordinator, request, now), now, now)
    for end, _ in spent:
        window = math.fsum(cost for at, cost in spent if end - 1.0 < at <= end)
        assert window <= TERMS.capacity * (1 + 1e-6)


def serve(coordinator: Coordinator, request: Request, now: float) -> Reply:
    return coordinator.sync(request, int(now * 1_000))


def test_c7_who_only_looks_now_and_then_asks_again_each_time_while_nobody_answers() -> None:
    holdings = Holdings("me", TERMS)
    now, calls = NOW, 0
    for _ in range(20):
        holdings.want(50.0, 0.0, now)
        holdings.want(0.0, 0.0, now)
        due = holdings.next_call(now)
        assert due < math.inf
        now = max(now, due)
        holdings.compose(now)
        calls += 1
        holdings.unanswered(now)
        assert holdings.next_call(now) == math.inf
        now += 1.0
    assert calls == 20
