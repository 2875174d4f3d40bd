"""RedisLeaseManager: its arguments, its connection, and a Redis that loses its data."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from limiters import LeaseManagerError, RedisLeaseManager
from limiters._redis.client import RedisConnection
from limiters.embedded import EmbeddedRedis
from limiters.leases._format import UNITS
from limiters.leases._messages import Kind, Reply, Request, Terms, altered
from limiters.leases._scripts import keys_of
from tests.servers.proxy import Proxy
from tests.waiting import until

TERMS = Terms.scalar(1000.0, 100.0, period=1_000, lease=20_000)


def granted(manager: RedisLeaseManager) -> Reply:
    """Grant all of the limit to instance "a"."""
    reply = manager.sync(Request.scalar("a", 1, TERMS, need=1000.0))
    assert reply.units == UNITS
    return reply


def served(manager: RedisLeaseManager, request: Request) -> Reply:
    """Return the answer to a request. A challenge is answered first."""
    reply = manager.sync(request)
    if reply.kind is Kind.CHALLENGE:
        again = replace(request, seq=request.seq + 1, nonce=reply.nonce, ended=True)
        return manager.sync(again)
    return reply


def answers(manager: RedisLeaseManager) -> bool:
    try:
        manager.look()
    except LeaseManagerError:
        return False
    return True


# Its arguments.


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://x", "url_or_client must begin with one of redis://, .* not with 'http'"),
        ("localhost:6379", "url_or_client must begin with"),
        ("", "url_or_client must begin with"),
        (
            7,
            "must be a URL, a redis.Redis or a redis.RedisCluster, not a builtins.int",
        ),
        (AsyncRedis(), "not a redis.asyncio.client.Redis"),
        ("redis://:secret@x:port", "url_or_client must have ports from 1 to 65535"),
        ("redis://x:70000", "url_or_client must have ports from 1 to 65535"),
        ("redis://:1/secret@x", "url_or_client must have odd characters percent-encoded"),
        ("redis://:1?secret@x", "url_or_client must have odd characters percent-encoded"),
        ("unix://u:1/secret@/x", "url_or_client must have odd characters percent-encoded"),
        ("redis://[x", "url_or_client must be a URL"),
        ("redis://x/database", "url_or_client must have a number for its database"),
        ("redis://:secret@x?socket_timout=1", "must have options that redis-py .*socket_timout"),
        ("redis://x?socket_timeout=soon", "must have options that redis-py .*socket_timeout"),
        ("unix://", "url_or_client must name a socket"),
        ("redis+sentinel://x:1,y:2", "url_or_client must name the service"),
        ("redis+sentinel:///service", "url_or_client must name hosts"),
        ("redis+cluster://x:1,y:2/3", "url_or_client must have no database"),
        ("redis+cluster://,", "url_or_client must name hosts"),
    ],
)
def test_a_wrong_url_is_refused_immediately(url: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        RedisLeaseManager(url, name="x")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": ""}, "name must be a text that is not empty, not ''"),
        ({"name": 3}, "name must be a text"),
        ({"lease_time": 0}, "lease_time must be more than zero"),
        ({"lease_time": 0.002}, "lease_time must be from 0.2 to 86400 seconds, not 0.002"),
        ({"lease_time": 1e6}, "lease_time must be from 0.2 to 86400 seconds"),
        ({"timeout": -1}, "timeout must be more than zero"),
        ({"prefix": ""}, "prefix must be a text that is not empty"),
        ({"prefix": "a{}"}, "prefix must be without braces"),
    ],
)
def test_the_error_names_a_wrong_argument(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RedisLeaseManager("redis://x", **({"name": "x"} | arguments))


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:secret@h:1/2",
        "rediss://:secret@h:1",
        "unix://user:secret@/tmp/x?password=secret",
        "redis+sentinel://user:secret@h:1,i:2/s?sentinel_password=secret",
        "redis+cluster://user:secret@h:1,i:2",
    ],
)
def test_passwords_are_never_shown_and_nothing_is_sent_at_first(url: str) -> None:
    manager = RedisLeaseManager(url, name="limit")
    assert "secret" not in repr(manager) + repr(vars(manager))
    assert repr(manager).startswith("RedisLeaseManager('limit', at '" + url.partition(":")[0])


@pytest.mark.parametrize(("lease_time", "expected"), [(2.0, 0.5), (5.0, 1.0), (60.0, 1.0)])
def test_timeout_is_short(lease_time: float, expected: float) -> None:
    manager = RedisLeaseManager("redis://h", name="x", lease_time=lease_time, timeout=None)
    client = manager._connection.client()
    options = client.connection_pool.connection_kwargs
    assert options["socket_timeout"] == options["socket_connect_timeout"] == expected
    assert options["retry"]._retries == 0


def test_the_package_redis_is_imported_only_if_it_is_used() -> None:
    program = """
import sys
import dispatcher, limiters, limiters.leases
assert "redis" not in sys.modules
sys.modules["redis"] = None
try:
    limiters.RedisLeaseManager("redis://x", name="x")
except limiters.LimiterError as error:
    assert isinstance(error, ImportError)
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'batch-dispatcher[redis]'" in done.stdout


def test_limits_with_odd_names_are_separate(shared_redis: EmbeddedRedis) -> None:
    names = ["a", "a b", "{a}", "a%20b", "ä", "a\n", "a:limit", "}{", "a/b"]
    managers = [RedisLeaseManager(shared_redis.url, name=name) for name in names]
    for number, manager in enumerate(managers):
        manager.set_terms(capacity=number + 1.0, factor=1.0, period=1.0, lease_time=20.0)
    for number, manager in enumerate(managers):
        view = manager.look()
        assert view is not None
        assert view.terms.capacity == number + 1.0
        manager.close()


# Its connection.


def test_it_is_closed_and_can_be_used_again(shared_redis: EmbeddedRedis) -> None:
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    manager.close()
    assert manager.look() is None
    manager.close()
    manager.close()
    assert manager.look() is None
    manager.close()


def test_a_client_that_was_passed_stays_open_and_unchanged(shared_redis: EmbeddedRedis) -> None:
    with Redis.from_url(shared_redis.url, socket_timeout=3.0) as client:
        manager = RedisLeaseManager(client, name="limit")
        assert manager.look() is None
        (connection,) = client.connection_pool._available_connections
        manager.close()
        assert connection._sock is not None
        assert client.get_connection_kwargs()["socket_timeout"] == 3.0
        assert str(shared_redis.port) in repr(manager)


def test_scripts_that_the_server_forgot_are_sent_again(shared_redis: EmbeddedRedis) -> None:
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    with Redis.from_url(shared_redis.url) as client:
        for seq in range(1, 4):
            client.script_flush()
            assert manager.sync(Request.scalar("a", seq, TERMS)).kind is Kind.ANSWER
        assert client.info("commandstats")["cmdstat_eval"]["calls"] >= 3
    manager.close()


def test_a_sync_is_one_call(proxy: Proxy) -> None:
    manager = RedisLeaseManager(proxy.url, name="limit")
    manager.sync(Request.scalar("a", 1, TERMS))
    before = proxy.requests
    for seq in range(2, 12):
        manager.sync(Request.scalar("a", seq, TERMS, need=1000.0))
    assert (proxy.requests - before) == {"EVALSHA": 10}
    manager.close()


def test_c2_lost_reply_and_the_same_request_again(proxy: Proxy) -> None:
    manager = RedisLeaseManager(proxy.url, name="limit")
    born, half = granted(manager).born, UNITS // 2
    give = Request.scalar(
        "a", 2, TERMS, born=born, units=half, left=10, released=half, history=((0, 20.0),)
    )
    proxy.lose_next_reply("EVALSHA")
    with pytest.raises(LeaseManagerError):
        manager.sync(give)
    assert proxy.lost == 1
    assert manager.sync(give).units == half
    taken = manager.sync(Request.scalar("b", 1, TERMS, need=1000.0))
    assert taken.units == half
    assert sum(cost for _, cost in taken.given) == 20.0
    manager.close()


def test_a_call_ends_within_its_timeout(proxy: Proxy) -> None:
    manager = RedisLeaseManager(proxy.url, name="limit", timeout=0.1)
    until(lambda: answers(manager))
    proxy.drop_requests()
    asked = proxy.requests["EVALSHA"]
    with pytest.raises(LeaseManagerError, match="does not answer in time"):
        manager.look()
    until(lambda: proxy.requests["EVALSHA"] > asked)  # the proxy may be behind
    before = proxy.requests
    with pytest.raises(LeaseManagerError, match="does not answer in time"):
        manager.look()
    assert (proxy.requests - before).total() <= 3  # the commands of a new connection, and the call
    proxy.heal()
    until(lambda: answers(manager))
    manager.close()


def test_c7_it_connects_again_after_an_outage(proxy: Proxy) -> None:
    manager = RedisLeaseManager(proxy.url, name="limit")
    granted(manager)
    proxy.refuse()
    for _ in range(3):
        with pytest.raises(LeaseManagerError, match=r"refuses connections|cuts the connection"):
            manager.look()
    proxy.accept()
    assert answers(manager)
    view = manager.look()
    assert view is not None
    assert view.free == 0
    manager.close()


def test_many_threads_share_a_manager(shared_redis: EmbeddedRedis) -> None:
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    failures = []

    def ask(name: str) -> None:
        try:
            for seq in range(1, 30):
                assert manager.sync(Request.scalar(name, seq, TERMS, need=10.0)).kind is Kind.ANSWER
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(f"i{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    view = manager.look()
    assert view is not None
    assert len(view.instances) == 8
    manager.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_parent_and_child_use_a_manager_after_a_fork(shared_redis: EmbeddedRedis) -> None:
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    manager.sync(Request.scalar("parent", 1, TERMS))
    child = os.fork()
    if child == 0:
        try:
            for seq in range(1, 50):
                reply = manager.sync(Request.scalar("child", seq, TERMS))
            os._exit(0 if reply.instances == 2 else 1)
        finally:
            os._exit(2)
    for seq in range(2, 50):
        assert manager.sync(Request.scalar("parent", seq, TERMS)).kind is Kind.ANSWER
    assert os.waitpid(child, 0)[1] == 0
    manager.close()


# A Redis that loses its data.


def test_c8_on_a_server_without_a_registry_nothing_is_granted_for_a_while(
    shared_redis: EmbeddedRedis,
) -> None:
    with Redis.from_url(shared_redis.url) as client:
        client.flushall()
    manager = RedisLeaseManager(shared_redis.url, name="limit")
    reply = served(manager, Request.scalar("a", 1, TERMS, need=1000.0))
    assert (reply.units, reply.certain) == (0, False)
    assert 20_000 < reply.uncertain <= TERMS.span
    manager.close()


@pytest.mark.parametrize("forget", ["flushed", "killed and empty", "killed and back"])
def test_c8_after_a_loss_of_data_only_leases_claimed_with_the_nonce_are_kept(forget: str) -> None:
    with EmbeddedRedis(appendonly=True) as server:
        manager = RedisLeaseManager(server.url, name="limit")
        had = granted(manager)
        if forget == "flushed":
            with Redis.from_url(server.url) as client:
                client.flushall()
        else:
            server.restart(empty=forget == "killed and empty")
            until(lambda: answers(manager))
        other = served(manager, Request.scalar("b", 1, TERMS, need=1000.0))
        assert (other.units, other.given, other.certain) == (0, (), False)
        claim = Request.scalar(
            "a", 2, TERMS, born=had.born, server=had.server, units=UNITS // 2, left=9_000, need=1e3
        )
        assert manager.sync(claim).kind is Kind.CHALLENGE
        assert served(manager, claim).units == UNITS // 2
        greedy = altered(claim, instance="c", units=UNITS, born=0)
        assert served(manager, greedy).units == UNITS // 2, "as much as there is left"
        late = replace(claim, instance="d", left=0, born=0)
        assert served(manager, late).units == 0
        manager.close()


def test_only_the_documented_keys_are_stored(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    manager = RedisLeaseManager(own_redis.url, name="limit")
    granted(manager)
    manager.sync(
        Request.scalar("a", 2, TERMS, released=UNITS, history=((0, 1.0),), ask=1.0, label="a")
    )
    stored = set(connect(own_redis.url).scan_iter())
    assert stored <= {key.encode() for key in keys_of("dispatcher", "limit")}
    assert manager.delete()
    limit = keys_of("dispatcher", "limit")[0]
    assert connect(own_redis.url).pttl(limit) > 0, "an instance may claim its lease for a while"
    manager.close()


def test_prefix_stands_before_every_key(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    client = connect(own_redis.url)
    client.flushall()
    manager = RedisLeaseManager(own_redis.url, name="limit", prefix="mine")
    manager.sync(Request.scalar("a", 1, TERMS, need=10.0))
    stored = set(client.scan_iter())
    assert stored
    assert all(key.startswith(b"mine:") for key in stored)
    manager.close()


def test_a_closed_manager_holds_no_connection(own_redis: EmbeddedRedis) -> None:
    with Redis.from_url(own_redis.url) as client:
        before = len(client.client_list())
        manager = RedisLeaseManager(own_redis.url, name="orders")
        manager.look()
        assert len(client.client_list()) == before + 1
        manager.close()
        until(lambda: len(client.client_list()) == before)
        manager.close()


def test_threads_that_call_at_the_same_time_use_one_client(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=20)
    make = RedisConnection._make

    def made(connection: RedisConnection, url: Any) -> Any:
        both.wait()
        return make(connection, url)

    monkeypatch.setattr(RedisConnection, "_make", made)
    connection = RedisConnection(shared_redis.url, timeout=1.0)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: connection.client(), range(2))
    assert one is other is connection.client()
    connection.close()
