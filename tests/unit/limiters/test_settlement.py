"""Laws Z1 to Z5 on the ledger alone: what calls cost in truth, known after they were charged."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters._budgets.end_window import EndWindowLedger
from limiters._budgets.release import last_release, releasable
from limiters._budgets.spend import BudgetEntry, Spend
from limiters._budgets.spending import Spending
from limiters._budgets.window import WindowLedger
from tests.examples import examples
from tests.interrupting import each_point

CAPACITY, PERIOD = 100.0, 1.0
NEVER = math.inf


class Call:
    """One call, as its server sees it."""

    def __init__(self, spend: Spend, estimated: float, now: float) -> None:
        self.spend = spend
        self.estimated = estimated
        self.started_at = now
        self.ended_at = NEVER
        self.actual = estimated
        """The actual cost, if it was settled."""
        self.closed = False

    def counts(self) -> float:
        """Return the cost that counts by the laws."""
        return self.actual if self.closed else max(self.estimated, self.actual)

    def settle(self, actual: float) -> None:
        assert self.spend.settle(actual)
        self.actual = actual

    def end(self, now: float) -> None:
        self.spend.ended(now)
        self.closed, self.ended_at = True, now


class Holder:
    """One holder of a part of a limit, and what it started."""

    def __init__(self, capacity: float, *, at_end: bool = False) -> None:
        kind = EndWindowLedger if at_end else WindowLedger
        self.ledger = kind(capacity, PERIOD, burst=1.0, shared=True)
        self.open: list[Call] = []
        self.all: list[Call] = []

    def start(self, cost: float, now: float) -> Call | None:
        if self.ledger.available(now, at_least=cost) < cost:
            return None
        self.ledger.hold(cost)
        spend = self.ledger.charge(cost, now)
        assert spend.started(now)
        call = Call(spend, cost, now)
        self.open.append(call)
        self.all.append(call)
        return call

    def begin(self, cost: float) -> Call:
        """Starts one at 0, which fits."""
        call = self.start(cost, 0.0)
        assert call is not None
        return call

    def hand_over(self, part: float, other: Holder, now: float) -> None:
        """As a coordinator does it: a part of the capacity and the same part of each entry."""
        capacity = self.ledger.capacity
        own, inherited = self.ledger.split(part, now)
        self.ledger.set_capacity(capacity * (1 - part))
        other.ledger.set_capacity(other.ledger.capacity + capacity * part)
        for at, cost in own:
            stamp = math.ceil(at * 1000)
            other.ledger.receive(stamp, cost, at + PERIOD + 0.01)
        for stamp, cost in inherited:
            other.ledger.receive(stamp, cost, stamp / 1000 + PERIOD + 0.01)


def in_window(calls: list[Call], now: float, *, at_end: bool) -> float:
    """Return what their server has actually counted in the period before `now`, in truth."""
    counted = (
        call.actual
        for call in calls
        if (call.ended_at if at_end else call.started_at) > now - PERIOD and call.closed
    )
    running = (call.actual for call in calls if not call.closed)
    if at_end:
        return math.fsum((*counted, *running))
    started = (call.actual for call in calls if call.started_at > now - PERIOD)
    return math.fsum(started)


def worst_use(
    seed: int,
    *,
    at_end: bool = False,
    hand_overs: bool = True,
    estimate: Callable[[random.Random, float], float] = lambda chance, estimated: estimated,
    steps: int = 250,
) -> float:
    """The fullest window of two holders of one limit, by actual costs, as a share of its capacity.

    `estimate` says what a call that was estimated to cost something costs in truth.
    """
    chance = random.Random(seed)
    holders = [Holder(CAPACITY / 2, at_end=at_end), Holder(CAPACITY / 2, at_end=at_end)]
    now, worst = 0.0, 0.0
    for _ in range(steps):
        now += chance.choice([0.0, 0.003, 0.05, 0.3])
        holder = chance.choice(holders)
        deed = chance.random()
        if deed < 0.5:
            cost = chance.uniform(0.05, 1.0) * max(1.0, holder.ledger.capacity)
            holder.start(cost, now)
        elif deed < 0.9 and holder.open:
            call = chance.choice(holder.open)
            truth = estimate(chance, call.estimated)
            for said in sorted(chance.uniform(0, truth) for _ in range(chance.randrange(3))):
                call.settle(said)
            call.settle(truth)
            if chance.random() < 0.3:
                call.settle(truth)
            if chance.random() < 0.8:
                holder.open.remove(call)
                call.end(now)
        elif hand_overs and holder.ledger.pledged == 0:
            other = holders[holder is holders[0]]
            holder.hand_over(chance.choice([0.2, 0.5, 1.0]), other, now)
        both = [*holders[0].all, *holders[1].all]
        worst = max(worst, in_window(both, now, at_end=at_end))
    return worst / CAPACITY


def below(chance: random.Random, estimated: float) -> float:
    return estimated * chance.choice([0.0, 0.1, 0.5, 1.0])


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_z1_no_window_is_over_by_actual_costs_through_hand_overs(seed: int, at_end: bool) -> None:
    assert worst_use(seed, at_end=at_end, estimate=below) <= 1 + 1e-6


def test_z1_a_refund_makes_room_immediately() -> None:
    holder = Holder(CAPACITY)
    call = holder.begin(80)
    call.settle(20)
    assert holder.ledger.available(0.1, at_least=100) == 20
    call.end(0.1)
    assert holder.ledger.available(0.1, at_least=100) == 80


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_the_ledger_agrees_with_a_plain_model_of_each_call(seed: int, at_end: bool) -> None:
    """The estimate counts when a call starts, and a part of it goes with each hand-over. A refund
    is taken in full from what stayed, as far as that suffices; an excess is in proportion."""
    chance = random.Random(seed)
    kind = EndWindowLedger if at_end else WindowLedger
    ledger = kind(1_000_000, PERIOD, burst=1.0)
    plain: dict[Spend, tuple[Call, float, float]] = {}  # what it counts here, which part stayed
    now = 0.0
    for _ in range(120):
        now += chance.choice([0.0, 0.01, 0.2])
        for spend, (call, _, _) in list(plain.items()):
            since = call.ended_at if at_end else call.started_at
            if since + PERIOD + 0.01 < now:
                del plain[spend]
        deed = chance.random()
        running = [call for call, _, _ in plain.values() if not call.closed]
        if deed < 0.4:
            estimated = float(chance.choice([0, 1, 10, 100]))
            ledger.hold(estimated)
            entry = ledger.charge(estimated, now)
            entry.started(now)
            plain[entry] = Call(entry, estimated, now), estimated, 1.0
        elif deed < 0.85 and running:
            call = chance.choice(running)
            before = call.counts()
            _, here, stayed = plain[call.spend]
            if chance.random() < 0.7:
                call.settle(float(chance.choice([0, 5, 50, 500])))
            else:
                call.end(now)
            change = call.counts() - before
            here += change * stayed if change > 0 else max(change, -here)
            plain[call.spend] = call, here, stayed
        elif deed < 0.95:
            part = chance.choice([0.1, 0.5, 1.0])
            ledger.split(part, now)
            for spend, (call, here, stayed) in plain.items():
                if not at_end or call.closed:
                    plain[spend] = call, here * (1 - part), stayed * (1 - part)
        # Slices of time round up: only what is surely out, or surely in, is compared.
        edge = [
            here
            for call, here, _ in plain.values()
            if abs((call.ended_at if at_end else call.started_at) + PERIOD - now) < 0.02
        ]
        counted = math.fsum(here for _, here, _ in plain.values())
        slack = sum(edge) + 1e-6
        assert ledger.spent(now) == pytest.approx(counted, abs=slack)


def above(chance: random.Random, estimated: float) -> float:
    return estimated * chance.choice([0.5, 1.0, 1.0, 1.0, 3.0])


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_z2_nothing_starts_until_the_window_fits_again(seed: int, at_end: bool) -> None:
    chance = random.Random(seed)
    holder = Holder(CAPACITY, at_end=at_end)
    now = 0.0
    for _ in range(200):
        now += chance.choice([0.0, 0.01, 0.3])
        if chance.random() < 0.5:
            there = in_window(holder.all, now, at_end=at_end)
            started = holder.start(chance.uniform(1, 60), now)
            if started is not None:
                assert there + started.estimated <= CAPACITY * (1 + 1e-6)
        elif holder.open:
            call = chance.choice(holder.open)
            call.settle(above(chance, call.estimated))
            if chance.random() < 0.8:
                holder.open.remove(call)
                call.end(now)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32))
def test_z2_a_window_is_over_by_no_more_than_the_excess_that_was_in_flight(seed: int) -> None:
    chance = random.Random(seed)
    holder = Holder(CAPACITY)
    now = 0.0
    for _ in range(300):
        now += chance.choice([0.0, 0.01, 0.2])
        if chance.random() < 0.5:
            holder.start(chance.uniform(1, 60), now)
        elif holder.open:
            call = holder.open.pop(0)
            call.settle(above(chance, call.estimated))
            call.end(now)
        recent = [call for call in holder.all if call.started_at > now - PERIOD]
        excess = math.fsum(max(0.0, call.actual - call.estimated) for call in recent)
        assert math.fsum(call.actual for call in recent) <= CAPACITY + excess + 1e-6


def test_z2_it_is_back_under_within_a_period() -> None:
    holder = Holder(CAPACITY)
    call = holder.begin(50)
    call.settle(300)
    call.end(0.5)
    assert holder.start(1, 0.9) is None
    assert holder.ledger.ready_at(1, 0.9) == pytest.approx(1.006)
    assert holder.start(50, 1.5) is not None


def test_z3_a_settlement_counts_once_however_often_it_is_sent() -> None:
    holder = Holder(CAPACITY)
    call = holder.begin(80)
    assert holder.ledger.spent(0.0) == 80
    for said in (95, 95, 95, 30, 30):
        call.settle(said)
        assert holder.ledger.spent(0.1) == max(80, said)
    call.end(0.2)
    call.end(0.3)
    assert holder.ledger.spent(0.3) == 30
    assert holder.ledger.spending(0.3) == Spending(80, refunded=50)
    assert holder.ledger.settled() == -50


def test_z3_a_refund_is_of_the_part_that_stayed() -> None:
    holder, other = Holder(CAPACITY), Holder(CAPACITY)
    call = holder.begin(80)
    holder.hand_over(0.25, other, 0.1)
    call.settle(40)
    call.end(0.2)
    assert holder.ledger.spent(0.2) == pytest.approx(20)
    assert other.ledger.spent(0.2) == pytest.approx(20)


def test_z3_a_refund_is_of_no_more_than_its_own_part_that_stayed() -> None:
    """Another call began at the same time."""
    holder, other = Holder(CAPACITY), Holder(CAPACITY)
    call, beside = holder.begin(60), holder.begin(20)
    holder.hand_over(0.75, other, 0.1)
    for one, actual in ((call, 10), (beside, 20)):
        one.settle(actual)
        one.end(0.2)
    assert holder.ledger.spent(0.2) == pytest.approx(5)
    assert other.ledger.spent(0.2) == pytest.approx(60)


def test_z3_a_refund_is_dropped_once_all_went() -> None:
    holder, other = Holder(CAPACITY), Holder(CAPACITY)
    call = holder.begin(80)
    holder.hand_over(1.0, other, 0.1)
    holder.ledger.set_capacity(CAPACITY)
    later = holder.start(10, 0.1)
    assert later is not None
    call.settle(0)
    call.end(0.2)
    assert holder.ledger.spent(0.2) == pytest.approx(10)


def test_z3_an_excess_counts_where_the_parts_of_the_entry_are() -> None:
    holder, other = Holder(CAPACITY), Holder(CAPACITY)
    call = holder.begin(40)
    holder.hand_over(0.25, other, 0.1)
    call.settle(80)
    assert holder.ledger.spent(0.2) == pytest.approx(60)
    ((at, debt),) = holder.ledger.debts.elsewhere.values()
    assert at == pytest.approx(0, abs=PERIOD / 500)
    assert debt == pytest.approx(10)


def test_z3_what_stayed_is_known_after_any_number_of_hand_overs() -> None:
    """The part that stayed: as a product it would be smaller than any float after some thousand."""
    holder, other = Holder(CAPACITY), Holder(CAPACITY)
    for at in range(5_000):
        holder.ledger.split(0.5, at * 0.001)
    call = holder.start(40, 5.0)
    assert call is not None
    holder.hand_over(0.5, other, 5.1)
    call.settle(0)
    call.end(5.2)
    assert holder.ledger.spent(5.2) == pytest.approx(0, abs=1e-9)
    assert other.ledger.spent(5.2) == pytest.approx(20)


@pytest.mark.parametrize("at_end", [False, True])
def test_sums_of_spending_never_fall_and_their_difference_is_the_actual_cost(at_end: bool) -> None:
    holder = Holder(CAPACITY, at_end=at_end)
    sums = [holder.ledger.spending(0.0)]
    costs = {30: 10.0, 20: 25.0, 15: 15.0, 5: 0.0}
    for number, (cost, actual) in enumerate(costs.items()):
        call = holder.begin(cost)
        for said in (cost + 7.0, actual):  # an answer that streams
            call.settle(said)
            sums.append(holder.ledger.spending(0.1))
        call.end(0.2 + number / 10)
        sums.append(holder.ledger.spending(0.5))
    abandoned, lost = holder.begin(10), holder.begin(10)
    for call, actual in ((abandoned, 4.0), (lost, 12.0)):
        call.settle(actual)
        call.spend.abandoned(0.6)
        sums.append(holder.ledger.spending(0.6))
        call.spend.ended(0.7)
        sums.append(holder.ledger.spending(0.7))
    for before, after in itertools.pairwise(sums):
        assert all(one <= other for one, other in zip(before, after, strict=True))
    assert sums[-1] == Spending(90, refunded=25, excess=7)
    estimated, refunded, excess = sums[-1]
    assert estimated - refunded + excess == sum(costs.values()) + 10 + 12


@pytest.mark.parametrize("at_end", [False, True])
def test_z4_what_is_unsettled_or_abandoned_counts_as_estimated(at_end: bool) -> None:
    holder = Holder(CAPACITY, at_end=at_end)
    unsettled, abandoned, streamed = (holder.begin(cost) for cost in (10, 20, 40))
    unsettled.end(0.1)
    abandoned.settle(5)
    abandoned.spend.abandoned(0.1)
    assert not abandoned.spend.settle(1), "it was given up"
    abandoned.spend.ended(0.1)
    streamed.settle(60)
    streamed.spend.abandoned(0.1)
    streamed.spend.ended(0.1)
    assert holder.ledger.spent(0.2) == 10 + 20 + 60


@pytest.mark.parametrize("at_end", [False, True])
def test_z4_what_has_not_begun_or_has_ended_is_not_settled(at_end: bool) -> None:
    holder = Holder(CAPACITY, at_end=at_end)
    holder.ledger.hold(30)
    waiting, cancelled = holder.ledger.charge(10, 0.0), holder.ledger.charge(20, 0.0)
    assert not waiting.settle(1)
    cancelled.cancel()
    assert not cancelled.settle(1)
    assert waiting.started(0.1)
    assert waiting.settle(4)
    waiting.ended(0.2)
    assert not waiting.settle(1)
    assert holder.ledger.spent(0.2) == 4


def test_z5_a_stream_is_noted_once_until_the_ledger_looks() -> None:
    holder = Holder(CAPACITY)
    call = holder.begin(10)
    for said in range(1_000):
        call.settle(said / 100)
    assert len(holder.ledger.settlements.reported) == 1
    call.settle(30)
    assert holder.ledger.spent(0.1) == 30, "it grows while it is in flight"
    call.settle(25)
    assert holder.ledger.spent(0.1) == 25


def not_estimated(ledger: WindowLedger) -> BudgetEntry:
    """A call that costs more than there is room for."""
    call = ledger.charge(0, 0.0)
    call.started(0.0)
    return call


def half_is_gone(ledger: WindowLedger) -> BudgetEntry:
    """A call of which half has gone to others since."""
    ledger.hold(20)
    call = ledger.charge(20, 0.0)
    call.started(0.0)
    ledger.split(0.5, 0.0)
    return call


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("begin", [not_estimated, half_is_gone])
def test_z3_an_interrupted_look_notes_a_debt_once(
    begin: Callable[[WindowLedger], BudgetEntry], looked: bool
) -> None:
    made: list[tuple[WindowLedger, float]] = []

    def prepare() -> Callable[[], object]:
        ledger = WindowLedger(CAPACITY, PERIOD, shared=True)
        call = begin(ledger)
        gone = call.estimated / 2  # it is with others, as they know
        if looked:
            call.settle(60)
            ledger.spent(0.0)
        call.settle(130)
        made.append((ledger, gone))
        return lambda: ledger.spent(0.0)

    for where in each_point(prepare):
        ledger, gone = made[-1]
        counted = ledger.spent(0.0) + gone
        counted += math.fsum(cost for _, cost in ledger.debts.elsewhere.values())
        assert counted == pytest.approx(130), where


class AbandonedInBetween(BudgetEntry):
    """The Batcher abandons it while another thread settles it: behind the check."""

    __slots__ = ("_began_at",)

    @property
    def started_at(self) -> float | None:
        if self._began_at is not None:
            self.abandoned(0.1)
        return self._began_at

    @started_at.setter
    def started_at(self, at: float | None) -> None:
        self._began_at = at


def test_z4_what_is_abandoned_while_it_is_settled_counts_as_estimated() -> None:
    ledger = WindowLedger(CAPACITY, PERIOD, burst=1.0)
    entry = AbandonedInBetween(40, 0.0, None, ledger.settlements.report)
    ledger.enter(entry)
    entry.started(0.0)
    entry.settle(5)
    assert ledger.spent(0.2) == 40


@pytest.mark.parametrize("at_end", [False, True])
def test_z5_a_huge_cost_that_is_taken_back_leaves_the_others_as_they_were(at_end: bool) -> None:
    """In one slice of time; as a float, its cost would swallow theirs."""
    holder = Holder(CAPACITY, at_end=at_end)
    for other in [holder.begin(10) for _ in range(3)]:
        other.settle(10)
        other.end(0.0)
    call = holder.begin(20)
    assert holder.ledger.spent(0.0) == 50
    call.settle(1e18)
    assert not holder.ledger.available(0.1)
    call.settle(5)
    assert holder.ledger.spent(0.2) == pytest.approx(50)
    call.end(0.3)
    assert holder.ledger.spent(0.4) == pytest.approx(35)
    assert holder.ledger.settled() == pytest.approx(-15, rel=1e-6)


def test_z2_a_call_that_costs_more_than_can_be_counted_counts_until_it_expires() -> None:
    holder, other = Holder(CAPACITY), Holder(0)
    call = holder.begin(20)
    call.settle(1e60)
    call.end(0.1)
    holder.hand_over(0.99, other, 0.2)
    assert not holder.ledger.available(0.9)
    assert not other.ledger.available(0.9)
    assert 1.0 < holder.ledger.ready_at(1, 0.9) < 1.3


def test_a_refund_wakes_those_who_wait_and_nothing_else_does() -> None:
    woken: list[None] = []
    ledger = WindowLedger(CAPACITY, PERIOD, burst=1.0, freed=lambda: woken.append(None))
    for actual, waits, wakes in ((None, True, 0), (50, True, 0), (20, True, 1), (20, False, 0)):
        if waits:
            ledger.ready_at(50, 0.0)
        ledger.hold(30)
        call = ledger.charge(30, 0.0)
        call.started(0.0)
        if actual is not None:
            call.settle(actual)
        before = len(woken)
        call.ended(0.1)
        assert len(woken) == before + wakes


def test_refunds_give_the_pace_back() -> None:
    """Ten times as much is estimated as is used: all of the window is used all the same."""
    ledger = WindowLedger(1_000, PERIOD)
    now, used = 0.0, 0.0
    while now < 20:
        cost = 100.0
        if ledger.available(now, at_least=cost) >= cost:
            ledger.hold(cost)
            call = ledger.charge(cost, now)
            call.started(now)
            call.settle(10.0)
            call.ended(now)
            used += 10.0
        else:
            now = max(now + 0.001, min(ledger.ready_at(cost, now), now + 0.01))
    assert used / 20 >= 0.97 * (1_000 - 100)


def test_an_excess_delays_no_call_beyond_its_window() -> None:
    ledger = WindowLedger(1_000, PERIOD)
    ledger.hold(10)
    call = ledger.charge(10, 0.0)
    call.started(0.0)
    call.settle(50_000)
    call.ended(0.0)
    assert ledger.ready_at(10, 0.5) == pytest.approx(1.006)


def test_a_period_that_changes_drops_no_debt() -> None:
    ledger = WindowLedger(1_000, PERIOD, burst=1.0)
    ledger.hold(30)
    refunded, exceeded = ledger.charge(10, 0.1234), ledger.charge(20, 0.1234)
    refunded.started(0.1234)
    exceeded.started(0.1234)
    ledger.set_period(0.7, 0.2)
    refunded.settle(1)
    refunded.ended(0.3)
    exceeded.settle(70)
    exceeded.ended(0.3)
    assert 1 + 70 <= ledger.spent(0.3) <= 10 + 70


def test_nothing_is_released_while_calls_have_cost_more_than_all_that_is_held() -> None:
    """A coordinator believes of a past no more than fits into what is released."""
    holder = Holder(CAPACITY)
    call = holder.begin(50)
    call.settle(150)
    call.end(0.1)
    assert releasable(holder.ledger, 600, 1_000, CAPACITY, 0.2) == 0
    assert last_release(holder.ledger, 1_000, CAPACITY, 0.2) == 0
    assert releasable(holder.ledger, 600, 1_000, CAPACITY, 1.1) == 600
    assert last_release(holder.ledger, 1_000, CAPACITY, 1.1) == 1_000


# Deliberate mistakes: each is caught by a law above.


def refunded_in_full(ledger: WindowLedger, entry: BudgetEntry) -> float:
    """A refund after a hand-over is granted twice: here, and to who has the entry now."""
    return 1.0


def lowered_while_it_runs(entry: BudgetEntry) -> float:
    """The cost of a stream so far is taken for its whole cost."""
    return entry.estimated if entry.actual is None else entry.actual


def without_debt(entry: BudgetEntry) -> float:
    """An excess is forgotten."""
    return min(entry.estimated, lowered_while_it_runs(entry))


_correct = WindowLedger._correct


def corrected_again(ledger: WindowLedger, entry: BudgetEntry, counts: float, now: float) -> None:
    """A settlement that is sent again counts again."""
    _correct(ledger, entry, counts, now)
    entry.noted = entry.estimated


def released_while_it_runs(ledger: EndWindowLedger) -> float:
    """The entry of a running call does not keep what it was charged to."""
    return 0.0


@pytest.mark.parametrize(
    ("where", "name", "mistake", "law"),
    [
        (
            WindowLedger,
            "_stayed_of",
            refunded_in_full,
            test_z3_a_refund_is_of_no_more_than_its_own_part_that_stayed,
        ),
        (
            BudgetEntry,
            "counts",
            property(lowered_while_it_runs),
            test_z3_a_settlement_counts_once_however_often_it_is_sent,
        ),
        (
            BudgetEntry,
            "counts",
            property(without_debt),
            test_z2_it_is_back_under_within_a_period,
        ),
        (
            WindowLedger,
            "_correct",
            corrected_again,
            test_z3_a_settlement_counts_once_however_often_it_is_sent,
        ),
    ],
)
def test_deliberate_mistakes_break_a_law(
    where: type,
    name: str,
    mistake: object,
    law: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(where, name, mistake)
    with pytest.raises(AssertionError):
        law()


@pytest.mark.parametrize(
    ("where", "name", "mistake", "at_end"),
    [
        (BudgetEntry, "counts", property(lowered_while_it_runs), False),
        (EndWindowLedger, "pledged", property(released_while_it_runs), True),
    ],
)
def test_deliberate_mistakes_lead_to_windows_over(
    where: type, name: str, mistake: object, at_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, mistake, raising=False)
    assert max(worst_use(seed, at_end=at_end, estimate=below) for seed in range(60)) > 1.01
