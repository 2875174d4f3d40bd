"""Laws Z1 to Z5 as users meet them: settle an operation, a batch, a reservation."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import pytest
from tenacity import wait_fixed

from dispatcher import (
    Batcher,
    Operation,
    PartialFailure,
    ProvisionedResource,
    Retry,
    SettlementError,
    Throttled,
    Watcher,
    settle,
)
from dispatcher._core.queues.batch import OperationBatch
from dispatcher.testing import InlineBatcher, ManualClock
from limiters import ArgumentError, InFlight, Limits, Rate, ReserveTimeoutError

OnBatch = Callable[[list[Operation]], Any]

LIMITS = Limits(
    requests=Rate(100, per=60, burst=100),
    tokens=Rate(10_000, per=60, burst=10_000),
    calls=InFlight(20),
)


class Setting:
    """A limiter and a Batcher, to see what a batch has spent at its end."""

    def __init__(self, capacity: float | Limits = 10_000, **options: Any) -> None:
        self.clock = ManualClock()
        if not isinstance(capacity, Limits):
            capacity = Limits(units=Rate(capacity, per=60, burst=capacity))
        self.limiter = ProvisionedResource(capacity, clock=self.clock)
        self.batcher = InlineBatcher(clock=self.clock, rate_limiter=self.limiter, **options)

    def run(self, on_batch: OnBatch, *costs: Any, seconds: float = 1.0, **terms: Any) -> Setting:
        """Raise one batch of operations of these costs, and raise the errors of its callback."""
        watcher = Watcher(on_batch, **terms)
        with self.batcher:
            operations = [
                Operation(watcher, cost, at, batchable=True) for at, cost in enumerate(costs)
            ]
            self.batcher.enqueue_many(operations)
            self.batcher.turn(seconds)
            for batch in self.batcher.batches:
                if batch.error is not None and not isinstance(batch.error, (Retry, Throttled)):
                    raise batch.error
        return self

    def spent(self) -> Any:
        """Return the spent amount that counts against the limit."""
        ledgers = self.limiter._ledgers
        amounts = [ledger.spent(self.clock.now()) for ledger in ledgers]
        return amounts[0] if len(amounts) == 1 else tuple(amounts)


def test_an_operation_is_settled_in_its_callback() -> None:
    def answer(batch: list[Operation]) -> None:
        for one in batch:
            one.settle(one.cost / 10)

    assert Setting().run(answer, 100, 200).spent() == 30


def test_a_batch_is_settled_with_its_batch_cost() -> None:
    def answer(batch: list[Operation]) -> None:
        settle(batch, 25)

    assert Setting().run(answer, 100, 200, batch_cost=50).spent() == 25


def test_settling_one_operation_changes_neither_the_others_nor_the_batch_cost() -> None:
    def answer(batch: list[Operation]) -> None:
        batch[0].settle(10)

    assert Setting().run(answer, 100, 200, batch_cost=50).spent() == 260


def test_z5_while_an_answer_streams_the_charge_is_never_below_the_estimate() -> None:
    setting = Setting()
    counted = []

    def answer(batch: list[Operation]) -> None:
        for said in (10, 150, 40, 180, 60):
            batch[0].settle(said)
            counted.append(setting.spent())

    setting.run(answer, 100, 100)
    assert counted == [200, 250, 200, 280, 200]
    assert setting.spent() == 160


def test_a_dimension_that_is_not_named_costs_what_was_estimated() -> None:
    def answer(batch: list[Operation]) -> None:
        batch[0].settle({"tokens": 0})
        batch[1].settle({"tokens": 1_034})

    cost = {"tokens": 4_500}
    setting = Setting(LIMITS).run(answer, cost, cost, batch_cost={"requests": 1, "calls": 1})
    assert setting.spent() == (1, 1_034, 0)


TELLS: dict[str, OnBatch] = {}
"""Each settles one call of 1 request and 2,000 tokens in parts: dimension by dimension."""


def tells(tell: OnBatch) -> OnBatch:
    TELLS[tell.__name__] = tell
    return tell


@tells
def an_operation_in_parts(batch: list[Operation]) -> None:
    batch[0].settle({"tokens": 8_000})
    batch[0].settle({"requests": 0})
    batch[0].settle({})


@tells
def a_batch_in_parts(batch: list[Operation]) -> None:
    settle(batch, {"tokens": 8_000})
    settle(batch, {"requests": 0})


@tells
def an_operation_first_and_then_its_batch(batch: list[Operation]) -> None:
    batch[0].settle({"tokens": 8_000})
    settle(batch, {"requests": 0})


@pytest.mark.parametrize("tell", TELLS.values(), ids=TELLS.keys())
def test_z2_what_was_settled_stays_when_another_dimension_is(tell: OnBatch) -> None:
    assert Setting(LIMITS).run(tell, {"requests": 1, "tokens": 2_000, "calls": 1}).spent() == (
        0,
        8_000,
        0,
    )


@pytest.mark.parametrize("counts", ["start", "end"])
def test_z2_nothing_starts_once_a_running_call_has_used_up_what_it_did_not_estimate(
    counts: Literal["start", "end"],
) -> None:
    limits = Limits(tokens=Rate(10, burst=10, counts=counts), requests=Rate(100, burst=100))
    limiter = ProvisionedResource(limits, clock=ManualClock())
    with limiter, limiter.reserve({"requests": 1}) as paid:
        paid.settle({"tokens": 15})
        with pytest.raises(ReserveTimeoutError), limiter.reserve({"requests": 1}, timeout=0):
            pass


def test_z2_nor_does_a_reservation_forget_it() -> None:
    limiter = ProvisionedResource(LIMITS, clock=ManualClock())
    with limiter, limiter.reserve({"requests": 1, "tokens": 2_000, "calls": 1}) as paid:
        paid.settle({"tokens": 8_000})
        paid.settle({"requests": 0})
    assert [ledger.spent(0.0) for ledger in limiter._ledgers] == [0, 8_000, 0]


def test_z2_a_dimension_without_an_estimate_can_have_an_actual_cost() -> None:
    def answer(batch: list[Operation]) -> None:
        batch[0].settle({"tokens": 700})

    setting = Setting(LIMITS).run(answer, {"requests": 1, "calls": 1})
    assert setting.spent() == (1, 700, 0)


def test_coroutines_settle_until_the_batch_has_ended() -> None:
    async def answer(batch: list[Operation]) -> None:
        await asyncio.sleep(0)
        batch[0].settle(30)
        await asyncio.gather(*[later(one) for one in batch[1:]])

    async def later(operation: Operation) -> None:
        await asyncio.sleep(0)
        operation.settle(1)

    assert Setting().run(answer, 100, 100, 100).spent() == 32


def test_z4_each_attempt_is_charged_and_settled_by_itself() -> None:
    def answer(batch: list[Operation]) -> None:
        if batch[0].attempt == 1:
            batch[0].settle(40)
            raise Retry(after=1)
        batch[0].settle(7)

    setting = Setting()
    assert setting.run(answer, 100, seconds=5.0, max_attempts=3).spent() == 47


@pytest.mark.parametrize(("charged", "counts"), [(True, 150), (False, 0)])
def test_z4_a_refusal_counts_only_if_it_was_charged(charged: bool, counts: float) -> None:
    setting = Setting(pause_time=120.0)

    def answer(batch: list[Operation]) -> None:
        raise Throttled(charged=charged)

    watcher = Watcher(answer, batch_cost=50)
    with setting.batcher:
        setting.batcher.enqueue(Operation(watcher, 100, None))
        setting.batcher.turn(1)
        assert setting.spent() == counts
        setting.batcher.stop()


def test_z4_if_a_part_is_refused_without_charge_the_rest_counts() -> None:
    def answer(batch: list[Operation]) -> None:
        batch[1].settle(20)
        if batch[0].attempt == 1:
            raise PartialFailure(batch[:1], Throttled(retry_after=1_000, charged=False))

    setting = Setting()
    watcher = Watcher(answer, batch_cost=50)
    with setting.batcher:
        setting.batcher.enqueue_many([Operation(watcher, 100, n, batchable=True) for n in range(2)])
        setting.batcher.turn(1)
        assert setting.spent() == 70
        setting.batcher.stop()


def test_z4_an_abandoned_batch_counts_as_estimated() -> None:
    errors: list[SettlementError] = []

    def answer(batch: list[Operation]) -> None:
        batch[0].settle(10)
        setting.batcher.turn(30)
        with pytest.raises(SettlementError, match="abandoned") as raised:
            batch[0].settle(1)
        errors.append(raised.value)

    setting = Setting()
    setting.run(answer, 100, max_operation_time=5)
    assert errors
    assert setting.spent() == 100


def test_a_refund_makes_room_for_waiting_operations() -> None:
    """Each is estimated at 60 of 100 and costs 10: they are sent one after the other, not one a
    minute."""

    def answer(batch: list[Operation]) -> None:
        batch[0].settle(10)

    setting = Setting(100)
    watcher = Watcher(answer, max_batch_size=1)
    with setting.batcher:
        setting.batcher.enqueue_many([Operation(watcher, 60, n) for n in range(5)])
        setting.batcher.turn(50)
    assert len(setting.batcher.batches) == 5
    assert setting.spent() == 50


def test_a_refund_wakes_another_batcher_of_the_limiter() -> None:
    limiter = ProvisionedResource(100, period=60)
    answered, first_runs, go_on = threading.Event(), threading.Event(), threading.Event()

    def slow(batch: list[Operation]) -> None:
        first_runs.set()
        go_on.wait(20)
        batch[0].settle(10)

    with Batcher(rate_limiter=limiter) as one, Batcher(rate_limiter=limiter) as other:
        one.enqueue(Operation(Watcher(slow), 100, None))
        assert first_runs.wait(20)
        other.enqueue(Operation(Watcher(lambda batch: answered.set()), 50, None))
        assert not answered.is_set()
        go_on.set()
        assert answered.wait(20), "it would otherwise wait for a minute"


def test_z6_the_audit_has_the_estimated_and_the_actual_costs() -> None:
    def answer(batch: list[Operation]) -> None:
        if batch[0].payload != "not settled":
            batch[0].settle(batch[0].cost / 4)

    setting = Setting(audit_interval=10)
    watcher = Watcher(answer, max_batch_size=1)
    with setting.batcher as batcher:
        for payload in ("one", "other", "not settled"):
            batcher.enqueue(Operation(watcher, 100, payload))
        batcher.turn(10)
        batcher.turn(10)
        audits = [one for one in batcher.events if one.name.startswith("audit")]
    assert [one.metadata for one in audits] == [(200, 50), None]


def test_without_a_limiter_a_settlement_is_accepted_and_checked() -> None:
    seen = []

    def answer(batch: list[Operation]) -> None:
        batch[0].settle(5)
        with pytest.raises(ArgumentError, match="actual must be zero or more"):
            batch[0].settle(-1)
        seen.append(batch)

    with InlineBatcher() as batcher:
        batcher.enqueue(Operation(Watcher(answer), 100, None))
        batcher.drain()
    assert seen


# Wrong arguments: the error names them, and the ledger is unchanged.


@pytest.mark.parametrize(
    ("actual", "says"),
    [
        (-1, "actual must be zero or more, not -1"),
        (float("nan"), "actual must"),
        (float("inf"), "actual must"),
        (True, "actual must"),
        ("12", "actual must"),
        ({"tokens": -1}, r"actual\['tokens'\] must be zero or more, not -1"),
        ({"tokens": float("nan")}, r"actual\['tokens'\] must"),
        ({"tokens": float("inf")}, r"actual\['tokens'\] must"),
        ({"words": 1}, "actual must be of requests, tokens and calls alone"),
        ({"calls": 1}, "actual must leave out calls"),
        (12, "actual must say of which dimension it is"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_the_error_names_an_impossible_cost_and_nothing_changes(
    actual: Any, says: str, whole: bool
) -> None:
    def answer(batch: list[Operation]) -> None:
        batch[0].settle({"tokens": 700})
        with pytest.raises(ArgumentError, match=says):
            settle(batch, actual) if whole else batch[0].settle(actual)

    setting = Setting(LIMITS).run(answer, {"tokens": 1_000, "calls": 1}, batch_cost={"requests": 1})
    assert setting.spent() == (1, 700, 0)


@pytest.mark.parametrize(
    "actual", [-1, float("nan"), float("inf"), "12", None, True, {"tokens": 1}]
)
def test_an_impossible_number_is_refused(actual: Any) -> None:
    def answer(batch: list[Operation]) -> None:
        with pytest.raises(ArgumentError, match="actual"):
            batch[0].settle(actual)

    assert Setting().run(answer, 100).spent() == 100


def test_a_cost_of_slots_only_cannot_be_settled() -> None:
    def answer(batch: list[Operation]) -> None:
        with pytest.raises(ArgumentError, match="calls in flight are counted as long as they last"):
            batch[0].settle(0)

    Setting(Limits(calls=InFlight(2))).run(answer, 1)


def test_settling_an_operation_that_was_never_raised_is_refused() -> None:
    operation = Operation(Watcher(lambda batch: None), 1, None)
    with pytest.raises(
        SettlementError, match="did not reach its callback; settle it in its callback"
    ):
        operation.settle(1)
    with InlineBatcher(flush_interval=10) as batcher:
        batcher.enqueue(operation)
        with pytest.raises(SettlementError, match="did not reach its callback"):
            operation.settle(1)
        batcher.stop()


def test_settling_an_operation_that_waits_for_its_retry_is_refused() -> None:
    def answer(batch: list[Operation]) -> None:
        raise ValueError

    operation = Operation(Watcher(answer, retry=wait_fixed(100)), 1, None)
    with InlineBatcher() as batcher:
        batcher.enqueue(operation)
        batcher.turn(1)
        with pytest.raises(SettlementError, match="waits for its next attempt"):
            operation.settle(1)
        batcher.stop()


def test_settling_a_batch_that_has_ended_is_refused() -> None:
    kept: list[list[Operation]] = []
    setting = Setting().run(kept.append, 100)
    with pytest.raises(SettlementError, match="has ended; settle it before its callback"):
        kept[0][0].settle(1)
    with pytest.raises(SettlementError, match="has ended; settle it before its callback"):
        settle(kept[0], 1)
    assert setting.spent() == 100


def test_settling_an_operation_of_another_batch_is_refused() -> None:
    """The callback of one batch settles an operation of another."""
    first: list[Operation] = []

    setting = Setting()

    def slow(batch: list[Operation]) -> None:
        first.extend(batch)
        setting.batcher.turn(1)

    def strange(batch: list[Operation]) -> None:
        with pytest.raises(SettlementError, match="another batch than this callback's"):
            first[0].settle(1)

    with setting.batcher as batcher:
        batcher.enqueue(Operation(Watcher(slow), 100, None))
        batcher.enqueue(Operation(Watcher(strange), 200, None))
        batcher.turn(1)
    assert [one.error for one in setting.batcher.batches] == [None, None]
    assert setting.spent() == 300


def test_settle_refuses_operations_that_are_not_a_whole_batch() -> None:
    def answer(batch: list[Operation]) -> None:
        stranger = Operation(Watcher(print), 1, None)
        with pytest.raises(SettlementError, match="these 1 operations are not the batch of 2"):
            settle(batch[:1], 1)
        with pytest.raises(SettlementError, match="these 3 operations are not the batch of 2"):
            settle([*batch, stranger], 1)
        with pytest.raises(SettlementError, match="empty"):
            settle([], 1)
        settle(reversed(batch), 5)
        with pytest.raises(SettlementError, match="settled as a whole"):
            batch[0].settle(1)

    assert Setting().run(answer, 100, 200).spent() == 5


def test_a_cost_that_was_estimated_as_nothing_cannot_be_settled() -> None:
    def answer(batch: list[Operation]) -> None:
        batch[0].settle(0)
        with pytest.raises(SettlementError, match="was charged nothing"):
            batch[0].settle(5)

    assert Setting().run(answer, 0).spent() == 0


def test_z2_batches_that_cost_what_nothing_was_estimated_of_wait_until_the_limit_fits_again() -> (
    None
):
    """Each uses all of a dimension in which its cost names nothing."""

    def answer(batch: list[Operation]) -> None:
        started.append(setting.clock.now())
        batch[0].settle({"tokens": 10_000})

    started: list[float] = []
    setting = Setting(LIMITS, max_concurrent_batches=1)
    watcher = Watcher(answer, max_batch_size=1, batch_cost={"requests": 1, "calls": 1})
    with setting.batcher:
        setting.batcher.enqueue_many([Operation(watcher, {}, n) for n in range(3)])
        setting.batcher.turn(130)
    assert [round(at) for at in started] == [0, 60, 120]


def test_v1_a_dimension_that_is_used_up_keeps_nothing_back_that_does_not_need_it() -> None:
    """Nor does an excess of a call that was estimated to cost something there."""

    def answer(batch: list[Operation]) -> None:
        if batch[0].payload == "answer":
            batch[0].settle({"tokens": 30_000})
        started.append(batch[0].payload)

    started: list[str] = []
    setting = Setting(LIMITS)
    watcher = Watcher(answer, max_batch_size=1, batch_cost={"requests": 1, "calls": 1})
    with setting.batcher:
        setting.batcher.enqueue(Operation(watcher, {"tokens": 10_000}, "answer"))
        setting.batcher.enqueue(Operation(watcher, {}, "list"))
        setting.batcher.turn(1)
    assert started == ["answer", "list"]


# Another attempt, another thread.


class Attempts:
    """An operation that is raised twice, and a thread of its first attempt that settles it while
    the second one runs."""

    def __init__(self, settle: Callable[[list[Operation]], None]) -> None:
        self.limiter = ProvisionedResource(1_000_000, period=600)
        self.error: Exception | None = None
        self._settle = settle
        self._batches: list[list[Operation]] = []
        watcher = Watcher(self._answer, max_attempts=3)
        with Batcher(rate_limiter=self.limiter) as batcher:
            batcher.enqueue(Operation(watcher, 10, "a record"))
            assert watcher.wait(timeout=20)

    def _answer(self, batch: list[Operation]) -> None:
        self._batches.append(batch)
        if len(self._batches) == 1:
            raise Throttled(0.001)
        late = threading.Thread(target=self._late)
        late.start()
        late.join()

    def _late(self) -> None:
        try:
            self._settle(self._batches[0])
        except SettlementError as error:
            self.error = error

    @property
    def spent(self) -> float:
        ledger = self.limiter._ledgers[0]
        return ledger.spent(self.limiter.clock.now())


def test_z4_a_thread_of_an_earlier_attempt_cannot_settle_the_batch() -> None:
    late = Attempts(lambda batch: settle(batch, 0))
    assert "pass the list" in str(late.error)
    assert late.spent == 20


def test_z3_z4_an_operation_is_not_refunded_since_its_attempt_is_not_known() -> None:
    assert Attempts(lambda batch: batch[0].settle(0)).spent == 20
    assert Attempts(lambda batch: batch[0].settle(30)).spent == 40


def test_threads_of_the_attempt_that_runs_settle_it() -> None:
    def answer(batch: list[Operation]) -> None:
        attempts.append(batch[0].attempt)
        if batch[0].attempt == 1:
            raise Throttled(0.001)
        inside = contextvars.copy_context()
        one = threading.Thread(target=lambda: inside.run(batch[0].settle, 1))
        other = threading.Thread(target=lambda: whole(batch))
        for thread in (one, other):
            thread.start()
            thread.join()

    def whole(batch: list[Operation]) -> None:
        if batch[0].payload == "as one":
            settle(batch, 2)

    attempts: list[int] = []
    for payload, counts in (("by itself", 11), ("as one", 12)):
        limiter = ProvisionedResource(1_000_000, period=600)
        watcher = Watcher(answer, max_attempts=3)
        with Batcher(rate_limiter=limiter) as batcher:
            batcher.enqueue(Operation(watcher, 10, payload))
            assert watcher.wait(timeout=20)
        assert limiter._ledgers[0].spent(limiter.clock.now()) == counts
    assert attempts == [1, 2, 1, 2]


class Hostile(dict[str, float]):
    """A mapping whose methods are the user's, and raise."""

    def items(self) -> Any:
        raise RuntimeError("no items")

    def __iter__(self) -> Any:
        raise RuntimeError("no names")

    def keys(self) -> Any:
        raise RuntimeError("no keys")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Unread(Mapping[str, float]):
    """One that has names, and raises where it is asked for what stands there."""

    def __getitem__(self, name: str) -> float:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(["tokens"])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("actual", [Hostile(tokens=1), Unread()], ids=["names", "amounts"])
def test_a_mapping_that_raises_is_no_cost(actual: Any) -> None:
    def answer(batch: list[Operation]) -> None:
        for settling in (batch[0].settle, lambda actual: settle(batch, actual)):
            with pytest.raises(ArgumentError, match="actual must be a mapping that can be read"):
                settling(actual)

    setting = Setting(LIMITS).run(answer, {"tokens": 1_000}, batch_cost={"requests": 1, "calls": 1})
    assert setting.spent() == (1, 1_000, 0)
    with pytest.raises(ArgumentError, match="cost must be a mapping that can be read"):
        Operation(Watcher(print), actual, None)


def test_what_is_no_batch_is_refused() -> None:
    def answer(batch: list[Operation]) -> None:
        strange: Any
        for strange in (batch[0], 5, None, [1], ["a"], "batch", {1: 2}, [None, batch[0]]):
            with pytest.raises(ArgumentError, match="batch must be the list of operations that"):
                settle(strange, 5)

    assert Setting().run(answer, 100).spent() == 100


# Reservations, without a Batcher.


def test_a_reservation_of_nothing_cannot_be_settled() -> None:
    limiter = ProvisionedResource(100)
    with limiter, limiter.reserve(0) as paid:
        paid.settle(0)
        with pytest.raises(SettlementError, match="the reserved cost is zero"):
            paid.settle(100)
    assert not limiter._ledgers[0].spent(limiter.clock.now())


def test_z2_reservations_that_name_a_dimension_only_afterwards_wait_for_it() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(LIMITS, clock=clock)
    with limiter:
        for _ in range(2):
            with limiter.reserve({"requests": 1, "calls": 1}) as paid:
                paid.settle({"tokens": 6_000})
        with (
            pytest.raises(ReserveTimeoutError),
            limiter.reserve({"requests": 1, "calls": 1}, timeout=0),
        ):
            pass
        assert limiter.ready_at({"requests": 1, "calls": 1}) == pytest.approx(60, rel=0.01)
        clock.advance(61)
        with limiter.reserve({"requests": 1, "calls": 1}, timeout=0):
            pass


def test_a_reservation_is_settled_in_its_block() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(LIMITS, clock=clock)
    with limiter, limiter.reserve({"requests": 1, "tokens": 4_500, "calls": 1}) as paid:
        paid.settle({"tokens": 5_000})
        assert limiter._ledgers[1].spent(clock.now()) == 5_000
        paid.settle({"tokens": 1_034})
        with pytest.raises(ArgumentError, match="leave out calls"):
            paid.settle({"calls": 0})
    assert [one.spent(clock.now()) for one in limiter._ledgers] == [1, 1_034, 0]
    with pytest.raises(SettlementError, match="only be settled in its block"):
        paid.settle({"tokens": 1})


def test_settling_a_reservation_that_has_not_begun_is_refused() -> None:
    limiter = ProvisionedResource(100)
    with limiter, pytest.raises(SettlementError, match="only be settled in its block"):
        limiter.reserve(10).settle(5)


def test_a_reservation_that_ends_with_an_error_counts_as_settled() -> None:
    limiter = ProvisionedResource(100, period=60)
    with limiter:
        with contextlib.suppress(KeyError), limiter.reserve(100) as paid:
            paid.settle(40)
            raise KeyError
        assert limiter.acquire(60, timeout=20), "it would otherwise wait for a minute"


def test_coroutines_settle_reservations() -> None:
    async def main() -> bool:
        async with limiter.reserve(100) as paid:
            paid.settle(40)
        return await limiter.acquire_async(60, timeout=20)

    limiter = ProvisionedResource(100, period=60)
    with limiter:
        assert asyncio.run(main())


def test_z3_a_first_settlement_just_after_the_callback_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread may settle between the end of the callback and the Batcher's look at it."""
    tried = []
    original = OperationBatch.callback_ended

    def ended(self: OperationBatch, now: float, error: BaseException | None) -> None:
        original(self, now, error)
        with pytest.raises(SettlementError, match="the batch has ended"):
            self.operations[0].settle(1_000)
        tried.append(self)

    monkeypatch.setattr(OperationBatch, "callback_ended", ended)
    limiter = ProvisionedResource(10_000)
    with Batcher(rate_limiter=limiter) as batcher:
        watcher = Watcher(lambda batch: None)
        batcher.enqueue(Operation(watcher, 1, "a record"))
        watcher.wait(timeout=60)
    assert len(tried) == 1
