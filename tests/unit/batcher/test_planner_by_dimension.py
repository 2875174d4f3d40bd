"""Plans under a budget of several dimensions, and of batches with a cost of their own, compared
with a plain model (law V3)."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import Operation, Watcher
from dispatcher._core.queues.budget import Allowance
from dispatcher._core.queues.budget_by_dimension import AllowanceByDimension
from dispatcher._core.queues.even_batches import WORTH_IT, even
from dispatcher._core.queues.lanes import Lanes
from dispatcher._core.queues.planner import Plan, Slots, plan
from limiters._costs import AnyCost, Costs, is_covered
from tests.crank import ignore

NAMES = ("a", "b", "c")
SPEEDS = {"a": 10.0, "b": 20.0}
"""A unit of `a` takes twice the time of one of `b`; `c` has no speed."""

Amounts = Mapping[str, float]


def room(*operations: Operation) -> Lanes:
    lanes = Lanes(lambda terms: terms.batch_cost)
    for ticket, operation in enumerate(operations):
        operation._where = ticket
        assert operation.watcher is not None
        lane = lanes.of(operation.watcher)
        lane.admit(operation)
        lanes.queue(lane)
    return lanes


def allowance(
    money: Amounts, burst: Amounts, capacity: Amounts, *, waits: bool = False
) -> AllowanceByDimension:
    return AllowanceByDimension(
        Costs(money), Costs(burst), capacity=Costs(capacity), speeds=SPEEDS, waits=waits
    )


def total(planned: Plan) -> Costs:
    return Costs() + sum(one.lane.batch_cost + one.cost for one in planned.batches)


# A model that uses lists, without ranks, lanes or budgets.


@dataclass
class Model:
    money: dict[str, float]
    burst: Amounts
    capacity: Amounts

    def plan(self, operations: list[Operation]) -> tuple[list[list[int]], Amounts | None]:
        """Return the batches, and the cost for which the first one that cannot be raised waits. It
        takes the operations one after the other, the oldest first, until one does not fit."""
        batches: list[list[int]] = []
        open_: dict[Watcher, list[int]] = {}
        for at, operation in enumerate(operations):
            watcher = operation.watcher
            assert watcher is not None
            own = _amounts(watcher.batch_cost)
            batch = open_.get(watcher) if operation.batchable else None
            alone = _sum(own, _amounts(operation.cost))
            if batch is not None:
                needed, taken = _amounts(operation.cost), _amounts(operation.cost)
            elif operation.batchable:
                needed, taken = _sum(own, self.gathers(operations[at:], watcher, own)), alone
            else:
                needed, taken = alone, alone
            if any(self.money[name] < needed[name] for name in NAMES):
                return batches, alone if batch is not None else needed
            for name in NAMES:
                self.money[name] -= taken[name]
            if batch is None:
                batches.append(batch := [])
                if operation.batchable:
                    open_[watcher] = batch
            batch.append(operation.payload)
            if operation.batchable and len(batch) == (watcher.max_batch_size or math.inf):
                del open_[watcher]
        return batches, None

    def gathers(self, rest: list[Operation], watcher: Watcher, own: Amounts) -> Amounts:
        """Return the cost of the batch's operations, up to what is worth waiting for."""
        slowest = max((own[name] / SPEEDS[name] for name in SPEEDS), default=0)
        enough = {}
        for name in NAMES:
            worth = slowest / 0.03 * SPEEDS.get(name, 0)
            most = max(self.burst[name], self.capacity[name])
            enough[name] = max(0, min(most, max(self.burst[name], worth)) - own[name])
        found = [one for one in rest if one.watcher is watcher and one.batchable]
        gathered = dict.fromkeys(NAMES, 0.0)
        for one in found[: watcher.max_batch_size or len(found)]:
            more = _sum(gathered, _amounts(one.cost))
            if any(more[name] > enough[name] for name in NAMES if _amounts(one.cost)[name]):
                break
            gathered = more
        first = _amounts(found[0].cost)
        return {name: max(first[name], gathered[name]) for name in NAMES}


def _amounts(cost: AnyCost) -> dict[str, float]:
    return {name: cost.amount(name) if isinstance(cost, Costs) else 0.0 for name in NAMES}


def _sum(one: Amounts, other: Amounts) -> dict[str, float]:
    return {name: one[name] + other[name] for name in NAMES}


def amounts(most: int) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(0, most) for name in NAMES})


some_operations = st.lists(
    st.tuples(st.integers(0, 2), st.booleans(), amounts(4)),
    max_size=30,
)
some_watchers = st.lists(
    st.tuples(st.sampled_from([1, 3, None]), amounts(3)), min_size=3, max_size=3
)


@given(some_operations, some_watchers, amounts(60), amounts(12), amounts(40))
def test_v3_a_plan_is_equal_to_that_of_the_model(
    given_operations: list[tuple[int, bool, dict[str, int]]],
    given_watchers: list[tuple[int | None, dict[str, int]]],
    money: dict[str, int],
    burst: dict[str, int],
    capacity: dict[str, int],
) -> None:
    watchers = [Watcher(ignore, max_batch_size=s, batch_cost=c) for s, c in given_watchers]
    made = [
        Operation(watchers[w], Costs(cost), n, batchable=batchable)
        for n, (w, batchable, cost) in enumerate(given_operations)
    ]
    model = Model({name: float(one) for name, one in money.items()}, burst, capacity)
    batches, wanted = model.plan(made)

    lanes = room(*made)
    budget = allowance(money, burst, capacity)
    planned = plan(lanes.costly, budget, Slots(), math.inf)

    raised = [[one.payload for one in batch.operations] for batch in planned.batches]
    assert sorted(raised) == sorted(batches)
    assert (None if planned.wanted is None else _amounts(planned.wanted)) == wanted
    # Each batch has paid for its operations and once for itself; nothing is free, nothing is lost.
    assert _sum(_amounts(total(planned)), _left(budget)) == _amounts(Costs(money))
    assert all(batch.cost == sum(one.cost for one in batch.operations) for batch in planned.batches)
    left = [one.payload for lane in lanes for one in lane.withdraw()]
    assert sorted(left + list(itertools.chain(*raised))) == list(range(len(made)))


def _left(budget: AllowanceByDimension) -> dict[str, float]:
    return {name: budget.left.get(name, 0.0) for name in NAMES}


with_keys = st.lists(
    st.tuples(
        st.integers(0, 1),  # watcher
        st.sampled_from([None, None, "k", "l"]),
        st.integers(0, 1),  # priority
        st.booleans(),  # batchable
        amounts(4),
    ),
    max_size=40,
)


@given(with_keys, amounts(60), amounts(8), st.booleans(), st.integers(1, 4), st.integers(-1, 40))
def test_v2_v3_every_plan_pays_in_all_dimensions_and_keeps_the_order_of_keys(
    given_operations: list[tuple[int, str | None, int, bool, dict[str, int]]],
    money: dict[str, int],
    burst: dict[str, int],
    waits: bool,
    slots: int,
    due: int,
) -> None:
    watchers = [Watcher(ignore, max_batch_size=3, batch_cost={"a": 2, "c": 1}), Watcher(ignore)]
    made = [
        Operation(watchers[w], Costs(cost), n, batchable=batchable, key=key, priority=priority)
        for n, (w, key, priority, batchable, cost) in enumerate(given_operations)
    ]
    lanes = room(*made)
    budget = allowance(money, burst, money, waits=waits)
    planned = plan(lanes.costly, budget, Slots(slots), due)
    assert len(planned.batches) <= slots
    assert _sum(_amounts(total(planned)), _left(budget)) == _amounts(Costs(money))
    assert min(budget.left.values(), default=0) >= 0
    if planned.wanted is not None:
        assert not is_covered(Costs(_left(budget)), planned.wanted)
    taken: dict[tuple[Watcher | None, object], list[int]] = defaultdict(list)
    for batch in planned.batches:
        assert batch.operations
        assert len(batch.operations) <= batch.lane.full
        for one in batch.operations:
            if one.key is not None:
                taken[one.watcher, one.key].append(one.payload)
    for (watcher, key), payloads in taken.items():
        of_key = [one.payload for one in made if one.watcher is watcher and one.key == key]
        assert payloads == of_key[: len(payloads)]


# Batches with a cost of their own, under a limit in numbers.


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30),
    st.integers(0, 10),
    st.integers(0, 80),
    st.integers(1, 12),
)
def test_v3_in_numbers_each_batch_pays_its_cost_once(
    given_operations: list[tuple[bool, int]], batch_cost: int, money: int, burst: int
) -> None:
    watcher = Watcher(ignore, max_batch_size=4, batch_cost=batch_cost)
    made = [Operation(watcher, c, n, batchable=b) for n, (b, c) in enumerate(given_operations)]
    budget = Allowance(money, burst, limit=40)
    planned = plan(room(*made).costly, budget, Slots(), math.inf)
    spent = sum(batch.cost + batch_cost for batch in planned.batches)
    assert spent + budget.left == money
    assert budget.left >= 0
    assert all(batch.operations for batch in planned.batches)
    taken = [one.payload for batch in planned.batches for one in batch.operations]
    assert sorted(taken) == list(range(len(taken)))
    if planned.wanted is not None:
        assert planned.wanted > budget.left


def test_a_batch_is_never_opened_for_an_operation_that_no_longer_fits() -> None:
    """The float error that is tolerated for the sum of a large batch cost and a small operation is
    more than that operation costs."""
    watcher = Watcher(ignore, batch_cost=1_000)
    made = [Operation(watcher, 1e-6, n, batchable=True) for n in range(2)]
    planned = plan(room(*made).costly, Allowance(1_000, burst=1), Slots(), math.inf)
    assert [len(batch.operations) for batch in planned.batches] == [1]


def test_v3_scarce_budget_waits_for_all_dimensions_of_a_full_batch() -> None:
    watcher = Watcher(ignore, max_batch_size=10, batch_cost={"a": 1})
    lanes = room(*(Operation(watcher, {"b": 1}, n, batchable=True) for n in range(20)))
    plenty = {"a": 100, "b": 100, "c": 0}
    for money, sizes in (
        ({"a": 5, "b": 9}, []),
        ({"a": 0, "b": 100}, []),
        ({"a": 1, "b": 19}, [10]),
    ):
        planned = plan(lanes.costly, allowance(money, plenty, plenty), Slots(), math.inf)
        assert [len(batch.operations) for batch in planned.batches] == sizes
        assert planned.wanted == {"a": 1, "b": 10}


def test_c1_batches_are_evened_out_by_the_dimension_they_wait_for() -> None:
    watcher = Watcher(ignore, max_batch_size=20, batch_cost={"a": 1, "c": 1})
    lanes = room(*(Operation(watcher, {"b": 10}, n, batchable=True) for n in range(100)))
    capacity = {"a": 100, "b": 2_100, "c": 50}
    money, burst = {"a": 10, "b": 210, "c": 3}, {"a": 10, "b": 210, "c": 50}
    planned = plan(lanes.costly, allowance(money, burst, capacity, waits=True), Slots(), math.inf)
    assert [len(batch.operations) for batch in planned.batches] == [19]


@given(
    st.integers(1, 500), st.floats(0.01, 100), st.floats(0.01, 1_000), st.floats(0.01, 1_000_000)
)
def test_batches_with_a_cost_are_made_smaller_only_if_more_operations_are_sent(
    full: int, each: float, batch_cost: float, limit: float
) -> None:
    size = even(full, full * each, limit, batch_cost)
    assert 1 <= size <= full
    if size < full:
        whole = limit * (1 + 1e-8)
        before = full * int(whole / (full * each + batch_cost))
        after = size * int(whole * (1 + 1e-9) / (size * each + batch_cost))
        assert after > before * (1 + WORTH_IT) * (1 - 1e-9)


@pytest.mark.parametrize("cost", [{"a": 2}, {"b": 9, "a": 1}])
def test_an_operation_is_taken_in_all_dimensions_or_in_none(cost: dict[str, int]) -> None:
    budget = allowance({"a": 1, "b": 5}, {}, {})
    assert not budget.take(Operation(Watcher(ignore), cost, None))
    assert budget.left == {"a": 1, "b": 5}
