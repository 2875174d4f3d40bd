"""Which operations go into which batch: order, keys, packing and budget, without time or
threads."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import Operation, Watcher
from dispatcher._core.queues.budget import Allowance, Budget, Unlimited
from dispatcher._core.queues.even_batches import WORTH_IT, even
from dispatcher._core.queues.lanes import Lanes
from dispatcher._core.queues.planner import Plan, Slots, plan

FOREVER = math.inf


def ignore(batch: list[Operation]) -> None:
    pass


class Room:
    """Lanes with operations in them. Payloads are letters or numbers."""

    def __init__(self) -> None:
        self.lanes = Lanes()
        self.tickets = itertools.count()

    def put(self, *operations: Operation) -> None:
        for operation in operations:
            operation._where = next(self.tickets)
            assert operation.watcher is not None
            lane = self.lanes.of(operation.watcher)
            lane.admit(operation)
            self.lanes.queue(lane)

    def plan(
        self,
        budget: Budget | None = None,
        slots: Slots | None = None,
        due: float = FOREVER,
    ) -> Plan:
        return plan(self.lanes.costly, budget or Unlimited(), slots or Slots(), due)

    def payloads(self, *args: object, **kwargs: object) -> list[str]:
        planned = self.plan(*args, **kwargs)  # type: ignore[arg-type]
        return ["".join(str(o.payload) for o in batch.operations) for batch in planned.batches]


def test_full_batches_are_raised_and_operations_that_are_not_due_wait() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=3)
    room.put(*(Operation(watcher, 1, letter, batchable=True) for letter in "abcdefgh"))
    assert room.payloads(due=-1) == ["abc", "def"]
    assert room.payloads(due=-1) == []
    assert room.payloads() == ["gh"]


def test_an_operation_that_is_not_batchable_is_a_full_batch_by_itself() -> None:
    room, watcher = Room(), Watcher(ignore)
    room.put(
        Operation(watcher, 1, "a", batchable=True),
        Operation(watcher, 1, "b"),
        Operation(watcher, 1, "c", key="k"),
    )
    assert room.payloads(due=-1) == ["b", "c"]
    assert room.payloads() == ["a"]


def test_watchers_do_not_share_batches() -> None:
    room, one, other = Room(), Watcher(ignore), Watcher(ignore)
    room.put(
        Operation(one, 1, "a", batchable=True),
        Operation(other, 1, "b", batchable=True),
        Operation(one, 1, "c", batchable=True),
    )
    assert room.payloads() == ["ac", "b"]


def test_the_batch_in_the_only_slot_is_filled() -> None:
    room, one, other = Room(), Watcher(ignore, max_batch_size=3), Watcher(ignore)
    room.put(
        Operation(one, 1, "a", batchable=True),
        Operation(other, 1, "x", batchable=True),
        Operation(one, 1, "b", batchable=True),
        Operation(one, 1, "-"),
        Operation(one, 1, "c", batchable=True),
        Operation(one, 1, "d", batchable=True),
    )
    planned = room.plan(slots=Slots(total=1))
    assert [[o.payload for o in batch.operations] for batch in planned.batches] == [["a", "b", "c"]]
    assert room.payloads() == ["x", "-", "d"]


def test_b1_higher_priority_goes_first() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=2)
    for letter, priority in zip("abcd", [0, 5, 1, 5], strict=True):
        room.put(Operation(watcher, 1, letter, batchable=True, priority=priority))
    assert room.payloads() == ["bd", "ca"]


def test_b1_a_higher_priority_does_not_go_first_within_a_key() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=2)
    room.put(
        Operation(watcher, 1, "a", batchable=True, key="k"),
        Operation(watcher, 1, "b", batchable=True, key="k", priority=9),
        Operation(watcher, 1, "c", batchable=True, key="k"),
    )
    first = room.plan().batches
    assert [o.payload for o in first[0].operations] == ["a", "b"]
    assert len(first) == 1
    assert room.payloads() == []
    first[0].lane.release(first[0].lines)
    room.lanes.queue(first[0].lane)
    assert room.payloads() == ["c"]


def test_c3_without_budget_no_operation_with_a_cost_is_raised() -> None:
    room, watcher = Room(), Watcher(ignore)
    room.put(Operation(watcher, 1, "a"), Operation(watcher, 0, "b"))
    planned = room.plan(Allowance(0, burst=10))
    assert planned.batches == []
    assert planned.wanted == 1


def test_c4_no_younger_operation_takes_the_budget_of_a_large_one() -> None:
    room, one, other = Room(), Watcher(ignore), Watcher(ignore)
    room.put(
        Operation(one, 2, "a"),
        Operation(one, 50, "D"),
        Operation(other, 1, "x"),
        Operation(one, 1, "b", batchable=True),
    )
    planned = room.plan(Allowance(20, burst=10))
    assert [batch.operations[0].payload for batch in planned.batches] == ["a"]
    assert planned.wanted == 50
    assert room.payloads(Allowance(52, burst=10)) == ["D", "x", "b"]


def test_scarce_budget_makes_fewer_batches_not_smaller_ones() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=10)
    room.put(*(Operation(watcher, 1, n, batchable=True) for n in range(20)))
    planned = room.plan(Allowance(9, burst=100))
    assert planned.batches == []
    assert planned.wanted == 10
    assert [len(b.operations) for b in room.plan(Allowance(19, burst=100)).batches] == [10]


def test_a_batch_that_costs_more_than_a_burst_is_raised_in_pieces() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=100)
    room.put(*(Operation(watcher, 1, n, batchable=True) for n in range(100)))
    assert [len(b.operations) for b in room.plan(Allowance(12, burst=10)).batches] == [12]


def test_a_lane_with_an_unripe_head_and_a_later_single_lets_others_go_first() -> None:
    room, one, other = Room(), Watcher(ignore), Watcher(ignore)
    room.put(
        Operation(one, 1, "a", batchable=True),
        Operation(other, 1, "x"),
        Operation(one, 1, "b"),
    )
    assert room.payloads(Allowance(10, burst=10), due=-1) == ["x", "b"]


operations = st.lists(
    st.tuples(
        st.integers(0, 2),  # watcher
        st.sampled_from([None, None, "k", "l"]),  # key
        st.integers(0, 1),  # priority
        st.booleans(),  # batchable
        st.integers(1, 4),  # cost
    ),
    max_size=40,
)


@given(
    operations,
    st.integers(0, 60),
    st.one_of(st.just(FOREVER), st.integers(1, 80)),
    st.one_of(st.none(), st.integers(1, 4)),
    st.booleans(),
    st.one_of(st.just(FOREVER), st.integers(-1, 40)),
)
def test_every_plan_keeps_the_rules(
    given_operations: list[tuple[int, str | None, int, bool, int]],
    money: int,
    limit: float,
    slots: int | None,
    limited: bool,
    due: float,
) -> None:
    watchers = [Watcher(ignore, max_batch_size=size) for size in (1, 3, None)]
    room = Room()
    made = [
        Operation(watchers[w], cost, n, batchable=batchable, key=key, priority=priority)
        for n, (w, key, priority, batchable, cost) in enumerate(given_operations)
    ]
    room.put(*made)
    budget = Allowance(money, burst=8, limit=limit) if limited else Unlimited()
    planned = room.plan(budget, Slots(slots or math.inf), due)
    taken = [o for batch in planned.batches for o in batch.operations]
    assert len(set(taken)) == len(taken)
    assert len(planned.batches) <= (slots or math.inf)
    if limited:
        assert sum(o.cost for o in taken) <= money
    holders: dict[tuple[Watcher, object], set[int]] = defaultdict(set)
    for number, batch in enumerate(planned.batches):
        assert batch.operations
        assert batch.cost == sum(o.cost for o in batch.operations)
        assert len({o.watcher for o in batch.operations}) == 1
        assert len(batch.operations) == 1 or all(o.batchable for o in batch.operations)
        assert len(batch.operations) <= batch.lane.full
        for operation in batch.operations:
            if operation.key is not None:
                holders[batch.lane.watcher, operation.key].add(number)
    assert all(len(numbers) == 1 for numbers in holders.values())
    for watcher, key in itertools.product(watchers, "kl"):
        of_key = [o for o in made if o.watcher is watcher and o.key == key]
        raised = [o for o in taken if o.watcher is watcher and o.key == key]
        assert raised == of_key[: len(raised)]
    # Operations that were not raised are still there: nothing is lost.
    left = [o for lane in room.lanes for o in lane.withdraw()]
    assert sorted(o.payload for o in left + taken) == list(range(len(made)))
    if not limited and slots is None and due == FOREVER:
        blocked = [o for o in left if (o.watcher, o.key) not in holders]
        assert blocked == []


@given(operations)
def test_operations_that_are_put_back_are_raised_in_order_again(
    given_operations: list[tuple[int, str | None, int, bool, int]],
) -> None:
    watcher = Watcher(ignore, max_batch_size=3)
    room = Room()
    room.put(
        *(
            Operation(watcher, 1, n, batchable=b, key=k, priority=p)
            for n, (_, k, p, b, _) in enumerate(given_operations)
        )
    )
    order: dict[object, list[int]] = defaultdict(list)
    failed_once: set[int] = set()
    for _ in range(200):
        batches = room.plan().batches
        if not batches:
            break
        for batch in batches:
            if batch.operations[0].payload not in failed_once:
                failed_once.update(o.payload for o in batch.operations)
                for operation in batch.operations:
                    operation._where = batch.sequence
                batch.lane.away += len(batch.operations)
                room.lanes.put_back(batch.lane, batch.operations)
            else:
                for operation in batch.operations:
                    order[operation.key].append(operation.payload)
                batch.lane.release(batch.lines)
            room.lanes.queue(batch.lane)
    done = [payload for payloads in order.values() for payload in payloads]
    assert sorted(done) == list(range(len(given_operations)))
    for key in ("k", "l"):
        assert order[key] == sorted(order[key])


@pytest.mark.parametrize("size", [100, 1000])
def test_a_plan_looks_only_at_the_operations_that_it_takes(size: int) -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=1)
    room.put(*(Operation(watcher, 1, n, batchable=True) for n in range(size)))
    assert len(room.plan(slots=Slots(total=2)).batches) == 2
    assert len(next(iter(room.lanes)).plain) == size - 2


# Batches that have to wait for the limit.


@given(st.integers(1, 500), st.floats(0.01, 100), st.floats(0.01, 1_000_000))
def test_c1_even_batches_leave_no_more_of_a_limit_unused_than_full_ones(
    full: int, each: float, limit: float
) -> None:
    size = even(full, full * each, limit)
    most = int(limit * (1 + 1e-8) / each)
    assert 1 <= size <= full
    if most >= full:
        assert most % size <= most % full
        if most % full <= WORTH_IT * most:
            assert size == full


def test_c1_batches_are_slightly_smaller_if_full_ones_do_not_divide_a_scarce_limit() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=200)
    room.put(*(Operation(watcher, 10, "x", batchable=True) for _ in range(1_000)))
    planned = room.plan(Allowance(1_899, burst=2_100, limit=21_000))
    assert planned.wanted == 1_900
    planned = room.plan(Allowance(2_100, burst=2_100, limit=21_000))
    assert [len(batch.operations) for batch in planned.batches] == [190]


def test_batches_that_do_not_have_to_wait_are_full() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=200)
    room.put(*(Operation(watcher, 10, "x", batchable=True) for _ in range(390)))
    planned = room.plan(Allowance(3_900, burst=2_100))
    assert [len(batch.operations) for batch in planned.batches] == [200, 190]


def test_a_smaller_batch_has_room_for_its_first_operation() -> None:
    room, watcher = Room(), Watcher(ignore, max_batch_size=2)
    room.put(*(Operation(watcher, cost, "x", batchable=True) for cost in (1_000, 10, 10, 10)))
    planned = room.plan(Allowance(700, burst=2_000, limit=3_600))
    assert (planned.batches, planned.wanted) == ([], 1_000)
