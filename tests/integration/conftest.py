"""A Batcher on its real threads, and real Redis servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from redis import Redis

from dispatcher import (
    Batcher,
)
from limiters.embedded import EmbeddedRedis


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
