"""The state of the Redis behind a shared limit, as callers and listeners see it: laws C7 and C8."""

from __future__ import annotations

import struct
import threading
from dataclasses import replace

import pytest
from redis import Redis

from limiters import (
    ImproperOrderError,
    LeaseManagerError,
    LimiterStoppedError,
    MemoryLeaseManager,
    RedisLeaseManager,
    SharedResource,
)
from limiters.embedded import EmbeddedRedis
from limiters.leases import LimitView
from limiters.leases._format import FORMAT, HEADER
from limiters.leases._messages import Reply, Request
from limiters.leases._scripts import keys_of
from limiters.testing import ManualClock
from tests.driven import Driven, Scripted
from tests.waiting import LONG, Heard, until


class Silent(MemoryLeaseManager):
    """A lease manager that answers when the test sets `answer`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()

    def sync(self, request: Request) -> Reply:
        self.asked.set()
        assert self.answer.wait(LONG)
        return super().sync(request)


def shared(manager: MemoryLeaseManager | RedisLeaseManager) -> SharedResource:
    return SharedResource(shared_capacity=100, factor=10, lease_manager=manager)


def view_of(manager: RedisLeaseManager) -> LimitView:
    view = manager.look()
    assert view is not None
    return view


def test_c7_waiting_for_the_start_raises_what_redis_refused(shared_redis: EmbeddedRedis) -> None:
    with Redis.from_url(shared_redis.url) as client:
        client.execute_command("ACL", "SETUSER", "guest", "on", ">secret", "+ping", "+hello")
    url = shared_redis.url.replace("redis://", "redis://guest:secret@")
    manager = RedisLeaseManager(url, name="limit")
    limiter = shared(manager)
    heard = Heard(limiter)
    with limiter:
        heard.wait_for("disconnected")
        with pytest.raises(LeaseManagerError, match="ACL SETUSER") as caught:
            limiter.wait_until_provisioned(timeout=0)
        assert "secret" not in str(caught.value)
    manager.close()


def test_c8_waiting_for_the_start_returns_when_the_limit_can_grant(
    shared_redis: EmbeddedRedis,
) -> None:
    with Redis.from_url(shared_redis.url) as client:
        client.flushall()  # so that the server may have been used before
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    with shared(manager) as limiter:
        assert limiter.wait_until_provisioned(timeout=LONG) == pytest.approx(6.0, abs=2.0)
    manager.close()


@pytest.mark.parametrize("format_number", [1, FORMAT + 1])
def test_c11_data_of_another_version_is_refused_with_advice(
    shared_redis: EmbeddedRedis, format_number: int
) -> None:
    with Redis.from_url(shared_redis.url) as client:
        limit, *_, old, registry = keys_of("dispatcher", "limit")
        assert client.exists(registry)
        if format_number == 1:
            client.hset(old, "terms", "as it was")
        else:
            header = struct.pack("<d", format_number) + bytes(8 * (len(HEADER) - 1))
            client.hset(limit, "header", header)
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    limiter = shared(manager)
    heard = Heard(limiter)
    with limiter:
        text = heard.wait_for("error").message
        assert f"in format {format_number}" in text
        assert f"this version needs format {FORMAT}" in text
        if format_number == 1:
            assert "dispatcher limit delete limit --old-format" in text
        assert limiter.capacity == 0
    manager.close()


def test_c12_waiting_for_the_start_of_a_new_limit_returns_immediately(
    shared_redis: EmbeddedRedis,
) -> None:
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    with shared(manager) as limiter:
        assert limiter.wait_until_provisioned(timeout=LONG) == 0
        assert limiter.acquire(10, LONG)
    manager.close()


def test_waiting_for_the_start_lasts_until_there_is_an_answer() -> None:
    manager = Silent()
    limiter = shared(manager)
    with pytest.raises(ImproperOrderError, match=r"start\(\)"):
        limiter.wait_until_provisioned()
    with limiter:
        assert manager.asked.wait(LONG)
        with pytest.raises(LeaseManagerError, match="not answered within 0"):
            limiter.wait_until_provisioned(timeout=0)
        manager.answer.set()
        assert limiter.wait_until_provisioned(timeout=LONG) == 0
    alone = SharedResource(reserved_capacity=5)
    with alone:
        assert alone.wait_until_provisioned(timeout=0) == 0


def test_a_limiter_that_is_stopped_ends_the_wait_for_its_start() -> None:
    manager = Silent()
    limiter = shared(manager)
    limiter.start()
    assert manager.asked.wait(LONG)
    ended: list[object] = []

    def wait() -> None:
        try:
            ended.append(limiter.wait_until_provisioned(timeout=LONG))
        except LimiterStoppedError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    limiter._provisioning.end()
    thread.join(LONG)
    manager.answer.set()
    limiter.stop()
    [error] = ended
    assert isinstance(error, LimiterStoppedError)


def test_c8_after_a_loss_of_data_an_event_says_when_the_limit_can_grant() -> None:
    with EmbeddedRedis() as server:
        manager = RedisLeaseManager(server.url, name="limit", lease_time=1)
        limiter = SharedResource(
            shared_capacity=100, factor=10, lease_manager=manager, max_interval=0.1, period=0.3
        )
        heard = Heard(limiter)
        with limiter:
            limiter.give_me(100)
            heard.wait_for("capacity", value=100)
            assert heard.of("provision-done") == [0.0]
            server.restart(empty=True)
            assert heard.wait_for("provision-done", times=2).value > 0
            until(lambda: not view_of(manager).uncertain_ms)
            limiter.give_me(0)
        heard.wait_for("shutdown")
        assert heard.names.count("provision-done") == 2
        manager.close()


def test_c8_there_is_one_event_for_each_loss_of_data() -> None:
    clock = ManualClock(100.0)
    manager = Scripted(clock)
    driven = Driven(manager=manager, clock=clock)
    heard = Heard(driven.limiter)
    driven.give_me(100)
    for lost in (1, 2):
        manager.change = lambda request, reply: replace(reply, uncertain=1_500)
        driven.run(0.6)
        heard.wait_for("provision-done", value=1.5, times=lost)
        manager.change = lambda request, reply: reply
        driven.run(0.6)
    driven.limiter.give_me(50)
    heard.wait_for("target", value=50)  # after all events before it
    assert heard.of("provision-done") == [0.0, 1.5, 1.5]
