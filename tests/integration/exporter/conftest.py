"""An exporter that reads the whole cluster from Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from dispatcher.metrics._cluster.cluster import ClusterCollector
from limiters.embedded import EmbeddedRedis


@pytest.fixture
def collector(shared_redis: EmbeddedRedis) -> Iterator[ClusterCollector]:
    with closing(ClusterCollector(shared_redis.url, limits=["orders"])) as made:
        yield made
