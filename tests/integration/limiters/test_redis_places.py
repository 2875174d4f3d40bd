"""The leases of a limit in every kind of Redis: a socket, TLS, Sentinel, Cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis import RedisCluster, Sentinel

from limiters import LeaseManagerError, RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases._messages import Kind, Reply, Request, Terms
from limiters.leases._scripts import keys_of
from tests.servers.cluster import ClusterRedis
from tests.servers.sentinel import SentinelRedis
from tests.servers.tls import TlsRedis
from tests.waiting import until

TERMS = Terms.scalar(1000.0, 100.0, period=1_000, lease=20_000)


def serves(manager: RedisLeaseManager, instance: str = "a") -> Reply:
    """Make every call of a manager. Return the first grant of an instance, or its claim if the
    server does not know whether leases are in use."""
    assert manager.set_terms(capacity=1_000, factor=100, period=1, lease_time=20)
    reply = manager.sync(Request.scalar(instance, 1, TERMS, need=1000.0))
    if reply.kind is Kind.CHALLENGE:
        claim = Request.scalar(
            instance, 2, TERMS, nonce=reply.nonce, ended=True, units=5, left=9_000
        )
        reply = manager.sync(claim)
        assert not reply.certain
    assert reply.units
    view = manager.look()
    assert view is not None
    assert [one.instance for one in view.instances] == [instance]
    assert manager.evict(instance)
    assert manager.delete()
    assert manager.look() is None
    return reply


def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with EmbeddedRedis(config=[f"unixsocket {path}"]):
        for database in (0, 1):
            manager = RedisLeaseManager(f"unix://{path}?db={database}", name="limit")
            # Each database has a registry of its own, and the first one is marked as new.
            assert serves(manager).certain == (database == 0)
            manager.close()


def test_a_password_with_odd_characters() -> None:
    with EmbeddedRedis(password="p@ss:/? word") as server:
        manager = RedisLeaseManager(server.url, name="limit")
        serves(manager)
        manager.close()


def test_tls(tls_redis: TlsRedis) -> None:
    url = f"{tls_redis.url}?ssl_ca_certs={tls_redis.authority}"
    manager = RedisLeaseManager(url, name="limit")
    serves(manager)
    manager.close()


def test_c8_sentinels_name_the_master_and_the_next_one_after_a_failover(
    sentinel_redis: SentinelRedis,
) -> None:
    manager = RedisLeaseManager(f"{sentinel_redis.url}/0", name="limit")
    assert serves(manager).certain
    assert manager.set_terms(capacity=1_000, factor=100, period=1, lease_time=20)
    sentinel_redis.fail_over()
    replies: list[Reply] = []

    def answers() -> bool:
        try:
            replies.append(manager.sync(Request.scalar("b", 1, TERMS, need=1000.0)))
        except LeaseManagerError:
            return False
        return True

    until(answers)
    # The data may be old: the new master grants nothing for a while.
    (challenge,) = replies
    assert challenge.kind is Kind.CHALLENGE
    newcomer = Request.scalar("b", 2, TERMS, nonce=challenge.nonce, ended=True, need=1000.0)
    assert manager.sync(newcomer).uncertain > 0
    manager.close()


@pytest.mark.parametrize("name", ["limit", "{a}b", "c d", "ä"])
def test_cluster(cluster_redis: ClusterRedis, name: str) -> None:
    nodes = ",".join(f"127.0.0.1:{node.port}" for node in cluster_redis.nodes)
    manager = RedisLeaseManager(f"redis+cluster://{nodes}", name=name)
    # A cluster has no registry: each new limit waits until every lease that may be out has ended.
    assert not serves(manager).certain
    manager.close()


def test_cluster_client_follows_a_move(cluster_redis: ClusterRedis) -> None:
    with RedisCluster.from_url(cluster_redis.url) as client:
        manager = RedisLeaseManager(client, name="limit")
        key = keys_of("dispatcher", "limit")[0]
        assert manager.set_terms(capacity=1_000, factor=100, period=1, lease_time=20)
        nodes: Any = client.nodes_manager
        owner = nodes.get_node_from_slot(client.keyslot(key))
        other = next(node for node in client.get_primaries() if node.port != owner.port)
        nodes.slots_cache[client.keyslot(key)] = [other]  # as if the node had been there
        assert manager.look() is not None
        assert manager.delete()
        manager.close()
        assert client.ping()


def test_client_of_a_sentinel_handed_in(sentinel_redis: SentinelRedis) -> None:
    sentinels = [("127.0.0.1", process.port) for process in sentinel_redis.sentinels]
    kind: Any = Sentinel
    client = kind(sentinels).master_for(sentinel_redis.NAME, decode_responses=True)
    manager = RedisLeaseManager(client, name="limit")
    serves(manager)
    assert sentinel_redis.NAME in repr(manager)
    client.close()
