"""The leases of a limit in every place that Redis can be: a socket, TLS, Sentinel, Cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import RedisCluster, Sentinel

from limiters import LeaseManagerError, RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases.messages import Reply, Request, Terms
from limiters.leases.scripts import keys_of
from tests.servers import wait_until
from tests.servers.cluster import ClusterRedis
from tests.servers.sentinel import SentinelRedis
from tests.servers.tls import TlsRedis

TERMS = Terms(1000.0, 100.0, period_ms=100, lease_ms=300, version=1)


def serves(manager: RedisLeaseManager, instance: str = "a") -> Reply:
    """All that a manager can do; what an instance was granted."""
    manager.set_capacity(TERMS)
    replies: list[Reply] = []

    def is_seen_with_some() -> bool:
        """Both while its lease lives, which is short."""
        replies.append(manager.sync(Request(instance, len(replies) + 1, TERMS, need=1000.0)))
        view = manager.look()
        assert view is not None
        return bool(replies[-1].held) and [one.instance for one in view.members] == [instance]

    wait_until(is_seen_with_some)
    manager.evict(instance)
    assert manager.delete()
    assert manager.look() is None
    return replies[-1]


def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with EmbeddedRedis(config=[f"unixsocket {path}"]):
        manager = RedisLeaseManager(f"unix://{path}?db=1", name="limit")
        serves(manager)
        manager.close()


def test_password_with_odd_characters() -> None:
    with EmbeddedRedis(password="p@ss:/? word") as server:
        manager = RedisLeaseManager(server.url, name="limit")
        serves(manager)
        manager.close()


def test_tls(tls_redis: TlsRedis) -> None:
    url = f"{tls_redis.url}?ssl_ca_certs={tls_redis.authority}"
    manager = RedisLeaseManager(url, name="limit")
    serves(manager)
    manager.close()


def test_c8_sentinel_names_the_master_and_after_a_failover_the_next(
    sentinel_redis: SentinelRedis,
) -> None:
    manager = RedisLeaseManager(f"{sentinel_redis.url}/0", name="limit")
    serves(manager)
    # A lease that outlasts an answer that is lost: the next one still tells of it.
    manager.set_capacity(replace(TERMS, lease_ms=3_000))
    wait_until(lambda: manager.sync(Request("a", 1, TERMS)).quarantine_ms == 0)
    sentinel_redis.fail_over()

    def answers() -> bool:
        try:
            # The state may be old: nothing is granted by the new master for a while.
            assert manager.sync(Request("b", 1, TERMS)).quarantine_ms > 0
        except LeaseManagerError:
            return False
        return True

    wait_until(answers)
    manager.close()


@pytest.mark.parametrize("name", ["limit", "{a}b", "c d", "ä"])
def test_cluster(cluster_redis: ClusterRedis, name: str) -> None:
    nodes = ",".join(f"127.0.0.1:{node.port}" for node in cluster_redis.nodes)
    manager = RedisLeaseManager(f"redis+cluster://{nodes}", name=name)
    serves(manager)
    manager.close()


def test_cluster_client_follows_a_move(cluster_redis: ClusterRedis) -> None:
    with RedisCluster.from_url(cluster_redis.url) as client:
        manager = RedisLeaseManager(client, name="limit")
        key = keys_of("dispatcher", "limit")[0]
        manager.set_capacity(TERMS)
        nodes: Any = client.nodes_manager
        owner = nodes.get_node_from_slot(client.keyslot(key))
        other = next(node for node in client.get_primaries() if node.port != owner.port)
        nodes.slots_cache[client.keyslot(key)] = [other]  # as if it had been there
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
