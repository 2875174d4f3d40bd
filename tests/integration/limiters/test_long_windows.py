"""A window of a day: what was spent counts after a restart of all processes. If it is not known how
much was spent, nothing new is granted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from redis import Redis

from limiters import Limits, RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis

A_DAY = Limits.parse("requests=100/1d:burst=100,calls=3slots:max_operation_time=2s")


@contextmanager
def process(url: str) -> Iterator[SharedResource]:
    with (
        closing(RedisLeaseManager(url, name="daily", lease_time=1)) as manager,
        SharedResource(shared_capacity=A_DAY, lease_manager=manager, max_interval=0.25) as made,
    ):
        yield made


def test_c1_spending_of_today_counts_for_later_processes() -> None:
    with EmbeddedRedis() as server:
        with process(server.url) as first:
            assert first.acquire({"requests": 60}, timeout=30)
        with process(server.url) as second:
            assert second.acquire({"requests": 40}, timeout=30)
            assert not second.acquire({"requests": 1}, timeout=1)


def test_c8_after_redis_has_lost_its_data_nothing_is_granted_for_a_day() -> None:
    with EmbeddedRedis() as server:
        with process(server.url) as first:
            assert first.acquire({"requests": 60}, timeout=30)
        with closing(Redis.from_url(server.url)) as client:
            client.flushall()
        with process(server.url) as second:
            second.give_me({"requests": 1})
            assert second.wait_until_provisioned(30) > 86_000
            assert not second.acquire({"requests": 1}, timeout=1)
