"""`dispatcher exporter` as a process: whatever happens to it or to Redis."""

from __future__ import annotations

import signal
import socket
import subprocess
from contextlib import closing

import pytest
from redis import Redis

from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.cluster import NEEDS, ClusterCollector
from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases._messages import Request
from tests.integration.exporter.exporting import (
    COMMAND,
    PATIENCE,
    TERMS,
    Exporter,
    limiter_of,
    make,
    once,
    read,
    work,
)
from tests.programs import needs
from tests.servers.ports import own_port
from tests.waiting import until


def test_redis_may_be_away_at_the_start_and_later(shared_redis: EmbeddedRedis) -> None:
    with EmbeddedRedis(port=own_port(), appendonly=True) as server:
        url = server.url
        work(limiter_of(url), 30)
        server.kill()
        with Exporter("--redis", url) as exporter:
            assert exporter.scrape()[("redis_up",)] == 0
            assert exporter.scrape()[("exporter_read_failures_total",)] >= 2
            server.start()
            until(lambda: exporter.scrape()[("redis_up",)] == 1)
            now = exporter.scrape()
            assert now["cluster_operations_total", "done", "orders"] == 30
            server.restart(empty=False)
            until(lambda: exporter.scrape()[("redis_up",)] == 1)
            assert exporter.scrape()["cluster_operations_total", "done", "orders"] == 30
            server.pause()  # it accepts, and never answers
            assert exporter.scrape()[("redis_up",)] == 0
            assert ("cluster_demand", "orders") not in exporter.scrape()
            server.resume()
            until(lambda: exporter.scrape()[("redis_up",)] == 1)
            server.restart(empty=True)
            until(lambda: exporter.scrape()[("redis_up",)] == 1)
            work(limiter_of(url), 5)
            until(
                lambda: exporter.scrape().get(("cluster_operations_total", "done", "orders")) == 5
            )
            code, log = exporter.end(signal.SIGTERM)
        assert code == 0
        assert "Traceback" not in log
        assert log.count("cannot be read") < 10, "a line for each outage, not for each scrape"
        # The line of the first outage may have been read along with that of the start.
        assert log.count("answers again") - log.count("cannot be read") in (0, 1)
        assert log.rstrip().endswith(" dispatcher.exporter: ended")


def test_two_exporters_show_the_same(shared_redis: EmbeddedRedis) -> None:
    work(limiter_of(shared_redis.url), 40)
    arguments = ("--redis", shared_redis.url)
    with Exporter(*arguments) as one, Exporter(*arguments) as other:
        counted = [
            {place: it for place, it in exporter.scrape().items() if place[0].endswith("_total")}
            for exporter in (one, other)
        ]
        assert counted[0] == counted[1]
        assert counted[0]["cluster_operations_total", "done", "orders"] == 40
        assert other.end(signal.SIGINT)[0] == 130
        assert one.scrape()[("redis_up",)] == 1


def test_a_port_that_is_taken_is_reported(shared_redis: EmbeddedRedis) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = subprocess.run(
            [*COMMAND, "--redis", shared_redis.url, "--port", port],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert said.returncode == 1
    assert said.stderr.startswith(f"dispatcher: metrics cannot be served at 127.0.0.1:{port}: ")
    assert said.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--port", "x"), 2, "argument --port: 'x': it must be a whole number"),
        (("--port", "70000"), 2, "--port must be from 0 to 65535, not 70000"),
        (("--redis", "http://x"), 2, "--redis must be"),
        (("--once", "--redis", "redis://:secret@localhost:1"), 4, "refuses connections"),
    ],
)
def test_what_is_wrong_is_reported_without_passwords(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr + done.stdout
    assert code != 4 or (done.stdout, done.stderr.count("\n")) == ("", 1)


def test_old_state_without_totals_is_read(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager:
        make(manager)
    assert read(collector, names.CLUSTER_OPERATIONS)["orders", "done"] == 0


@needs("prometheus")
def test_promtool_finds_nothing(shared_redis: EmbeddedRedis) -> None:
    work(limiter_of(shared_redis.url), 10)
    text = once("--redis", shared_redis.url).stdout
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_needs_no_more_of_redis_than_the_document_says(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = NEEDS.rules("dispatcher").split()
    with closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager:
        make(manager)
        manager.sync(Request.scalar("one", 1, TERMS, need=500))
    with closing(Timeline(shared_redis.url, "jobs")) as timeline:
        timeline.producer("makers").create([Message(n, delay=0) for n in range(3)])
        timeline.consumer("worker").lease(1, 5)
    with Redis.from_url(shared_redis.url) as client:
        client.execute_command("ACL", "SETUSER", "exporter", "reset", "on", ">secret", *allowed)
        client.script_flush()
        collector = ClusterCollector(shared_redis.url.replace("://", "://exporter:secret@"))
        try:
            assert read(collector, names.REDIS_UP) == {(): True}
            assert read(collector, names.CLUSTER_CAPACITY)["orders", "shared"] == 1_000
            assert read(collector, names.TOPIC_CREATED) == {("jobs",): 3}
            assert read(collector, names.TOPIC_OLDEST)
        finally:
            collector.close()
            client.acl_deluser("exporter")
    assert [it for it in caplog.records if it.name.startswith("dispatcher.metrics")] == []
