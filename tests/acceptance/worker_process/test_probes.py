"""`dispatcher worker`: probes, the wait for Redis, word to systemd."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis
from tests.acceptance.worker_process.started import Start, create, page
from tests.processes.workers import handled
from tests.servers.ports import own_port
from tests.waiting import until


def test_probes_and_metrics(timeline: Timeline, start: Start) -> None:
    port = own_port()
    create(timeline, 3)
    worker = start("quick", "--metrics-port", str(port))
    until(lambda: page(port, "/readyz") == (200, "ok\n"))
    assert page(port, "/healthz") == (200, "ok\n")
    until(lambda: timeline.stats().deleted == 3)
    done = 'dispatcher_operations_total{batcher="work",limit="",outcome="done"} 3.0'
    until(lambda: done in page(port, "/metrics")[1])  # counted after they were deleted
    assert page(port, "/")[0] == 404
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert page(port, "/healthz") == (0, "")


def test_a_worker_waits_for_redis_and_says_so_once(log: Path, start: Start) -> None:
    port, metrics = own_port(), own_port()
    url = f"redis://:hidden@127.0.0.1:{port}/0"
    worker = start("quick", "--metrics-port", str(metrics), DISPATCHER_REDIS=url)
    worker.await_word("waiting for Redis")
    until(lambda: page(metrics, "/healthz")[0] == 200)
    assert page(metrics, "/readyz") == (503, "it starts: Redis has not answered yet\n")
    with EmbeddedRedis(port=port, password="hidden") as late:
        timeline = Timeline(late.url, "work")
        create(timeline, 1)
        until(lambda: len(handled(log)) == 1)
        timeline.close()
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    assert worker.text.count("waiting for Redis") == 1
    assert "hidden" not in worker.text


def test_a_worker_waits_for_a_cluster_as_well(log: Path, start: Start) -> None:
    port = own_port()
    url = f"redis+cluster://127.0.0.1:{port}"
    worker = start("quick", "--create-topic", DISPATCHER_REDIS=url)
    worker.await_word("waiting for Redis")
    with EmbeddedRedis(port=port, config=["cluster-enabled yes"]):
        with Redis(port=port) as client:
            client.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
            until(lambda: client.cluster("INFO")["cluster_state"] == "ok")
        timeline = Timeline(url, "work")
        create(timeline, 3)
        until(lambda: len(handled(log)) == 3)
        timeline.close()
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    assert "Traceback" not in worker.text


def test_a_worker_that_waits_shows_what_it_waits_for_as_that_changes(start: Start) -> None:
    port = own_port()
    worker = start("quick", DISPATCHER_REDIS=f"redis://:wrong@127.0.0.1:{port}/0")
    worker.await_word("refuses connections")
    with EmbeddedRedis(port=port, password="hidden"):
        worker.await_word("does not accept the user and password")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0


def test_a_worker_does_not_wait_for_a_plain_server_to_become_a_cluster(start: Start) -> None:
    with EmbeddedRedis() as server:
        worker = start("quick", DISPATCHER_REDIS=f"redis+cluster://127.0.0.1:{server.port}")
        assert worker.ended() == 4
    assert "is not a cluster; use redis://" in worker.text


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
def test_a_signal_ends_the_wait_for_redis(start: Start, scheme: str) -> None:
    worker = start("quick", DISPATCHER_REDIS=f"{scheme}://127.0.0.1:{own_port()}")
    worker.await_word("waiting for Redis")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_systemd_is_notified(timeline: Timeline, start: Start, tmp_path: Path) -> None:
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(place)
        line.settimeout(30)
        worker = start("quick", NOTIFY_SOCKET=place, WATCHDOG_USEC="200000")
        words: list[str] = []
        while "READY=1" not in words or words.count("WATCHDOG=1") < 3:
            words += line.recv(1_000).decode().splitlines()
        assert f"MAINPID={worker.process.pid}" in words
        worker.signal(signal.SIGTERM)
        while "STOPPING=1" not in words:
            words += line.recv(1_000).decode().splitlines()
        assert worker.ended() == 0


def test_systemd_is_not_notified_any_more_while_all_slots_hang(
    timeline: Timeline, start: Start, go_on: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "notify")
    create(timeline, 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(place)
        line.settimeout(1)
        hangs = ("--concurrency", "1", "--max-operation-time", "0.2")
        worker = start("slow", *hangs, NOTIFY_SOCKET=place, WATCHDOG_USEC="100000")
        worker.await_word("take longer than max_operation_time")
        with pytest.raises(TimeoutError):  # where a word would come twenty times a second
            [line.recv(1_000) for _ in range(200)]
        go_on.touch()
        line.settimeout(30)
        assert line.recv(1_000) == b"WATCHDOG=1"
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
