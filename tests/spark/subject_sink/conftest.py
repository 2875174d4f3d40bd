"""A SubjectSink that notes the rows that it sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dispatcher.spark import SubjectSink
from limiters.embedded import EmbeddedRedis
from tests.spark.handlers import noting, take
from tests.spark.subject_sink.orders import Made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def sink(shared_redis: EmbeddedRedis, log: Path) -> Made:
    """A sink that notes its rows, with any other options."""

    def made(handler: Any = None, **options: Any) -> SubjectSink:
        defaults: dict[str, Any] = {
            "subject": "subject",
            "time": "at",
            "redis": shared_redis.url,
            "query": "orders",
            "rows": "dict",
            "partitions": 2,
            "lease_time": 1,
        }
        return SubjectSink(handler or noting(take, log), **(defaults | options))

    return made
