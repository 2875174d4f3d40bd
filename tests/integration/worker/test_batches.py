"""How a Worker's batch ends, on a real server."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tenacity.wait import wait_fixed

from dispatcher import PartialFailure, Reject, Retry, SettlementError, Throttled
from dispatcher.timeline import Lease, Message, Snapshot, Timeline
from dispatcher.worker import Life, WorkerContext
from limiters import InFlight, Limits, ProvisionedResource, Rate
from limiters.embedded import EmbeddedRedis
from tests.integration.worker.handled import Made, Noted, create, dead, many
from tests.waiting import until
from tests.worker_leases import lease


def test_what_succeeds_is_deleted(timeline: Timeline, run: Made) -> None:
    create(timeline, *many(250))
    handler = Noted()
    worker = run(handler, max_batch_size=100)
    until(lambda: worker.totals.done == 250)
    assert sorted(handler.ids) == sorted(f"m{number}" for number in range(250))
    assert max(map(len, handler.batches)) <= 100
    stats = timeline.stats()
    assert (stats.deleted, stats.remaining) == (250, 0)


def test_what_raises_comes_again_and_is_dead_after_the_last_attempt(
    timeline: Timeline, run: Made, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    create(timeline, Message("x", id="x"))

    def fail(messages: Sequence[Lease]) -> None:
        raise ValueError(f"attempt {messages[0].attempt}")

    handler = Noted(fail)
    worker = run(handler, max_attempts=3)
    until(lambda: worker.totals.dead)
    assert [batch[0].attempt for batch in handler.batches] == [1, 2, 3]
    assert dead(timeline) == {"x": "attempt 3, the last one: ValueError: attempt 3"}
    assert worker.totals.retried == 2
    until(lambda: worker.batcher.totals.failed == 3)  # so that metrics see failures
    said = [it for it in caplog.records if "failed for 1 of 1 message in topic" in it.message]
    assert {it.name for it in said} == {"dispatcher.worker.failures"}
    assert all("('x')" in it.message for it in said)
    assert "of Watcher(" not in caplog.text, "the worker's own Batcher does not say it again"


def test_a_failure_waits_out_its_back_off(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x", id="x"))
    worker = run(Noted(lambda messages: 1 / 0), retry=wait_fixed(600))
    until(lambda: worker.totals.retried)
    [snapshot] = timeline.producer("us").get(["x"])
    assert isinstance(snapshot, Snapshot)
    assert 590_000 < snapshot.time - time.time() * 1000 < 610_000


def test_a_topic_of_fewer_attempts_has_its_reason_too(
    shared_redis: EmbeddedRedis, run: Made
) -> None:
    timeline = Timeline(shared_redis.url, "few", max_attempts=2)
    create(timeline, Message("x", id="x"))
    worker = run(Noted(lambda messages: 1 / 0), timeline=timeline, max_attempts=10)
    until(lambda: worker.totals.dead)
    assert dead(timeline)["x"].startswith("attempt 2, the last one: ZeroDivisionError")
    timeline.close()


def test_each_message_may_end_in_its_own_way(timeline: Timeline, run: Made) -> None:
    create(timeline, *many(5))
    said = {"m1": Reject("malformed"), "m2": Retry(after=500), "m3": KeyError("field")}
    handler = Noted(lambda messages: {it.id: said.get(it.id) for it in messages})
    worker = run(handler, max_attempts=1, max_batch_size=5)
    until(lambda: worker.totals.done + worker.totals.dead == 5)
    assert dead(timeline) == {
        "m1": "malformed",
        "m2": "attempt 1, the last one: Retry: retry after 500 s",
        "m3": "attempt 1, the last one: KeyError: 'field'",
    }
    assert timeline.stats().deleted == 2


def test_partial_failure_names_the_messages(timeline: Timeline, run: Made) -> None:
    create(timeline, *many(3))

    def fail_one(messages: Sequence[Lease]) -> None:
        bad = [it for it in messages if it.id == "m1"]
        if bad:
            raise PartialFailure(bad, Reject("no"))

    worker = run(Noted(fail_one))
    until(lambda: worker.totals.done == 2 and worker.totals.dead == 1)
    assert dead(timeline) == {"m1": "no"}


def test_b12_a_refusal_pauses_and_is_no_attempt(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x", id="x"))
    refusals = iter([True, True, False])

    def refuse(messages: Sequence[Lease]) -> None:
        if next(refusals):
            raise Throttled(retry_after=0.05)

    handler = Noted(refuse)
    worker = run(handler, max_attempts=1)
    until(lambda: worker.totals.done == 1)
    assert [batch[0].attempt for batch in handler.batches] == [1, 1, 1]
    assert worker.totals.throttled == 2
    assert worker.batcher.totals.throttled == 2


def test_coroutines_and_a_context(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x"))
    seen: list[tuple[int, WorkerContext]] = []

    async def handle(messages: list[Lease], context: WorkerContext) -> None:
        await asyncio.sleep(0)
        seen.append((len(messages), context))

    worker = run(handle, consumer_id="one")
    until(lambda: worker.totals.done)
    assert seen == [(1, WorkerContext("work", "one", 1))]


def test_what_a_handler_returns_is_not_ignored(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x", id="x"))
    worker = run(lambda messages: [messages[0].id], max_attempts=1)
    until(lambda: worker.totals.dead)
    assert "a handler returns None, or a mapping" in dead(timeline)["x"]


def test_a_handler_of_which_nothing_was_run_has_not_done_its_messages(
    timeline: Timeline, run: Made
) -> None:
    def generate(messages: list[Lease]) -> Iterator[Lease]:
        yield from messages

    with pytest.raises(ValueError, match="handler must not be a generator function"):
        run(generate)
    create(timeline, Message("x", id="x"))
    worker = run(lambda messages: generate(messages), max_attempts=1)
    until(lambda: worker.totals.dead)
    assert "returned an object of class generator" in dead(timeline)["x"]
    assert worker.totals.done == 0


def test_an_instance_that_a_handler_raises_again_and_again_does_not_grow(
    timeline: Timeline, run: Made
) -> None:
    always = OSError("always the same")

    def fail(messages: Sequence[Lease]) -> None:
        raise always

    create(timeline, *many(30))
    worker = run(Noted(fail), max_batch_size=1, max_attempts=1)
    until(lambda: worker.totals.dead == 30)
    depth, trace = 0, always.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth < 10


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("cost", [1, "units"], ids=["handler", "cost"])
def test_a_retry_strategy_that_raises_is_not_its_end(
    timeline: Timeline, run: Made, error: type[BaseException], cost: Any
) -> None:
    create(timeline, Message("x"))

    def broken(state: Any) -> float:
        raise error

    worker = run(Noted(lambda messages: 1 / 0), retry=broken, cost=cost)
    until(lambda: worker.totals.retried == 1)
    assert worker.life is Life.RUNNING


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_cost_that_raises_anything_fails_its_message_alone(
    timeline: Timeline, run: Made, error: BaseException
) -> None:
    create(timeline, *many(3))

    def cost(message: Lease) -> float:
        if message.id == "m1":
            raise error
        return 1

    worker = run(Noted(), cost=cost, max_attempts=1)
    until(lambda: worker.totals.done == 2 and worker.totals.dead == 1)
    assert type(error).__name__ in dead(timeline)["m1"]
    assert worker.life is Life.RUNNING


def test_a_back_off_without_end_is_not_its_end(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x", id="x"))
    worker = run(Noted(lambda messages: 1 / 0), retry=lambda state: math.inf)
    until(lambda: worker.totals.retried == 1)
    assert worker.life is Life.RUNNING


def test_costs_in_several_dimensions_are_charged_by_message_and_by_batch(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, *(Message({"size": 10 + number}, id=f"m{number}") for number in range(5)))
    create(timeline, Message({"size": 5_000}, id="large"), Message("no size", id="none"))
    limiter = ProvisionedResource(Limits(requests=Rate(100), tokens=Rate(1_000), calls=InFlight(3)))
    handler = Noted()
    worker = run(
        handler,
        rate_limiter=limiter,
        cost={"tokens": "size"},
        batch_cost={"requests": 1, "calls": 1},
        max_attempts=1,
    )
    until(lambda: worker.totals.done == 5 and worker.totals.dead == 2)
    spent: Any = limiter.standing().spent_reserved
    assert spent["tokens"] == sum(range(10, 15))
    assert spent["requests"] == spent["calls"] == len(handler.batches)
    said = dead(timeline)
    assert "costs 5000 of tokens, more than the limiter's max_capacity of 1000" in said["large"]
    assert "has no field 'size'" in said["none"]
    until(lambda: limiter.standing().demand == {})


def test_z1_a_handler_settles_the_call_or_a_message(timeline: Timeline, run: Made) -> None:
    create(timeline, *many(2))
    limiter = ProvisionedResource(Limits(units=Rate(1_000, per=600, burst=1_000)))
    spent: list[float] = []
    refused: list[str] = []

    def handler(messages: Sequence[Lease], context: WorkerContext) -> None:
        context.settle(7, messages[0])
        context.settle(35)
        kept.append((context, messages[0]))
        with pytest.raises(SettlementError, match="is not of this call"):
            context.settle(1, kept[0][1] if len(kept) > 1 else lease())
        refused.append("stranger")

    kept: list[tuple[WorkerContext, Lease]] = []
    worker = run(handler, max_batch_size=2, cost=100, batch_cost=50, rate_limiter=limiter)
    until(lambda: worker.totals.done == 2)
    assert len(refused) == len(kept)
    spent.append(limiter._ledger.spent(time.monotonic()))  # type: ignore[attr-defined]
    assert spent == [35.0 * len(kept)]
    with pytest.raises(SettlementError):
        kept[0][0].settle(1)
