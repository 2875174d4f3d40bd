"""Laws V1, C2 and N1 with several bounds, step by step; and mistakes on purpose, each of which has
to be found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

from limiters._bound_share import RateShare, SlotShare
from limiters._budgets import ledger
from limiters._budgets.several import PartsOfBounds, PurseOfBounds
from limiters._budgets.slots import SlotLedger
from limiters._budgets.spend import CallEntry, Spend, Tenure, nothing
from limiters._budgets.window import WindowLedger
from limiters._costs import AnyCost, Costs, is_covered
from limiters._instance_share import InstanceShare
from limiters._sharing.budget import SharedBudget
from limiters.leases._bounds import terms_of_limits
from limiters.leases._coordinator import Coordinator, permits
from limiters.leases._coordinator.state import Limit, Record
from limiters.leases._messages import BoundTerms, Entries, Kind, Request
from limiters.limits import InFlight, Limits, Rate
from limiters.testing import Call, MixedCalls, SimulatedCluster, SimulatedServer
from tests.simulation.judge import Limited, judge, judge_calls

EXACT = 1 + 1e-6

CALL = {"calls": 1}


class Player:
    """An instance that starts all the calls it may, immediately."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.name = name
        bounds = scene.limits.bounds
        self.share = InstanceShare(name, scene.terms, bounds=bounds)
        self.budget = SharedBudget(scene.limits, scene.limits.nothing, nothing)
        self.budget.join(self.share)
        self.running: list[tuple[float, Spend]] = []

    def asks(self, waiting: Mapping[str, float], now: float) -> None:
        """One exchange, and further ones if it is sent back."""
        self.share.settle(now)
        self.share.want(self.scene.cost(waiting), 0.0, now)
        for _ in range(4):
            reply = self.scene.server.sync(self.share.compose(now), now)
            self.share.answered(reply, now, now)
            if reply.kind is Kind.ANSWER:
                return
        raise AssertionError(reply)

    def starts(
        self, cost: Mapping[str, float], now: float, lasts: float = 0.0, longer: float = 0.0
    ) -> int:
        """As many calls as it may, each `longer` than the one before; how many."""
        costs = self.scene.cost(cost)
        for number in range(1_000):
            self.share.settle(now)
            there = self.budget.purse.available(now, costs)
            if not is_covered(there.amount, costs):
                return number
            parts = there.paying(costs)
            self.budget.purse.hold(parts)
            spend = self.budget.purse.charge(parts, now, self.share.tenure)
            assert spend.started(now)
            end = now + lasts + number * longer
            self.scene.calls.append(Call(now, end, self.name, costs))
            self.running.append((end, spend))
        raise AssertionError("there is no end")

    def ends(self, now: float) -> None:
        """Calls that are over end; each end is reported twice, as after a batch was abandoned."""
        for end, spend in self.running:
            if end <= now:
                spend.ended(now)
                spend.ended(now)
        self.running = [one for one in self.running if one[0] > now]


class Scene:
    """A limit of several bounds, and one server."""

    def __init__(self, **dimensions: Rate | InFlight) -> None:
        self.limits = Limits(**dimensions)
        self.terms = terms_of_limits(self.limits, 1.0, lease=2_000)
        self.server = SimulatedServer("s1", Coordinator(default_span=0), vouches=True)
        self.calls: list[Call] = []

    def cost(self, amounts: Mapping[str, float]) -> AnyCost:
        """Add costs up as the limit does."""
        return self.limits.normal("cost", Costs(amounts))

    def worst(self, at: int, capacity: float, period: float | None = None) -> float:
        """The fullest window of a bound, or the most calls in flight, as a part of the limit."""
        dimension = self.limits.bounds[at].dimension
        limited = Limited(dimension, capacity, period or 0.0, slots=period is None)
        costs = [(one.start, one.end, limited.cost(one.cost)) for one in self.calls]
        if period is None:
            return judge_calls(costs, [(0.0, capacity)], 0.0).worst
        spent = [(start, cost) for start, _, cost in costs if cost]
        return judge(spent, [(0.0, capacity)], [(0.0, period)], 0.0).worst


def spent_at_once() -> float:
    """All that one instance may, every few milliseconds."""
    requests = Rate(40, per=1, also=[Rate(8, per=0.1)], burst=8)
    scene = Scene(requests=requests, tokens=Rate(600, per=1))
    one = Player(scene, "one")
    for number in range(300):
        now = 10 + number * 0.01
        if number % 40 == 0:
            one.asks({"requests": 1_000, "tokens": 30_000 if number > 150 else 1_000}, now)
        one.starts({"requests": 1, "tokens": 30 if number > 150 else 1}, now)
    return max(scene.worst(0, 40, 1.0), scene.worst(1, 8, 0.1), scene.worst(2, 600, 1.0))


def handed_over() -> float:
    """One spends everything, and immediately gives half of its requests to another."""
    scene = Scene(requests=Rate(100, per=1), tokens=Rate(1_000, per=1))
    one, other = Player(scene, "one"), Player(scene, "other")
    much = {"requests": 1_000, "tokens": 10_000}
    cost = {"requests": 1, "tokens": 10}
    for number in range(420):
        now = 10 + number * 0.01
        if number % (5 if number >= 250 else 25) == 0:
            other.asks({"requests": 1_000} if number >= 250 else {}, now)
            one.asks(much, now)
        one.starts(cost, now)
        if number >= 250:
            other.starts({"requests": 25}, now)
    assert any(call.instance == "other" for call in scene.calls)
    return max(scene.worst(0, 100, 1.0), scene.worst(1, 1_000, 1.0))


def used_again() -> float:
    """A slot is used again as soon as its call has ended; the other call goes on."""
    scene = Scene(calls=InFlight(2, max_operation_time=3))
    one = Player(scene, "one")
    one.asks(CALL, 10.0)
    one.asks({"calls": 2}, 10.3)
    for number in range(30):
        now = 10.5 + number * 0.3
        one.asks({"calls": 2}, now)
        one.starts(CALL, now, lasts=0.25, longer=0.35)
        one.ends(now + 0.28)
    assert len(scene.calls) >= 20
    return scene.worst(0, 2)


def killed() -> float:
    """One is killed while its calls run."""
    scene = Scene(calls=InFlight(2, max_operation_time=3))
    one, other = Player(scene, "one"), Player(scene, "other")
    one.asks({"calls": 2}, 10.0)
    for number in range(60):
        now = 10.15 + number * 0.25
        other.asks({"calls": 2 if now > 12 else 0}, now)
        if number == 6:
            one.starts(CALL, 11.9, lasts=2.9)
        other.starts(CALL, now, lasts=0.1)
        other.ends(now + 0.2)
    assert any(call.instance == "other" for call in scene.calls)
    return scene.worst(0, 2)


def lapsed() -> float:
    """A lease lapses while calls run, and is had again."""
    scene = Scene(calls=InFlight(2, max_operation_time=3))
    one = Player(scene, "one")
    one.asks({"calls": 2}, 10.0)
    one.starts(CALL, 11.5, lasts=2.5)
    one.asks({"calls": 2}, 12.5)
    assert one.share.units == 2
    one.starts(CALL, 12.6, lasts=0.5)
    return scene.worst(0, 2)


def shared_while_calls_run() -> float:
    """Another one comes while all slots have calls: it gets one when a call has ended."""
    scene = Scene(calls=InFlight(2, max_operation_time=3))
    one, other = Player(scene, "one"), Player(scene, "other")
    one.asks({"calls": 2}, 10.0)
    one.starts(CALL, 10.1, lasts=2.0)
    for number in range(15):
        now = 10.2 + number * 0.25
        other.asks({"calls": 2}, now)
        one.ends(now)
        one.asks({"calls": 2}, now)
        other.starts(CALL, now, lasts=0.2)
        other.ends(now + 0.21)
    assert any(call.instance == "other" for call in scene.calls)
    return scene.worst(0, 2)


def ends_late() -> float:
    """Calls that count from their end, as a server judges them."""
    scene = Scene(tokens=Rate(10, per=1, counts="end", max_operation_time=3))
    one = Player(scene, "one")
    for number in range(120):
        now = 10 + number * 0.05
        if number % 10 == 0:
            one.asks({"tokens": 100}, now)
        one.ends(now)
        one.starts({"tokens": 1}, now, lasts=1.2 if number < 30 else 0.1)
        one.ends(now)
    ends = [(one.end, one.cost) for one in scene.calls]
    assert len(ends) >= 20
    return judge(ends, [(0.0, 10)], [(0.0, 1.0)], 0.0).worst


def one_waits_for_another_dimension() -> float:
    """By how many times more could be used by an instance that needs only what another one, which
    waits for something else, needs as well."""
    limits = Limits(a=Rate(10, per=1), b=Rate(10, per=5))
    cluster = SimulatedCluster(capacity=limits, factor=1, seed=1)
    cluster.add("both", MixedCalls([{"a": 5, "b": 5}], Random(1)))
    cluster.add("one", MixedCalls([{"a": 5}], Random(2)))
    cluster.run(45)
    used = sum(Limited("a", 10, 1).cost(one.cost) for one in cluster.calls if one.start >= 5)
    return 0.9 * 10 * 40 / used


STORIES = (
    spent_at_once,
    handed_over,
    used_again,
    killed,
    lapsed,
    shared_while_calls_run,
    ends_late,
    one_waits_for_another_dimension,
)


@pytest.mark.parametrize("story", STORIES)
def test_v1_n1_no_window_of_any_bound_is_over(story: Callable[[], float]) -> None:
    assert story() <= EXACT


# Mistakes.


def charged_in_one_dimension(patch: pytest.MonkeyPatch) -> None:
    charge = PurseOfBounds.charge

    def mutant(self: PurseOfBounds, parts: PartsOfBounds, now: float, tenure: Tenure) -> Spend:
        first = next(at for at, one in enumerate(parts.bounds) if any(one))
        nothing = self.nothing.bounds
        only = tuple(
            one if at == first else none
            for at, (one, none) in enumerate(zip(parts.bounds, nothing, strict=True))
        )
        self.release(parts.less(PartsOfBounds(parts.limits, only)))
        return charge(self, PartsOfBounds(parts.limits, only), now, tenure)

    patch.setattr(PurseOfBounds, "charge", mutant)


def nested_window_forgotten(patch: pytest.MonkeyPatch) -> None:
    settle = RateShare.settle

    def mutant(self: RateShare, held: bool, now: float) -> float:
        worth = settle(self, held, now)
        if self.bound.period < 1:
            self.ledger.set_capacity(100 * worth)
        return worth

    patch.setattr(RateShare, "settle", mutant)


def history_of_one_dimension(patch: pytest.MonkeyPatch) -> None:
    part_with = RateShare.part_with

    def mutant(
        self: RateShare, released: int, now: float, *, leaving: bool
    ) -> tuple[Entries, Entries]:
        history = part_with(self, released, now, leaving=leaving)
        return history if self.bound.dimension == "tokens" else ((), ())

    patch.setattr(RateShare, "part_with", mutant)


def slots_counted_by_increments(patch: pytest.MonkeyPatch) -> None:
    """A call is counted down whenever its end is reported."""
    running = {"calls": 0.0}
    enter, ended = SlotLedger.enter, CallEntry.ended

    def entered(self: SlotLedger, entry: CallEntry) -> None:
        running["calls"] += entry.cost
        enter(self, entry)

    def counted_down(self: CallEntry, now: float) -> None:
        running["calls"] = max(0.0, running["calls"] - self.cost)
        ended(self, now)

    patch.setattr(SlotLedger, "enter", entered)
    patch.setattr(CallEntry, "ended", counted_down)
    patch.setattr(SlotLedger, "spent", lambda self, now: running["calls"])


def slots_given_up_at_the_end_of_a_lease(patch: pytest.MonkeyPatch) -> None:
    in_flight = BoundTerms.in_flight.__func__  # type: ignore[attr-defined]

    def mutant(cls: type[BoundTerms], slots: int, longest: int) -> BoundTerms:
        made: BoundTerms = in_flight(cls, slots, 1)
        return made

    patch.setattr(BoundTerms, "in_flight", classmethod(mutant))


def calls_forgotten_with_the_lease(patch: pytest.MonkeyPatch) -> None:
    lapse = InstanceShare._lapse

    def mutant(self: InstanceShare, now: float) -> None:
        if now >= self.until and isinstance(self.bounds[-1], SlotShare):
            self.bounds[-1].ledger._calls.clear()
        lapse(self, now)

    patch.setattr(InstanceShare, "_lapse", mutant)


def released_while_its_call_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlotShare, "_idle", lambda self, now: self.units)


def stamped_at_the_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "EndWindowLedger", WindowLedger)


def holds_and_waits(patch: pytest.MonkeyPatch) -> None:
    """A waiting instance sets aside what there is of one bound while another has no room."""
    grant = permits.grant

    def mutant(limit: Limit, name: str, record: Record, request: Request) -> int:
        back = grant(limit, name, record, request)
        if not record.permit:
            for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True)):
                if one.ask and not permits._missing(limit, at, record, ()):
                    bound.ledger.add(limit.now + request.valid, one.ask)
        return back

    patch.setattr(permits, "grant", mutant)


MISTAKES = [
    (charged_in_one_dimension, spent_at_once),
    (nested_window_forgotten, spent_at_once),
    (history_of_one_dimension, handed_over),
    (slots_counted_by_increments, used_again),
    (slots_given_up_at_the_end_of_a_lease, killed),
    (calls_forgotten_with_the_lease, lapsed),
    (released_while_its_call_runs, shared_while_calls_run),
    (stamped_at_the_start, ends_late),
    (holds_and_waits, one_waits_for_another_dimension),
]


@pytest.mark.parametrize(("mistake", "story"), MISTAKES)
def test_v1_n1_a_mistake_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None],
    story: Callable[[], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mistake(monkeypatch)
    assert story() > 1.01
