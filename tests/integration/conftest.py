"""A Batcher on its real threads, and real Redis servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from redis import Redis

from dispatcher import Batcher
from dispatcher.cli.main import main
from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases.redis import mark_as_new
from tests.commands import Run, Said
from tests.servers.cluster import ClusterRedis
from tests.servers.proxy import Proxy
from tests.servers.sentinel import SentinelRedis
from tests.servers.tls import TlsRedis


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    made = Batcher(flush_interval=0.01)
    made.start()
    yield made
    made.stop(drain=False)


@pytest.fixture(scope="session")
def _one_redis() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
def shared_redis(_one_redis: EmbeddedRedis) -> EmbeddedRedis:
    """A server that holds nothing, no script either. It is every test's: do not harm it."""
    with Redis.from_url(_one_redis.url) as client:
        client.flushall()
        client.script_flush()
        mark_as_new(client)  # no test has left anything that still spends
    return _one_redis


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server that the test may do anything to."""
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Callable[[str], Redis]]:
    """Makes clients from urls, and closes them."""
    with ExitStack() as clients:
        yield lambda url: clients.enter_context(Redis.from_url(url))


@pytest.fixture
def proxy(shared_redis: EmbeddedRedis) -> Iterator[Proxy]:
    """A bad network in front of `shared_redis`."""
    with Proxy(shared_redis) as made:
        yield made


@pytest.fixture
def sentinel_redis() -> Iterator[SentinelRedis]:
    """A master, a replica and three Sentinels of the test's own."""
    with SentinelRedis() as made:
        yield made


@pytest.fixture(scope="session")
def _one_cluster() -> Iterator[ClusterRedis]:
    with ClusterRedis() as made:
        yield made


@pytest.fixture
def cluster_redis(_one_cluster: ClusterRedis) -> ClusterRedis:
    """A cluster that holds nothing. It is every test's, as it takes long: do not harm it."""
    for node in _one_cluster.nodes:
        with Redis.from_url(node.url) as client:
            client.flushall()
            client.script_flush()
    return _one_cluster


@pytest.fixture
def tls_redis(tmp_path: Path) -> Iterator[TlsRedis]:
    """A server that speaks TLS."""
    with TlsRedis(tmp_path) as made:
        yield made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in this process: how it ended, its output."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as end:  # as argparse ends wrong usage
            code = int(str(end.code))
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def url(shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Redis of which the commands know by their environment."""
    monkeypatch.setenv("DISPATCHER_REDIS", shared_redis.url)
    return shared_redis.url


@pytest.fixture
def manager(url: str) -> Iterator[RedisLeaseManager]:
    with closing(RedisLeaseManager(url, name="orders", timeout=10)) as made:
        yield made
