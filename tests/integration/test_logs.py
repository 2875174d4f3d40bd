"""Redis away, and back: two lines each, however often it was asked meanwhile."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextlib import closing

import pytest

from dispatcher.metrics._cluster.cluster import ClusterCollector
from dispatcher.timeline import Message, Timeline
from dispatcher.worker import Worker
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.servers.proxy import Proxy
from tests.waiting import LONG, until

TALKATIVE = {
    "dispatcher.metrics._cluster.cluster",
    "dispatcher.timeline.consumer",
    "limiters._sharing.share_events",
}


def test_c7_redis_away_is_a_line_and_redis_back_another(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(shared_redis) as network:
        # No test waits that long: a connection that is refused or cut is noticed immediately.
        manager = RedisLeaseManager(network.url, name="orders", lease_time=2, timeout=LONG)
        limiter = SharedResource(
            shared_capacity=1_000, factor=10, lease_manager=manager, max_interval=0.1, period=0.1
        )
        consumer = Timeline(network.url, "jobs", timeout=LONG).consumer("worker")
        collector = ClusterCollector(network.url, timeout=LONG)
        working = threading.Thread(target=lambda: consumer.subscribe(print, for_=1.0))
        with limiter, closing(collector):
            limiter.give_me(500)
            until(lambda: limiter.capacity > 0)
            working.start()
            until(lambda: consumer.buckets)
            collector.read()
            network.refuse()
            failures = limiter.standing().sync_failures
            while limiter.standing().sync_failures < failures + 15:
                collector.read()
            network.accept()
            until(lambda: limiter.standing().connected)
            collector.read()
            consumer.close()
            working.join()
    told = Counter(vars(it)["happening"] for it in caplog.records)
    assert told["redis-away"] + told["leases-away"] == 1, told
    assert told["redis-back"] + told["leases-back"] == 1, told
    assert told.total() <= 4, told


def test_c7_a_worker_with_a_limit_says_once_that_redis_is_away(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with Proxy(shared_redis) as network:
        timeline = Timeline(network.url, "work", timeout=LONG)
        manager = RedisLeaseManager(network.url, name="work", lease_time=2, timeout=LONG)
        limiter = SharedResource(
            shared_capacity=1_000,
            factor=10,
            lease_manager=manager,
            max_interval=0.1,
            period=0.1,
        )
        go_on = threading.Event()
        worker = Worker(
            timeline,
            lambda messages: go_on.wait(LONG) and None,
            rate_limiter=limiter,
            max_batch_size=1,
            lease_time=30,
        )
        producer = timeline.producer("us")
        with worker:
            producer.create([Message(number) for number in range(4)])
            until(lambda: worker.in_flight == 4)
            network.refuse()
            limiter.give_me(500)  # so that it asks
            go_on.set()  # so that there is something to settle
            until(lambda: len(who_said(caplog, "away")) >= 3)
            network.accept()
            until(lambda: worker.totals.done == 4 and worker.unready() == "")
            until(lambda: limiter.standing().connected)
            limiter.give_me(0)
        timeline.close()
        manager.close()
    loud = [it for it in caplog.records if it.levelno >= logging.WARNING]
    told = Counter(vars(it)["happening"] for it in loud)
    assert told["redis-away"] + told["leases-away"] == 1, told
    assert told["redis-back"] + told["leases-back"] == 1, told
    assert {"share_events", "_settling"} <= who_said(caplog, "away")


def who_said(caplog: pytest.LogCaptureFixture, what: str) -> set[str]:
    """The modules that have logged, at any level, that Redis is away, or back."""
    return {
        it.module
        for it in caplog.records
        if str(vars(it).get("happening", "")).endswith(f"-{what}")
    }
