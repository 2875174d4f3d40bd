"""A Worker on a real server, in this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from tenacity.wait import wait_fixed

from dispatcher import PartialFailure, ProvisionedResource, Reject, Retry, Throttled
from dispatcher.errors import HandlerError, ImproperOrderError
from dispatcher.timeline import Consumer, Lease, Message, Snapshot, Timeline
from dispatcher.worker import Life, Worker, WorkerContext, WorkerFailedError
from limiters import MemoryLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.servers.proxy import Proxy
from tests.waiting import until

SOON = wait_fixed(0.01)
Made = Callable[..., Worker]


@pytest.fixture
def timeline(shared_redis: EmbeddedRedis) -> Iterator[Timeline]:
    made = Timeline(shared_redis.url, "work", buckets=4)
    yield made
    made.close()


@pytest.fixture
def run(timeline: Timeline) -> Iterator[Made]:
    """Starts workers, and stops them."""
    started: list[Worker] = []

    def start(handler: Any, **options: Any) -> Worker:
        given = {"rate_limiter": None, "flush_interval": 0.01, "retry": SOON, **options}
        worker = Worker(given.pop("timeline", timeline), handler, **given)
        started.append(worker)
        worker.start()
        return worker

    yield start
    for worker in started:
        worker.stop(0)


def create(timeline: Timeline, *messages: Message) -> list[str]:
    outcomes = timeline.producer("us").create(messages)
    assert all(outcome.ok for outcome in outcomes)
    return [outcome.id for outcome in outcomes]


def many(count: int) -> list[Message]:
    return [Message(number, id=f"m{number}") for number in range(count)]


def leased(consumer: Consumer, length: float) -> Lease:
    """One message, once it is due: that may take up to a millisecond."""
    found: list[Lease] = []

    def try_it() -> bool:
        found.extend(consumer.lease(1, length))
        return bool(found)

    until(try_it)
    return found[0]


def dead(timeline: Timeline) -> dict[str, str]:
    found, cursor = timeline.dead(1_000)
    assert cursor == ""
    return {snapshot.id: snapshot.reason for snapshot in found}


class Noted:
    """A handler that notes what it is given and does as it is told."""

    def __init__(self, then: Callable[[Sequence[Lease]], Any] = lambda messages: None) -> None:
        self.then = then
        self.batches: list[list[Lease]] = []

    def __call__(self, messages: list[Lease]) -> Any:
        self.batches.append(messages)
        return self.then(messages)

    @property
    def ids(self) -> list[str]:
        return [message.id for batch in self.batches for message in batch]


# How a batch ends.


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
    assert worker.batcher.totals.failed == 3, "metrics see failures"
    said = [record.name for record in caplog.records if "failed: 1" in record.message]
    assert set(said) == {"dispatcher.worker.call_log"}
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


# What it may spend, and what it takes.


def test_b4_costs_are_charged_and_the_limit_holds(timeline: Timeline, run: Made) -> None:
    create(timeline, *[Message({"units": 5}) for _ in range(60)])
    begun: list[tuple[float, int]] = []

    def note(messages: list[Lease]) -> None:
        begun.append((time.monotonic(), 5 * len(messages)))

    worker = run(note, rate_limiter=ProvisionedResource(200), cost="units")
    until(lambda: worker.totals.done == 60)
    for at, _ in begun:
        # A note is made a little after the charge: a window is judged a tenth longer or shorter.
        assert sum(cost for when, cost in begun if at - 0.9 < when <= at) <= 200


def test_what_has_no_cost_or_too_large_a_one_ends_among_the_dead(
    timeline: Timeline, run: Made
) -> None:
    bodies = [{"units": 1}, {"units": 999}, {}]
    create(timeline, *[Message(body, id=f"m{n}") for n, body in enumerate(bodies)])
    worker = run(Noted(), rate_limiter=ProvisionedResource(100), cost="units", max_attempts=1)
    until(lambda: worker.totals.done + worker.totals.dead == 3)
    reasons = dead(timeline)
    assert "TooExpensiveError" in reasons["m1"]
    assert "has no field 'units'" in reasons["m2"]


def test_an_idle_neighbour_does_not_starve_while_this_one_is_slow(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, *many(200))
    go_on = threading.Event()
    slow = run(lambda messages: go_on.wait(20) and None, concurrency=2, max_batch_size=10)
    until(lambda: slow.in_flight == 2)
    assert slow.in_flight * 10 + slow.waiting <= 20
    quick = run(Noted(), max_batch_size=10)
    until(lambda: quick.totals.done == 200 - slow.totals.leased)
    assert slow.totals.leased <= 20
    go_on.set()
    until(lambda: slow.totals.done + quick.totals.done == 200)


def test_c5_it_takes_no_more_than_the_budget_can_use_soon(timeline: Timeline, run: Made) -> None:
    create(timeline, *many(500))
    worker = run(Noted(), rate_limiter=ProvisionedResource(40), max_batch_size=100)
    until(lambda: worker.totals.done >= 10)
    assert worker.waiting <= 20, "half a second's worth"
    assert worker.totals.leased <= worker.totals.done + 20 + 40


def test_c5_the_backlog_is_demanded_so_that_a_share_grows_at_once(
    timeline: Timeline, run: Made
) -> None:
    for number in range(12):
        create(timeline, *[Message(number) for _ in range(1_000)])
    manager = MemoryLeaseManager()

    def share(weight: float) -> SharedResource:
        return SharedResource(
            shared_capacity=4_000,
            factor=100,
            lease_manager=manager,
            max_interval=0.25,
            weight=weight,
        )

    with share(19) as other:
        other.give_me(1e6)
        limiter = share(1)
        worker = run(Noted(), rate_limiter=limiter, max_batch_size=500, flush_interval=0.02)
        until(lambda: len(limiter.partitions) == 2 and worker.totals.done > 400)
        changes: list[float] = []
        limiter.add_listener(lambda event: changes.append(event.value), "capacity")
        other.give_me(0)
        until(lambda: len(limiter.partitions) == 40)
        # What it could use counts, not a little more each time than what it has used.
        until(lambda: changes and changes[-1] == 4_000)
        assert len(changes) <= 2


# Leases.


def test_t3_leases_of_what_is_handled_for_long_are_kept(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x"))
    go_on = threading.Event()
    worker = run(lambda messages: go_on.wait(20) and None, lease_time=0.6)
    until(lambda: worker.in_flight)
    other = timeline.consumer("other")
    end = time.monotonic() + 1.5  # two and a half leases
    while time.monotonic() < end:
        assert other.lease(1, 1) == []
        assert timeline.stats().processing == 1
    go_on.set()
    until(lambda: worker.totals.done == 1)
    assert worker.totals.lost == 0


def test_t3_what_is_lost_before_it_begins_does_not_begin(
    timeline: Timeline, run: Made, shared_redis: EmbeddedRedis
) -> None:
    create(timeline, *many(2))
    go_on, begun = threading.Event(), Noted(lambda messages: go_on.wait(20) and None)
    worker = run(
        begun, lease_time=0.6, concurrency=1, max_batch_size=1, rate_limiter=ProvisionedResource(1)
    )
    until(lambda: worker.in_flight == 1)
    worker._calls.batch_time = 0.001  # as if a slot were free in no time: it leases one ahead
    worker._limiter.set_capacity(1_000)  # type: ignore[union-attr]
    until(lambda: worker.waiting == 1)
    with closing(
        Timeline(shared_redis.url, "work")
    ) as same:  # somebody takes what it has, by its name
        taken = same.consumer(worker.consumer.id).active()
    assert len(taken) == 2
    until(lambda: all(one.lost for one in worker._holds._waiting))
    go_on.set()
    until(lambda: worker.totals.lost == 2)
    assert len(begun.ids) == 1
    assert timeline.stats().deleted == 0


def test_a_worker_that_comes_back_under_its_id_gets_its_messages_at_once(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, Message("x"))
    lease = leased(timeline.consumer("one"), 600)
    handler = Noted()
    worker = run(handler, consumer_id="one")
    until(lambda: worker.totals.done == 1)
    assert handler.batches[0][0].attempt == lease.attempt + 1


def test_a_message_whose_attempts_never_end_is_dead(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("poison", id="poison"))
    for _ in range(2):  # two workers that were killed by it
        lease = leased(timeline.consumer("killed"), 0.001)
        until(lease.is_expired)
    handler = Noted()
    worker = run(handler, max_attempts=2)
    until(lambda: worker.totals.dead)
    assert handler.batches == []
    assert "leased 2 times, and the last attempt did not end" in dead(timeline)["poison"]


def test_what_hangs_is_counted_and_given_out_again(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x", id="x"))
    go_on = threading.Event()
    handler = Noted(lambda messages: go_on.wait(20) if messages[0].attempt == 1 else None)
    worker = run(handler, lease_time=0.5, max_operation_time=0.2, concurrency=2)
    until(lambda: worker.totals.hung == 1)
    assert worker.hanging == 1
    assert worker.trouble() == ""
    until(lambda: worker.totals.done == 1)
    assert [batch[0].attempt for batch in handler.batches] == [1, 2]
    go_on.set()
    until(lambda: worker.totals.lost == 1)
    assert worker.hanging == 0, "it came back after all, and its late word counts for nothing"


def test_a_worker_that_hangs_everywhere_takes_no_more_and_says_so(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, *many(20))
    go_on = threading.Event()
    worker = run(
        lambda messages: go_on.wait(20) and None,
        lease_time=0.5,
        max_operation_time=0.1,
        concurrency=2,
        max_batch_size=1,
    )
    until(worker.trouble)
    assert worker.trouble() == "all 2 slots hang in the handler"
    assert worker.unready() == worker.trouble()
    until(lambda: timeline.stats().lost == 2)  # and nobody else is there to take them
    assert (worker.totals.leased, worker.waiting) == (2, 0)
    go_on.set()
    until(lambda: timeline.stats().remaining == 0)


# Trouble.


def test_redis_away_is_said_once_and_it_comes_back(
    proxy: Proxy, run: Made, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = Timeline(proxy.url, "work", timeout=0.2)
    worker = run(Noted(), timeline=timeline)
    until(lambda: worker.unready() == "")
    proxy.refuse()
    until(lambda: worker.unready() == "Redis does not answer")
    assert worker.trouble() == "", "a restart would not help"
    proxy.accept()
    until(lambda: worker.unready() == "")
    create(timeline, Message("x"))
    until(lambda: worker.totals.done == 1)
    said = [record.message for record in caplog.records if "has to wait" in record.message]
    assert len(said) == 1
    timeline.close()


def test_what_ended_while_redis_was_away_is_settled_when_it_is_back(
    proxy: Proxy, run: Made
) -> None:
    timeline = Timeline(proxy.url, "work", timeout=0.2)
    create(timeline, Message("x"))
    go_on = threading.Event()
    worker = run(lambda messages: go_on.wait(20) and None, timeline=timeline)
    until(lambda: worker.in_flight)
    proxy.refuse()
    go_on.set()
    until(lambda: worker.in_flight == 0)
    proxy.accept()
    until(lambda: worker.totals.done == 1)
    assert worker.totals.lost == 0
    timeline.close()


def test_an_error_of_its_own_ends_it(timeline: Timeline, run: Made) -> None:
    worker = run(Noted())

    def broken(held: Any) -> Any:
        raise RuntimeError("a defect")

    worker._intake.operations = broken  # type: ignore[method-assign]
    create(timeline, Message("x"))
    with pytest.raises(WorkerFailedError, match="a defect"):
        worker.run()
    assert worker.life is Life.FAILED
    assert "a defect" in worker.trouble()
    assert worker.batcher.state == "stopped"
    assert timeline.stats().new == 1, "what has not begun is given back"


@pytest.mark.parametrize("part", ["_extend", "_settle"])
def test_an_error_of_its_keeper_ends_it_too(timeline: Timeline, run: Made, part: str) -> None:
    worker = run(Noted())

    def broken(*given: object) -> None:
        raise RuntimeError("a defect")

    setattr(worker._keeper, part, broken)
    with pytest.raises(WorkerFailedError, match="a defect"):
        worker.wait(20)


def test_a_batcher_that_ended_by_itself_ends_it(timeline: Timeline, run: Made) -> None:
    worker = run(Noted())
    worker.batcher.stop(drain=False)
    with pytest.raises(WorkerFailedError, match="the Batcher has ended by itself"):
        worker.wait(20)


def test_a_retry_strategy_that_raises_is_not_its_end(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x"))

    def broken(state: Any) -> float:
        raise RuntimeError

    worker = run(Noted(lambda messages: 1 / 0), retry=broken)
    until(lambda: worker.totals.retried == 1)
    assert worker.life is Life.RUNNING


# Its end.


def test_stopping_gives_back_at_once_what_has_not_begun_and_it_was_no_attempt(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, *many(30))
    worker = run(Noted(), rate_limiter=ProvisionedResource(10), max_batch_size=5)
    until(lambda: worker.totals.done and worker.waiting)
    worker.stop()
    assert worker.life is Life.STOPPED
    stats = timeline.stats()
    assert stats.processing == 0
    assert stats.new == 30 - stats.deleted
    left = timeline.consumer("other").lease(30, 5)
    assert {lease.attempt for lease in left} == {1}


def test_stopping_waits_for_what_is_in_the_handler(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x"))
    go_on = threading.Event()
    worker = run(lambda messages: go_on.wait(20) and None)
    until(lambda: worker.in_flight)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    until(lambda: worker.life is Life.DRAINING)
    assert worker.unready() == "it is draining"
    go_on.set()
    stopping.join(20)
    assert timeline.stats().deleted == 1


def test_after_the_drain_time_it_gives_back_what_has_not_ended(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, Message("x"))
    go_on = threading.Event()
    worker = run(lambda messages: go_on.wait(20) and None)
    until(lambda: worker.in_flight)
    worker.stop(0.05)
    stats = timeline.stats()
    assert (stats.new, stats.processing) == (1, 0)
    go_on.set()  # too late: it deletes nothing
    until(lambda: worker.totals.batches == 1)
    assert timeline.stats().new == 1


def test_the_order_of_its_life(timeline: Timeline) -> None:
    worker = Worker(timeline, Noted(), rate_limiter=None)
    with pytest.raises(ImproperOrderError, match="never started"):
        worker.stop()
    with worker:
        assert worker.life is Life.RUNNING
        assert not worker.wait(0)
        with pytest.raises(ImproperOrderError, match="this Worker is running"):
            worker.start()
    worker.stop()
    assert worker.wait()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeline": "redis://"}, "timeline must be a Timeline"),
        ({"handler": "nowhere"}, "handler must be"),
        ({"rate_limiter": 5}, "rate_limiter must be"),
        ({"lease_time": 0}, "lease_time"),
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_operation_time": -1}, "max_operation_time"),
        ({"drain_time": -1}, "drain_time"),
        ({"cost": ""}, "cost"),
        ({"retry": 3}, "retry"),
        ({"consumer_id": ""}, "consumer_id"),
    ],
)
def test_bad_values_are_refused_by_name(
    timeline: Timeline, options: dict[str, Any], said: str
) -> None:
    given = {"timeline": timeline, "handler": Noted(), "rate_limiter": None, **options}
    with pytest.raises(ValueError, match=said):
        Worker(given.pop("timeline"), given.pop("handler"), **given)


def test_a_handler_that_does_not_import_says_why(timeline: Timeline) -> None:
    with pytest.raises(HandlerError, match="No module named 'nowhere'"):
        Worker(timeline, "nowhere:at_all", rate_limiter=None)
