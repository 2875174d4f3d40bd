"""A Worker while Redis is away, or its own code is broken."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from redis import Redis

from dispatcher.timeline import BucketCountError, Message, Timeline
from dispatcher.worker import Life, Worker, WorkerFailedError
from dispatcher.worker import worker as worker_module
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.integration.worker.handled import Made, Noted, create, many
from tests.servers.proxy import Proxy
from tests.waiting import until


def test_redis_away_is_logged_once_and_it_comes_back(
    proxy: Proxy, run: Made, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = Timeline(proxy.url, "work", timeout=5)
    worker = run(Noted(), timeline=timeline)
    until(lambda: worker.unready() == "")
    proxy.refuse()
    until(lambda: worker.unready() == "Redis does not answer")
    assert worker.trouble() == "", "a restart would not help"
    proxy.accept()
    until(lambda: worker.unready() == "")
    create(timeline, Message("x"))
    until(lambda: worker.totals.done == 1)
    said = [record.message for record in caplog.records if "waits for Redis" in record.message]
    assert len(said) == 1
    timeline.close()


def test_what_ended_while_redis_was_away_is_settled_when_it_is_back(
    proxy: Proxy, run: Made
) -> None:
    timeline = Timeline(proxy.url, "work", timeout=5)
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


def test_it_stays_listed_while_all_its_slots_are_taken(
    shared_redis: EmbeddedRedis, timeline: Timeline, run: Made
) -> None:
    """Otherwise "no consumer is running" would be shown for a topic whose workers are all busy."""
    go_on = threading.Event()
    create(timeline, *many(10))
    options = {"max_batch_size": 1, "concurrency": 2}
    worker = run(lambda messages: go_on.wait(60) and None, **options)
    until(lambda: worker.in_flight == 2)
    with Redis.from_url(shared_redis.url) as client:
        before = client.zscore(timeline._topic.layout.members, worker.consumer.id)
        assert before is not None
        until(lambda: (_listed_until(client, timeline, worker) or 0) > before + 3_000, within=30)
    assert timeline.stats().consumers == 1
    go_on.set()
    worker.stop()
    assert timeline.stats().consumers == 0


def test_it_is_not_ready_while_redis_is_away_and_all_its_slots_are_taken(
    proxy: Proxy, run: Made, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = Timeline(proxy.url, "work", timeout=5)
    go_on = threading.Event()
    create(timeline, *many(2))
    options = {"max_batch_size": 1, "concurrency": 2}
    worker = run(lambda messages: go_on.wait(60) and None, timeline=timeline, **options)
    until(lambda: worker.in_flight == 2 and worker.unready() == "")
    proxy.refuse()
    until(lambda: worker.unready() == "Redis does not answer", within=30)
    proxy.accept()
    until(lambda: worker.unready() == "", within=30)
    go_on.set()
    until(lambda: worker.totals.done == 2)
    happenings = [vars(it).get("happening", "") for it in caplog.records]
    about_redis = [one for one in happenings if one.startswith("redis-")]
    assert about_redis == ["redis-away", "redis-back"]
    timeline.close()


def _listed_until(client: Redis, timeline: Timeline, worker: Worker) -> float | None:
    return client.zscore(timeline._topic.layout.members, worker.consumer.id)


def test_t11_it_ends_when_its_topic_is_created_again_with_other_buckets(
    shared_redis: EmbeddedRedis, timeline: Timeline, run: Made
) -> None:
    """Rather than serve none of its messages, and say nothing."""
    worker = run(Noted())
    until(lambda: worker.unready() == "")
    with Redis.from_url(shared_redis.url) as client:
        client.pipeline().flushall().hset(timeline._topic.layout.settings, "buckets", 64).execute()
    with pytest.raises(WorkerFailedError, match="was created with 64") as raised:
        worker.run()
    assert isinstance(raised.value.error, BucketCountError)
    assert "BucketCountError" in worker.trouble()


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


@pytest.mark.parametrize(("thread", "part"), [("_keeper", "_extend"), ("_settler", "_gather")])
def test_an_error_of_its_other_threads_ends_it_too(
    timeline: Timeline, run: Made, thread: str, part: str
) -> None:
    worker = run(Noted())

    def broken(*given: object) -> None:
        raise RuntimeError("a defect")

    setattr(getattr(worker, thread), part, broken)
    with pytest.raises(WorkerFailedError, match="a defect"):
        worker.wait(20)


def test_a_batcher_that_ended_by_itself_ends_it(timeline: Timeline, run: Made) -> None:
    worker = run(Noted())
    worker.batcher.stop(drain=False)
    with pytest.raises(WorkerFailedError, match="the Batcher has ended by itself"):
        worker.wait(20)


def test_one_whose_limit_alone_is_refused_is_not_ready_and_never_says_that_it_goes_on(
    shared_redis: EmbeddedRedis, timeline: Timeline, run: Made, caplog: pytest.LogCaptureFixture
) -> None:
    manager = RedisLeaseManager(shared_redis.url, name="orders", lease_time=1)
    limiter = SharedResource(shared_capacity=100, lease_manager=manager, max_interval=0.1)
    key = "dispatcher:limits:{orders}:limit"
    with Redis.from_url(shared_redis.url) as client:
        client.set(key, "something else")
        create(timeline, *many(3))
        worker = run(Noted(), rate_limiter=limiter)
        until(lambda: "its limit 'orders' is not served" in worker.unready())
        assert key in worker.unready()
        assert worker.trouble() == "", "a restart would not help"
        until(lambda: worker.consumer.reachable)
        client.delete(key)
        until(lambda: worker.totals.done == 3, within=30)
        assert worker.unready() == ""
    told = [vars(it)["happening"] for it in caplog.records]
    assert told[0] == "leases-away"
    assert "leases-back" in told
    assert not [it for it in told if it.startswith("redis-")]
    worker.stop(0)
    manager.close()


def test_one_that_ends_while_redis_is_away_says_what_could_not_be_settled(
    proxy: Proxy, run: Made, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "SETTLE_TIME", 1.0)
    timeline = Timeline(proxy.url, "work", timeout=5)
    go_on = threading.Event()
    create(timeline, Message("x"))
    worker = run(lambda messages: go_on.wait(60) and None, timeline=timeline)
    until(lambda: worker.in_flight == 1)
    proxy.refuse()
    go_on.set()
    worker.stop()
    [record] = [it for it in caplog.records if vars(it)["happening"] == "not-settled"]
    assert vars(record)["messages"] == 1
    assert "and 1 that the handler has done with" in record.message
    timeline.close()
