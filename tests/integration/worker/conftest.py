"""Workers on a real server, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.timeline import Timeline
from dispatcher.worker import Worker
from limiters.embedded import EmbeddedRedis
from tests.integration.worker.handled import SOON, KeeperTime, Made


@pytest.fixture
def timeline(shared_redis: EmbeddedRedis) -> Iterator[Timeline]:
    made = Timeline(shared_redis.url, "work", buckets=4)
    yield made
    made.close()


@pytest.fixture
def keeper_time(monkeypatch: pytest.MonkeyPatch) -> KeeperTime:
    return KeeperTime(monkeypatch)


@pytest.fixture
def run(timeline: Timeline) -> Iterator[Made]:
    """Starts workers, and stops them."""
    started: list[Worker] = []

    def start(handler: Any, **options: Any) -> Worker:
        given = {"rate_limiter": None, "flush_interval": 0.01, "retry": SOON, **options}
        worker = Worker(given.pop("timeline", timeline), handler, **given)
        started.append(worker)
        worker.start()
        return worker

    yield start
    for worker in started:
        worker.stop(0)
