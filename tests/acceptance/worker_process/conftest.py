"""Worker processes on a server of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis
from tests.acceptance.worker_process.started import HANDLERS, Start
from tests.processes.workers import WorkerProcess


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(password="secret") as made:
        yield made


@pytest.fixture
def timeline(server: EmbeddedRedis) -> Iterator[Timeline]:
    with Redis.from_url(server.url) as client:
        client.flushall()
    made = Timeline(server.url, "work", buckets=4)
    assert made.buckets == 4
    yield made
    made.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def go_on(tmp_path: Path) -> Path:
    return tmp_path / "go_on"


@pytest.fixture
def start(server: EmbeddedRedis, log: Path, go_on: Path) -> Iterator[Start]:
    started: list[WorkerProcess] = []

    def begin(handler: str, *options: str, **environment: str) -> WorkerProcess:
        known = {"LOG": str(log), "GO_ON": str(go_on), "DISPATCHER_REDIS": server.url}
        one = WorkerProcess(
            handler if ":" in handler else f"{HANDLERS}:{handler}",
            *("--topic", "work", "--flush-interval", "0.01", *options),
            **{**known, **environment},
        )
        started.append(one)
        return one

    yield begin
    for one in started:
        one.end()
