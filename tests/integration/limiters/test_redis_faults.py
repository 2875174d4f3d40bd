"""For any fault of a Redis, the error names the fault and what to do."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from limiters import LeaseManagerError, RedisLeaseManager
from limiters._redis.script import of_source
from limiters.embedded import EmbeddedRedis
from limiters.leases import redis as module
from limiters.leases._format import UNITS
from limiters.leases._messages import Kind, Request, Terms
from limiters.leases._scripts import SYNC, keys_of
from limiters.leases.redis import NEEDS
from tests.servers.cluster import ClusterRedis
from tests.servers.ports import own_port
from tests.servers.sentinel import SentinelRedis
from tests.servers.tls import TlsRedis

TERMS = Terms.scalar(1000.0, 100.0, period=1_000, lease=20_000)


@contextmanager
def refused(url: str, complaint: str, **options: float) -> Iterator[None]:
    """Check that a sync through `url` fails with that complaint, about an address without
    secrets."""
    manager = RedisLeaseManager(url, name="limit", **options)  # type: ignore[arg-type]
    yield
    with pytest.raises(LeaseManagerError, match=complaint) as caught:
        manager.sync(Request.scalar("a", 1, TERMS, need=10.0))
    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith("Redis at " + manager._connection.where)
    manager.close()


def test_no_server_listens() -> None:
    with refused(f"redis://127.0.0.1:{own_port()}", "refuses connections; does it run"):
        pass


def test_no_such_host() -> None:
    with refused("redis://nowhere.invalid", "has a name that cannot be found"):
        pass


def test_no_such_socket(tmp_path: Path) -> None:
    with refused(f"unix://{tmp_path}/redis.sock", "is not there; does it run, with this path"):
        pass


def test_it_does_not_answer(own_redis: EmbeddedRedis) -> None:
    with refused(own_redis.url, "does not answer in time", timeout=0.1):
        own_redis.pause()
    own_redis.resume()


def test_password_is_missing_or_wrong() -> None:
    with EmbeddedRedis(password="secret") as server:
        place = f"127.0.0.1:{server.port}"
        with refused(f"redis://{place}", "asks for a password; put it into the URL"):
            pass
        with refused(f"redis://:wrong-secret@{place}", "does not accept the user and password"):
            pass
        with refused(f"redis://unknown:secret@{place}", "does not accept the user and password"):
            pass


def test_password_where_none_is_asked_for(shared_redis: EmbeddedRedis) -> None:
    url = f"redis://:secret@127.0.0.1:{shared_redis.port}"
    with refused(url, "does not accept the user and password"):
        pass


@pytest.mark.parametrize(
    "rules",
    ["+@all -evalsha ~*", "+@all -time ~*", "+@all -info ~*", "+@all -hset ~*", "+@all ~other*"],
)
def test_user_may_not_do_what_is_needed(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis], rules: str
) -> None:
    command = f"ACL SETUSER ann on >secret {rules}"
    admin: Any = connect(own_redis.url)
    admin.execute_command(*command.split())
    advice = "allow it: ACL SETUSER <name> " + NEEDS.rules("dispatcher")
    with refused(f"redis://ann:secret@127.0.0.1:{own_redis.port}", re.escape(advice)):
        pass


def test_user_who_may_do_what_the_advice_says_can_do_everything(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    command = f"ACL SETUSER ann on >secret {NEEDS.rules('dispatcher')}"
    admin: Any = connect(own_redis.url)
    admin.execute_command(*command.split())
    manager = RedisLeaseManager(f"redis://ann:secret@127.0.0.1:{own_redis.port}", name="limit")
    assert manager.set_terms(capacity=1_000, factor=100, period=1, lease_time=20)
    first = manager.sync(Request.scalar("a", 1, TERMS, need=1000.0))
    if first.kind is Kind.REFUSED:
        raise AssertionError("the terms are those that were set")
    half = UNITS // 2
    give = Request.scalar("a", 2, TERMS, units=half, released=half, history=((0, 1.0),), need=900.0)
    assert manager.sync(give).kind is Kind.ANSWER
    asks: Any = {"need": 1000.0, "ask": 900.0, "gathers": True, "valid": 100}
    born = manager.sync(Request.scalar("b", 1, TERMS, **asks)).born
    manager.sync(Request.scalar("a", 3, TERMS, leaving=True))
    manager.sync(Request.scalar("b", 2, TERMS, born=born, totals=(1.0,), label="b", **asks))
    assert manager.look() is not None
    assert manager.evict("b")
    assert manager.delete()
    manager.delete_old_format()
    manager.close()


def test_user_of_a_cluster_who_may_do_what_the_advice_says() -> None:
    with ClusterRedis() as cluster:
        url = cluster.nodes[0].url.replace("redis://", "redis+cluster://ann:secret@")[:-2]
        allow(cluster, NEEDS.rules("dispatcher"))
        with refused(url, re.escape(NEEDS.rules("dispatcher", cluster=True))):
            pass
        allow(cluster, NEEDS.rules("dispatcher", cluster=True))
        manager = RedisLeaseManager(url, name="limit")
        assert manager.set_terms(capacity=1_000, factor=100, period=1, lease_time=20)
        assert manager.sync(Request.scalar("a", 1, TERMS)).kind is Kind.CHALLENGE
        assert manager.delete()
        manager.close()


def allow(cluster: ClusterRedis, rules: str) -> None:
    for node in cluster.nodes:
        with Redis.from_url(node.url) as client:
            admin: Any = client
            admin.execute_command(*f"ACL SETUSER ann on >secret {rules}".split())


def test_older_than_6_2(shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    older = SYNC.source.replace("'redis_version:([%w.]+)')", "'r(e)d') and '6.0.16'")
    assert older != SYNC.source
    monkeypatch.setattr(module, "SYNC", of_source(older))
    with refused(shared_redis.url, "is version 6.0.16; 6.2 or newer is needed"):
        pass
    with Redis.from_url(shared_redis.url) as client:
        assert not client.exists(*keys_of("dispatcher", "limit")[:3])


def test_read_only_replica(
    own_redis: EmbeddedRedis, shared_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    connect(own_redis.url).replicaof("127.0.0.1", shared_redis.port)
    with refused(own_redis.url, "is a read-only replica; name the master"):
        pass


def test_no_memory_left(own_redis: EmbeddedRedis, connect: Callable[[str], Redis]) -> None:
    connect(own_redis.url).config_set("maxmemory", "1")
    with refused(own_redis.url, "has no memory left; .* CONFIG SET maxmemory"):
        pass


def test_too_few_replicas(own_redis: EmbeddedRedis, connect: Callable[[str], Redis]) -> None:
    connect(own_redis.url).config_set("min-replicas-to-write", "1")
    with refused(own_redis.url, r"has too few replicas to write \(min-replicas-to-write\)"):
        pass


def test_a_plain_server_taken_for_a_sentinel(shared_redis: EmbeddedRedis) -> None:
    place = f"127.0.0.1:{shared_redis.port}"
    with refused(f"redis+sentinel://{place}/service", "is no Sentinel; use redis://"):
        pass


def test_something_that_is_no_redis() -> None:
    def answer() -> None:
        with server.accept()[0] as connection:
            connection.recv(1_000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        place = f"127.0.0.1:{server.getsockname()[1]}"
        with refused(f"redis://{place}", "is none: something else answers on that port"):
            pass


def test_it_cannot_save(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis], tmp_path: Path
) -> None:
    client: Any = connect(own_redis.url)
    client.config_set("save", "900 1")
    client.set("dispatcher", "x" * 10)
    with refused(own_redis.url, "refuses writes since it cannot save"):
        # A directory in the place of the file: no user can write to it.
        folder = Path(client.config_get("dir")["dir"]) / "dump.rdb"
        folder.mkdir()
        (folder / "x").touch()
        client.bgsave()
        while client.info("persistence")["rdb_bgsave_in_progress"]:
            pass
        assert client.info("persistence")["rdb_last_bgsave_status"] == "err"


def test_wrong_type_of_key(shared_redis: EmbeddedRedis, connect: Callable[[str], Redis]) -> None:
    connect(shared_redis.url).set(keys_of("dispatcher", "limit")[0], "x")
    key = re.escape("dispatcher:limits:{limit}:limit")
    with refused(shared_redis.url, f"has something else under {key}; delete"):
        pass


def test_cluster_that_does_not_serve() -> None:
    with EmbeddedRedis(config=["cluster-enabled yes"]) as server:
        place = f"127.0.0.1:{server.port}"
        with refused(f"redis+cluster://{place}", "is a cluster that does not serve all slots"):
            pass
        # Valkey 9 looks first whether all keys are in one slot, and Redis whether it serves them.
        with refused(
            f"redis://{place}", "is (a cluster that does not serve all slots|one node of)"
        ):
            pass


def test_node_of_a_cluster_taken_for_a_single_server(cluster_redis: ClusterRedis) -> None:
    owner = cluster_redis.owner(keys_of("dispatcher", "limit")[0])
    other = next(node for node in cluster_redis.nodes if node is not owner)
    with refused(other.url, re.escape("is one node of a cluster; use redis+cluster://")):
        pass


def test_single_server_taken_for_a_cluster(shared_redis: EmbeddedRedis) -> None:
    url = f"redis+cluster://127.0.0.1:{shared_redis.port}"
    with refused(url, "is not a cluster; use redis://"):
        pass


def test_sentinels_that_have_no_such_master(sentinel_redis: SentinelRedis) -> None:
    url = sentinel_redis.url.replace(sentinel_redis.NAME, "other")
    with refused(url, "has no master at present; the Sentinels have none of that name"):
        pass


def test_no_sentinel_answers() -> None:
    url = f"redis+sentinel://127.0.0.1:{own_port()}/mymaster"
    with refused(url, "has no master at present"):
        pass


def test_certificate_of_an_authority_not_trusted(tls_redis: TlsRedis) -> None:
    with refused(tls_redis.url, "shows a certificate that is not trusted"):
        pass


def test_tls_where_there_is_none(shared_redis: EmbeddedRedis) -> None:
    url = f"rediss://127.0.0.1:{shared_redis.port}"
    with refused(url, "is TLS on both sides or on none", timeout=0.1):
        pass


def test_no_tls_where_it_is_asked_for(tls_redis: TlsRedis) -> None:
    with refused(
        tls_redis.url.replace("rediss", "redis"), "If it wants TLS, the URL begins with rediss://"
    ):
        pass
