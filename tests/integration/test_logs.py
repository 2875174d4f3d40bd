"""Redis away, and back: two lines each, however often it was asked meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing

import pytest

from dispatcher.metrics.cluster import ClusterCollector
from dispatcher.timeline import Timeline
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.servers import wait_until
from tests.servers.proxy import Proxy
from tests.waiting import LONG

TALKATIVE = {
    "dispatcher.metrics.cluster",
    "dispatcher.timeline.consumer",
    "limiters.announcements",
}


def test_c7_redis_away_is_a_line_and_redis_back_another(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(shared_redis) as network:
        # Nobody waits that long: a connection that is refused or cut is heard of at once.
        manager = RedisLeaseManager(network.url, name="orders", lease_time=2, timeout=LONG)
        limiter = SharedResource(
            shared_capacity=1_000, factor=10, lease_manager=manager, max_interval=0.1, period=0.1
        )
        consumer = Timeline(network.url, "jobs", timeout=LONG).consumer("worker")
        collector = ClusterCollector(network.url, timeout=LONG)
        working = threading.Thread(target=lambda: consumer.subscribe(print, for_=1.0))
        with limiter, closing(collector):
            limiter.give_me(500)
            wait_until(lambda: limiter.capacity > 0)
            working.start()
            wait_until(lambda: consumer.buckets)
            collector.read()
            network.refuse()
            failures = limiter.standing().sync_failures
            while limiter.standing().sync_failures < failures + 15:
                collector.read()
            network.accept()
            wait_until(lambda: limiter.standing().connected)
            collector.read()
            consumer.close()
            working.join()
    told = Counter(
        (it.name, vars(it)["happening"]) for it in caplog.records if it.name in TALKATIVE
    )
    assert told["limiters.announcements", "leases-back"] == 1
    assert told["dispatcher.metrics.cluster", "redis-away"] == 1
    assert told["dispatcher.metrics.cluster", "redis-back"] == 1
    assert told["dispatcher.timeline.consumer", "redis-away"] <= 1
    # A connection that is cut says something else than one that is refused.
    assert 1 <= told["limiters.announcements", "leases-away"] <= 3
    assert sum(told.values()) <= 9, told
