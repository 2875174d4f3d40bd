"""The bad network fails on request, and only so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from limiters.embedded import EmbeddedRedis
from tests.servers.proxy import Proxy
from tests.servers.tls import Certificates
from tests.waiting import until

# redis-py sends INCRBY for incr(), and DECRBY for decr().


def client_of(url: str, **options: object) -> Redis:
    once = Retry(NoBackoff(), 0)
    return Redis.from_url(url, retry=once, socket_timeout=60, **options)


@pytest.fixture
def direct(shared_redis: EmbeddedRedis) -> Iterator[Redis]:
    with client_of(shared_redis.url) as client:
        yield client


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Redis]:
    with client_of(proxy.url) as made:
        yield made


def test_without_a_fault_nothing_changes(client: Redis, proxy: Proxy) -> None:
    big = b"\r\n$5\r\n" * 100_000
    assert client.set("k", big)
    assert client.get("k") == big
    with client.pipeline(transaction=True) as pipeline:
        pipeline.incr("n")
        pipeline.incr("n")
        assert pipeline.execute() == [1, 2]
    assert proxy.lost == 0


def test_it_counts_requests_by_command(client: Redis, proxy: Proxy) -> None:
    for _ in range(3):
        client.incr("n")
    client.get("n")
    assert proxy.requests["INCRBY"] == 3
    assert proxy.requests["GET"] == 1
    assert proxy.requests["SET"] == 0


def test_a_reply_is_lost_after_the_request_was_carried_out(
    client: Redis, proxy: Proxy, direct: Redis
) -> None:
    proxy.lose_next_reply("INCRBY")
    assert client.get("n") is None
    with pytest.raises(redis_errors.ConnectionError):
        client.incr("n")
    assert direct.get("n") == b"1"
    assert proxy.lost == 1
    assert client.incr("n") == 2


def test_of_many_on_one_connection_it_is_the_right_reply_that_is_lost(
    client: Redis, proxy: Proxy, direct: Redis
) -> None:
    proxy.lose_next_reply("DECRBY")
    with client.pipeline(transaction=False) as pipeline:
        pipeline.incr("a")
        pipeline.decr("b")
        pipeline.incr("c")
        with pytest.raises(redis_errors.ConnectionError):
            pipeline.execute()
    until(lambda: direct.mget("a", "b", "c") == [b"1", b"-1", b"1"])


def test_any_next_reply_may_be_the_one(client: Redis, proxy: Proxy) -> None:
    client.ping()
    proxy.lose_next_reply()
    with pytest.raises(redis_errors.ConnectionError):
        client.ping()
    assert client.ping()


def test_a_delayed_reply_comes_when_the_delay_ends(client: Redis, proxy: Proxy) -> None:
    proxy.delay_replies(0.1, "INCRBY")
    started = time.monotonic()
    assert client.incr("n") == 1
    assert time.monotonic() - started >= 0.1


def test_dropped_requests_are_neither_done_nor_answered(
    client: Redis, proxy: Proxy, direct: Redis
) -> None:
    proxy.drop_requests("INCRBY")
    with ThreadPoolExecutor() as pool:
        reply = pool.submit(client.incr, "n")
        until(lambda: proxy.requests["INCRBY"])
        assert client.ping()
        assert direct.get("n") is None
        proxy.heal()
        assert client.incr("n") == 1
        assert not reply.done()
        proxy.cut()
        with pytest.raises(redis_errors.ConnectionError):
            reply.result()


def test_bytes_in_replies_are_rewritten(client: Redis, proxy: Proxy, direct: Redis) -> None:
    client.set("k", "a short tale")
    proxy.rewrite_replies(b"short", b"grand")
    assert client.get("k") == b"a grand tale"
    assert direct.get("k") == b"a short tale"
    with pytest.raises(ValueError, match="as long as"):
        proxy.rewrite_replies(b"short", b"long")


def test_refused_until_accepted_on_the_same_port(client: Redis, proxy: Proxy) -> None:
    client.ping()
    proxy.refuse()
    for _ in range(3):
        with pytest.raises(redis_errors.ConnectionError):
            client.ping()
    proxy.refuse()
    proxy.accept()
    proxy.accept()
    assert client.ping()


def test_cut_and_immediately_accepted_again(client: Redis, proxy: Proxy) -> None:
    client.ping()
    proxy.delay_replies(60, "INCRBY")
    with ThreadPoolExecutor() as pool:
        reply = pool.submit(client.incr, "n")
        until(lambda: proxy.requests["INCRBY"])
        proxy.cut()
        with pytest.raises(redis_errors.ConnectionError):
            reply.result()
    assert client.ping()


def test_when_the_server_is_down_connections_end(own_redis: EmbeddedRedis) -> None:
    with Proxy(own_redis) as proxy, client_of(proxy.url) as client:
        client.ping()
        own_redis.kill()
        for _ in range(3):
            with pytest.raises(redis_errors.ConnectionError):
                client.ping()
        own_redis.start()
        assert client.ping()


def test_many_threads(proxy: Proxy) -> None:
    def work(number: int) -> None:
        with client_of(proxy.url) as client:
            for _ in range(50):
                client.incr("n")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert proxy.requests["INCRBY"] == 400
    with client_of(proxy.url) as client:
        assert client.get("n") == b"400"


def test_it_can_speak_tls_for_a_server_that_cannot(
    shared_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path)
    with (
        Proxy(shared_redis, tls=certificates.context()) as proxy,
        client_of(proxy.url, ssl_ca_certs=str(certificates.authority)) as client,
    ):
        assert proxy.url.startswith("rediss://")
        proxy.lose_next_reply("INCRBY")
        with pytest.raises(redis_errors.ConnectionError):
            client.incr("n")
        assert client.get("n") == b"1"
