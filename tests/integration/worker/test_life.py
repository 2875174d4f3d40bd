"""A Worker's life: what it is made of, its order, its end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dispatcher import ProvisionedResource
from dispatcher.errors import HandlerError, ImproperOrderError
from dispatcher.timeline import Message, Timeline
from dispatcher.worker import Life, Worker
from tests.integration.worker.handled import Made, Noted, create, many
from tests.waiting import until


def test_stopping_gives_back_immediately_what_has_not_begun_and_it_was_no_attempt(
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


def test_nothing_begins_while_a_redis_that_hangs_is_notified_of_the_stop(
    timeline: Timeline, run: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(timeline, *many(30))
    handler = Noted()
    worker = run(handler, rate_limiter=ProvisionedResource(10), max_batch_size=5)
    until(lambda: worker.totals.done and worker.waiting)
    begun: list[int] = []
    leave = worker.consumer.close

    def hang() -> None:
        until(lambda: not worker.in_flight)
        begun.append(len(handler.batches))
        until(lambda: worker.batcher.needs_capacity == 0)  # until all had their turn
        leave()

    monkeypatch.setattr(worker.consumer, "close", hang)
    worker.stop()
    assert begun == [len(handler.batches)]


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


def test_two_of_the_same_options_are_two(timeline: Timeline) -> None:
    handler = Noted()
    first, second = (Worker(timeline, handler, rate_limiter=None) for _ in range(2))
    assert first != second
    assert len({first, second}) == 2
    assert first.consumer.id != second.consumer.id


def test_a_limiter_that_cannot_start_leaves_it_as_it_was(timeline: Timeline) -> None:
    limiter = ProvisionedResource(10)
    limiter.start()
    limiter.stop()
    worker = Worker(timeline, Noted(), rate_limiter=limiter)
    for _ in range(2):
        with pytest.raises(ImproperOrderError, match="already started"):
            worker.start()
    assert worker.life is Life.NEW
    with pytest.raises(ImproperOrderError, match="never started"):
        worker.stop()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeline": "redis://"}, "timeline must be a Timeline"),
        ({"handler": "nowhere"}, "handler must be"),
        ({"rate_limiter": 5}, "rate_limiter must be"),
        ({"lease_time": 0}, "lease_time"),
        ({"lease_time": 1e12}, "lease_time must be at most ten years"),
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
