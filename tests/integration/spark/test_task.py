"""A task of a sink without Spark: its rows when a handler fails or hangs (laws K2, K3)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from redis import Redis
from tenacity.wait import wait_fixed

from dispatcher.outcomes import Retry
from dispatcher.registration import RedisEntityStore, RegistrationGate
from dispatcher.spark import BatchFailedError
from dispatcher.spark._ledger import claims
from dispatcher.spark._ledger.claims import Place, QueryRun, SendClaim
from dispatcher.spark._options import DeliveryOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.expressions import Expression
from dispatcher.spark._rows.formats import AsDict
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.delivery import Delivery
from dispatcher.spark._task.micro_batch_id import MicroBatchId
from dispatcher.spark._task.sums import Sums
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark.context import Context
from limiters import LimiterConfig
from limiters._support.clock import MonotonicClock
from limiters.embedded import EmbeddedRedis
from limiters.verifier import verify
from tests.servers.proxy import Proxy
from tests.starts import began
from tests.waiting import LONG, until

LEASE = 1.0
IN_ORDER = Columns("subject", "time"), Cut(2)
IN_NO_ORDER = Columns(None, None), Cut(2, same_subject=False, in_order=False)

released = threading.Event()


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    released.clear()
    yield
    released.set()


def claimed(
    url: str, *, run: QueryRun | None = None, lease: float = LEASE, batch: int = 1
) -> SendClaim:
    place = Place(url, "test", "orders", "checkpoint")
    redis = claims.Redis(place, patience=LONG)
    try:
        return (run or QueryRun()).claim(
            redis, place, batch, signature="s", time_kind="number", lease=lease, remember=1_000
        )
    finally:
        redis.close()


def rows(subject: str | None = "a", size: int = 6, **others: pa.Array) -> pa.RecordBatch:
    """Return rows of a subject. `others` are additional columns, or columns in place of these."""
    numbers = list(range(size))
    subjects = pa.array([subject] * size, pa.string())
    plain = {"subject": subjects, "time": numbers, "n": numbers}
    return pa.RecordBatch.from_pydict({**plain, **others})


def run(
    handler: Any,
    claim: SendClaim | None,
    shape: tuple[Columns, Cut] = IN_ORDER,
    subjects: str = "ab",
    gate: RedisEntityStore | None = None,
    **options: Any,
) -> dict[str, float]:
    sending = DeliveryOptions(handler=handler, cost=1.0, rows="dict", **options)
    job = TaskJob(sending, *shape, "number", "orders", 1, claim, gate=gate)
    (sums,) = job.run([rows(subject) for subject in subjects])
    return {name: sums.column(name)[0].as_py() for name in sums.schema.names}


def test_the_time_of_each_handler_call_counts_even_if_it_fails() -> None:
    took: list[float] = []

    def fails_at_first(batch: list[Any], context: Context) -> None:
        began = time.monotonic()
        try:
            if context.attempt == 1 and batch[0]["n"] == 0:
                raise Retry(after=0.01)
        finally:
            took.append(time.monotonic() - began)

    async def on_a_loop(batch: list[Any], context: Context) -> None:
        await asyncio.sleep(0)
        fails_at_first(batch, context)

    for handler in (fails_at_first, on_a_loop):
        took.clear()
        sums = run(handler, None, retry=wait_fixed(0.01), max_attempts=2)
        assert (sums["batches"], sums["retries"], sums["calls"]) == (6, 2, 8)
        assert sum(took) <= sums["handling"] <= 8 * LONG


def hangs(batch: list[Any], context: Context) -> None:
    if batch[0]["n"] == 4:
        released.wait()


def hangs_at_first(batch: list[Any], context: Context) -> None:
    if batch[0]["n"] == 0:
        released.wait()


async def hangs_on_a_loop(batch: list[Any], context: Context) -> None:
    if batch[0]["n"] == 4:
        while not released.is_set():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("handler", [hangs, hangs_at_first, hangs_on_a_loop])
@pytest.mark.parametrize("shape", [IN_ORDER, IN_NO_ORDER], ids=["in order", "in no order"])
def test_k2_a_handler_that_does_not_return_fails_the_task_and_its_rows_are_not_lost(
    handler: Any, shape: tuple[Columns, Cut]
) -> None:
    with pytest.raises(BatchFailedError, match="longer max_operation_time"):
        run(handler, None, shape, max_operation_time=1)


@pytest.mark.parametrize("is_async", [False, True])
def test_k2_a_wait_for_redis_does_not_count_against_the_time_of_a_handler(is_async: bool) -> None:
    with EmbeddedRedis() as redis:
        claim, url = claimed(redis.url, lease=60), redis.url

        def pauses_redis(batch: list[Any], context: Context) -> None:
            if context.subject == "a" and batch[0]["n"] == 0:
                with Redis.from_url(url) as client:
                    client.client_pause(2_000)

        async def pauses_on_a_loop(batch: list[Any], context: Context) -> None:
            pauses_redis(batch, context)

        handler = pauses_on_a_loop if is_async else pauses_redis
        sums = run(handler, claim, max_operation_time=1)

    assert sums["sent_rows"] == sums["rows"]


def test_k7_no_task_takes_over_from_a_hanging_handler_before_its_lease_ends(
    shared_redis: EmbeddedRedis,
) -> None:
    claim = claimed(shared_redis.url, lease=60)
    with pytest.raises(BatchFailedError):
        run(hangs, claim, max_operation_time=1)

    taking = threading.Thread(target=claimed, args=(shared_redis.url,), daemon=True)
    taking.start()
    fence, senders = claim.place.key("fence"), claim.place.key("senders")
    with Redis.from_url(shared_redis.url, decode_responses=True) as client:
        until(lambda: client.hget(fence, "epoch") != claim.epoch)
        taking.join(0.3)
        assert taking.is_alive()
        client.delete(senders)  # as if its lease had ended
    taking.join(LONG)
    assert not taking.is_alive()


def test_a_task_cancelled_during_its_acknowledgement_breaks_nothing_else(
    shared_redis: EmbeddedRedis,
) -> None:
    async def cancels_itself(batch: list[Any], context: Context) -> None:
        if context.subject == "a" and batch[0]["n"] == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    problems: list[threading.ExceptHookArgs] = []
    threading.excepthook, before = problems.append, threading.excepthook
    try:
        with pytest.raises(BatchFailedError):
            run(cancels_itself, claimed(shared_redis.url))
    finally:
        threading.excepthook = before

    assert not problems
    again = run(lambda batch: None, claimed(shared_redis.url))
    assert again["sent_rows"] + again["replayed_rows"] == 12


def test_batches_of_rows_in_no_order_have_keys_of_their_own() -> None:
    keys: list[tuple[str, int]] = []

    def fails_once(batch: list[Any], context: Context) -> None:
        keys.append((context.key, context.attempt))
        if len(keys) == 1:
            raise RuntimeError("once")

    for _ in range(2):
        run(fails_once, None, IN_NO_ORDER, retry=lambda state: 0.01, max_attempts=2)

    assert len({key for key, _ in keys}) == 12
    (retried,) = [key for key, attempt in keys if attempt == 2]
    assert (retried, 1) in keys


def test_k2_a_failing_target_for_dead_letters_is_tried_again_and_then_the_task_fails() -> None:
    asked: list[Any] = []

    def refuses(batch: list[Any], context: Context) -> None:
        raise RuntimeError("no")

    def full(batch: list[Any], context: Context) -> None:
        asked.append(context.key)
        raise OSError("disk full")

    with pytest.raises(BatchFailedError, match="disk full"):
        run(refuses, None, retry=lambda state: 0.01, max_attempts=2, dead_letters=full)
    assert asked


def test_objects_that_are_sent_to_executors_show_no_secrets() -> None:
    place = Place("redis://:secret@db", "test", "orders")

    assert "secret" not in repr(place)
    assert "secret" not in repr(SendClaim(place, 1, "1", "1", 0, 1.0, 1.0))


def no(batch: list[Any], context: Context) -> None:
    raise RuntimeError("no")


def test_k3_rows_held_by_a_gate_are_not_held_twice_when_their_task_fails(
    shared_redis: EmbeddedRedis,
) -> None:
    url, store = shared_redis.url, RedisEntityStore(shared_redis.url, name="devices")
    with RegistrationGate(RedisEntityStore(url, name="devices")) as gate:
        gate.register("b")
        with pytest.raises(BatchFailedError):
            run(no, claimed(url), subjects="abc", gate=store)
        again = run(lambda batch: None, claimed(url), subjects="abc", gate=store)

        assert again["replayed_rows"] >= 6  # at least a's
        for subject in "ac":
            (release,) = gate.register(subject)
            assert [message["n"] for message in release.messages] == list(range(6))


def test_k3_rows_held_by_a_gate_come_after_refused_rows_of_their_subject(
    shared_redis: EmbeddedRedis,
) -> None:
    url, dead = shared_redis.url, list[int]()
    timeless = rows(time=pa.array([None, None, None, 1, 2, 3]))
    with RegistrationGate(RedisEntityStore(url, name="devices")) as gate:
        sending = DeliveryOptions(
            handler=no,
            rows="dict",
            dead_letters=lambda batch: dead.extend(row["n"] for row in batch),
        )
        store = RedisEntityStore(url, name="devices")
        for _ in range(2):
            claim = claimed(url)
            job = TaskJob(sending, *IN_ORDER, "number", "orders", 1, claim, gate=store)
            (sums,) = job.run([timeless])
        (release,) = gate.register("a")

    assert dead == [0, 1, 2]
    assert [message["n"] for message in release.messages] == [3, 4, 5]
    assert sums.column("replayed_rows")[0].as_py() == 6


noted: list[tuple[float, str, float]] = []
at_the_second: list[Any] = []


def notes(batch: list[Any], context: Context) -> None:
    noted.append((began(), "me", float(len(batch))))
    if len(noted) == 2:
        at_the_second.pop()()


def test_k4_k7_while_redis_is_away_no_call_begins_and_charges_are_made_again(
    proxy: Proxy,
) -> None:
    away: list[float] = []

    def away_for_a_while() -> None:
        proxy.refuse()
        away.append(MonotonicClock.now())
        threading.Timer(3 * LEASE, come_back).start()

    def come_back() -> None:
        away.append(MonotonicClock.now())
        proxy.accept()

    noted.clear()
    at_the_second.append(away_for_a_while)
    limiter = LimiterConfig(reserved_capacity=4)
    sums = run(notes, claimed(proxy.url), subjects="abcdefgh", limiter=limiter)

    assert sums["sent_rows"] == 48
    assert not [at for at, _, _ in noted if away[0] + LEASE < at < away[1]]
    assert verify(noted, 4).holds


def test_rows_that_are_not_sent_cost_nothing_with_any_number_of_dead_letter_attempts() -> None:
    tries: list[int] = []

    def take_dead(batch: list[Any]) -> None:
        tries.append(len(batch))
        if len(tries) == 1:
            raise OSError("the target is away")

    without_subject = rows(None)
    sending = DeliveryOptions(
        handler=lambda batch: None,
        cost=5.0,
        rows="dict",
        dead_letters=take_dead,
        retry=wait_fixed(0.01),
    )
    (sums,) = TaskJob(sending, *IN_ORDER, "number", "orders", 1, None).run([without_subject])
    found = {name: sums.column(name)[0].as_py() for name in sums.schema.names}
    assert tries == [2, 2, 2, 2]
    assert (found["rejected_rows"], found["retries"], found["cost"]) == (6, 1, 0)


def test_costs_may_be_decimals() -> None:
    priced = rows(price=pa.array([Decimal("1.5")] * 6, pa.decimal128(5, 2)))
    columns = Columns("subject", "time", costs={"": Expression("price")})
    sending = DeliveryOptions(handler=lambda batch: None, cost="price", rows="dict")
    (sums,) = TaskJob(sending, columns, Cut(2), "number", "orders", 1, None).run([priced])
    assert sums.column("cost")[0].as_py() == 9.0


def test_k3_the_error_of_a_task_keeps_no_batches_in_memory() -> None:
    sending = DeliveryOptions(handler=hangs, cost=1.0, rows="dict")
    of = MicroBatchId("orders", 1, "checkpoint", "number")
    delivery = Delivery(sending, of, AsDict(), Sums())
    delivery.abandoned("it hangs")
    depths: list[int] = []
    for _ in range(50):
        with pytest.raises(BatchFailedError, match="has not returned") as caught:
            delivery.check()
        depths.append(len(caught.traceback))
        assert caught.value.__cause__ is delivery.failed
    assert max(depths) < 10, "each raise is an error of its own"


def test_k2_a_handler_that_did_not_run_has_sent_nothing() -> None:
    def generate(batch: list[Any], context: Context) -> Iterator[Any]:
        yield from batch

    with pytest.raises(ValueError, match="handler must not be a generator function"):
        run(generate, None)
    with pytest.raises(BatchFailedError, match="whose work is yet to be done"):
        run(lambda batch, context: generate(batch, context), None)
