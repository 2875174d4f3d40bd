"""`dispatcher exporter`: the whole cluster from Redis alone, whatever happens to either."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from redis import Redis

from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import names
from dispatcher.metrics.cluster import ClusterCollector
from dispatcher.metrics.discovery import Discovery
from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis, free_port
from limiters.leases.messages import Terms
from tests.processes import Processes
from tests.processes.plan import Plan
from tests.servers import wait_until
from tests.servers.cluster import ClusterRedis
from tests.servers.proxy import Proxy

COMMAND = [sys.executable, "-m", "dispatcher.cli.main", "exporter"]
TERMS = Terms(1_000, 100, 1_000, 1_000)
PATIENCE = 60

Samples = dict[tuple[str, ...], float]


def samples_of(text: str) -> Samples:
    """Each sample, by its name and the values of its labels, in order."""
    return {
        (sample.name.removeprefix("dispatcher_"), *sorted(sample.labels.values())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


class Exporter:
    """One, in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.log: list[str] = []

    def __enter__(self) -> Self:
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        found = re.search(r"serving (\S+), what Redis at", line)
        assert found, line + self._process.stderr.read()
        self.url = found[1]
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def scrape(self) -> Samples:
        with urllib.request.urlopen(self.url, timeout=30) as answer:
            return samples_of(answer.read().decode())

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code, and what it logged after the first line."""
        self._process.send_signal(number)
        _, logged = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, logged


def once(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--once", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=os.environ | environment,
    )


def limiter_of(url: str, name: str = "orders", **changes: Any) -> SharedResource:
    settings = {"shared_capacity": 1_000, "factor": 100, "max_interval": 0.1} | changes
    return SharedResource(lease_manager=RedisLeaseManager(url, name=name, lease_time=1), **settings)


def work(limiter: SharedResource, count: int, on_batch: Callable[..., Any] | None = None) -> None:
    """Has so many operations of cost 1 go through, and stops."""
    watcher = Watcher(on_batch or (lambda batch: None), max_batch_size=10)
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(count)])


@pytest.fixture
def collector(shared_redis: EmbeddedRedis) -> Iterator[ClusterCollector]:
    with closing(ClusterCollector(shared_redis.url, limits=["orders"])) as made:
        yield made


def read(collector: ClusterCollector, metric: names.Metric) -> dict[tuple[str, ...], Any]:
    """The values of one metric."""
    return {it.labels: it.value for it in collector.read() if it.metric == metric}


def test_everything_is_found_and_the_text_parses(shared_redis: EmbeddedRedis) -> None:
    names_ = ["orders", "or/d {é}:*", "of another prefix"]
    with ExitStack() as closing_:
        for number, name in enumerate(names_):
            prefix = "other" if number == 2 else "dispatcher"
            manager = RedisLeaseManager(shared_redis.url, name=name, prefix=prefix)
            closing_.enter_context(closing(manager)).set_capacity(TERMS)
        timeline = closing_.enter_context(closing(Timeline(shared_redis.url, "mails", buckets=4)))
        timeline.producer("shop").create([Message(b"x"), Message(b"y", delay=900)])
        said = once("--redis", shared_redis.url)
        assert (said.returncode, said.stderr) == (0, "")
        found = samples_of(said.stdout)
        assert found["cluster_capacity", "orders", "shared"] == 1_000
        assert found["cluster_capacity", "or/d {é}:*", "shared"] == 1_000
        assert found["cluster_partitions", "free", "orders"] == 10
        assert found["timeline_messages", "mails", "waiting"] == 1
        assert found["timeline_messages", "mails", "new"] == 1
        assert found["timeline_created_total", "mails"] == 2
        assert found[("redis_up",)] == 1
        assert abs(found[("clock_drift_seconds",)]) < 60
        assert "of another prefix" not in said.stdout
        other = once("--redis", shared_redis.url, DISPATCHER_PREFIX="other")
        assert samples_of(other.stdout)["cluster_capacity", "max", "of another prefix"] == 1_000
        some = once(
            "--redis", shared_redis.url, "--limits", "orders, nobody", "--topics", "nothing"
        )
        assert samples_of(some.stdout).keys() >= {("cluster_demand", "orders")}
        assert "mails" not in some.stdout
        with Redis.from_url(shared_redis.url) as client:  # looking has made nothing
            assert not list(client.scan_iter("*nothing*")) + list(client.scan_iter("*nobody*"))


def test_each_instance_is_shown_and_what_it_has_done(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    failing = iter([True, False, True])

    def on_batch(batch: list[Operation]) -> None:
        if next(failing, False):
            raise RuntimeError

    limiter = limiter_of(shared_redis.url, reserved_capacity=20)
    watcher = Watcher(on_batch, max_batch_size=10)
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(500)])
        [(_, member)] = _once_there(lambda: read(collector, names.MEMBER_PARTITIONS))
        assert member.endswith(f":{os.getpid()}")
        # With the requests that are sent anyway, not only with the last one.
        wait_until(lambda: read(collector, names.CLUSTER_OPERATIONS)["orders", "done"] > 0)
    done = read(collector, names.CLUSTER_OPERATIONS)
    assert done["orders", "done"] == 480
    assert done["orders", "failed"] == 20
    assert read(collector, names.CLUSTER_BATCHES)["orders", "failed"] == 2
    spent = read(collector, names.CLUSTER_SPENT)
    assert spent["orders", "shared"] + spent["orders", "reserved"] == 500
    assert spent["orders", "reserved"] > 0
    assert read(collector, names.CLUSTER_THROTTLED) == {("orders",): 0}


def _once_there(read_: Callable[[], dict[tuple[str, ...], Any]]) -> list[tuple[str, ...]]:
    wait_until(lambda: read_())
    return list(read_())


def test_sums_only_shows_no_instance(shared_redis: EmbeddedRedis) -> None:
    with limiter_of(shared_redis.url) as limiter:
        wait_until(lambda: limiter.acquire(1, 10))
        assert "dispatcher_member_" in once("--redis", shared_redis.url).stdout
        assert "dispatcher_member_" not in once("--redis", shared_redis.url, "--sums-only").stdout


def test_totals_never_go_back_when_instances_come_are_killed_and_leave(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    plan = Plan(
        url=shared_redis.url,
        log="",
        shared_capacity=5_000,
        factor=250,
        lease_time=0.6,
        max_interval=0.1,
        cost=10,
        operations=None,
    )
    before = 0.0

    def done() -> float:
        nonlocal before
        counted: float = read(collector, names.CLUSTER_OPERATIONS).get(("orders", "done"), 0.0)
        assert counted >= before, "it went back"
        before = counted
        return counted

    with Processes(plan) as processes:
        killed, left = processes.start([["killed"], ["left"]])
        wait_until(lambda: done() > 200)
        killed.signal(signal.SIGKILL)
        at_the_kill = done()
        [late] = processes.start([["late"]])
        wait_until(lambda: done() > at_the_kill + 400)
        wait_until(lambda: len(read(collector, names.MEMBER_PARTITIONS)) == 2)
        left.stop()
        late.stop()
        # All that those did who were not killed, and not more than was begun at all.
        begun = len(processes.log()) * plan.batch
        of_the_killed = sum(entry.instance == "killed" for entry in processes.log()) * plan.batch
        assert begun - of_the_killed < done() <= begun
        missing = begun - done()
        assert missing <= 5_000 / 10  # at most what the killed one did in a second


def test_a_request_that_is_sent_again_counts_once(
    shared_redis: EmbeddedRedis, proxy: Proxy, collector: ClusterCollector
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders", lease_time=1)) as manager:
        manager.set_capacity(TERMS)
    limiter = limiter_of(proxy.url)
    watcher = Watcher(lambda batch: None, max_batch_size=5)
    lost = 0
    with Batcher(rate_limiter=limiter) as batcher:
        for _ in range(8):
            batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(20)])
            batcher.drain()
            proxy.lose_next_reply("EVALSHA")
            wait_until(partial(_heard_of, proxy, proxy.lost, limiter))
            lost = proxy.lost
    assert lost > 0
    assert read(collector, names.CLUSTER_OPERATIONS)["orders", "done"] == 160
    assert read(collector, names.CLUSTER_SPENT)["orders", "shared"] == 160
    assert read(collector, names.CLUSTER_SYNC_FAILURES)["orders",] >= lost - 1


def _heard_of(proxy: Proxy, lost: int, limiter: SharedResource) -> bool:
    """Whether a reply more was lost, or none can be since nothing is asked any more."""
    standing = limiter.standing()
    return proxy.lost > lost or not (standing.partitions_held or standing.demand)


def test_publishing_makes_no_calls_of_its_own(shared_redis: EmbeddedRedis, proxy: Proxy) -> None:
    limiter = limiter_of(proxy.url)
    work(limiter, 300)
    assert set(proxy.requests) <= {"EVALSHA", "EVAL", "CLIENT", "HELLO", "AUTH", "SELECT"}


def test_redis_may_be_away_at_the_start_and_later(shared_redis: EmbeddedRedis) -> None:
    with EmbeddedRedis(port=free_port(), appendonly=True) as server:
        url = server.url
        work(limiter_of(url), 30)
        server.kill()
        with Exporter("--redis", url) as exporter:
            assert exporter.scrape()[("redis_up",)] == 0
            assert exporter.scrape()[("exporter_read_failures_total",)] >= 2
            server.start()
            now = exporter.scrape()
            assert now[("redis_up",)] == 1
            assert now["cluster_operations_total", "done", "orders"] == 30
            server.restart(empty=False)
            wait_until(lambda: exporter.scrape()[("redis_up",)] == 1)
            assert exporter.scrape()["cluster_operations_total", "done", "orders"] == 30
            server.pause()  # it accepts, and never answers
            assert exporter.scrape()[("redis_up",)] == 0
            assert ("cluster_demand", "orders") not in exporter.scrape()
            server.resume()
            assert exporter.scrape()[("redis_up",)] == 1
            server.restart(empty=True)
            wait_until(lambda: exporter.scrape()[("redis_up",)] == 1)
            work(limiter_of(url), 5)
            wait_until(
                lambda: exporter.scrape().get(("cluster_operations_total", "done", "orders")) == 5
            )
            code, log = exporter.end(signal.SIGTERM)
        assert code == 0
        assert "Traceback" not in log
        assert log.count("cannot be read") <= 4
        # The line of the first outage may have been read along with that of the start.
        assert log.count("answers again") - log.count("cannot be read") in (0, 1)
        assert log.rstrip().endswith("INFO ended")


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


def test_one_that_cannot_be_read_does_not_hide_the_others(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager:
        manager.set_capacity(TERMS)
    collector = ClusterCollector(shared_redis.url)
    with Redis.from_url(shared_redis.url) as client:
        client.set("dispatcher:v1:{strange}:limit", "not a limit")
        client.set("dispatcher:v1:{odd}:settings", "not a topic")
    for _ in range(3):
        assert read(collector, names.CLUSTER_CAPACITY)["orders", "shared"] == 1_000
    assert read(collector, names.REDIS_UP) == {(): True}
    told = sorted(record.getMessage().partition(" cannot")[0] for record in caplog.records)
    assert told == ["limit strange", "topic odd"]
    collector.close()


def test_what_is_deleted_is_shown_no_more(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager:
        manager.set_capacity(TERMS)
        assert read(collector, names.CLUSTER_CAPACITY)
        manager.delete()
        assert not read(collector, names.CLUSTER_CAPACITY)
        with Redis.from_url(shared_redis.url) as client:
            assert not client.keys("*orders*")


def test_a_search_goes_on_where_it_stopped(shared_redis: EmbeddedRedis) -> None:
    with Redis.from_url(shared_redis.url) as client:
        client.mset({f"of somebody else:{number}": 1 for number in range(5_000)})
        client.hset("dispatcher:v1:{orders}:limit", "x", 1)
        client.hset("dispatcher:v1:{mails}:settings", "x", 1)
        client.hset("dispatcher:v1:{mails/3}:meta", "x", 1)
        time = [0.0]
        discovery = Discovery("dispatcher", lambda: time[0])
        steps = 0
        while discovery._search is not None or not steps:
            discovery.look(client, budget=0)
            steps += 1
        assert steps > 1
        assert (discovery.limits, discovery.topics) == (["orders"], ["mails"])
        client.hset("dispatcher:v1:{later}:limit", "x", 1)
        client.delete("dispatcher:v1:{orders}:limit")
        discovery.look(client, budget=60)
        assert discovery.limits == ["orders"]
        time[0] = 31
        discovery.look(client, budget=60)
        assert discovery.limits == ["later"]


def test_a_cluster_is_searched_on_all_its_nodes(cluster_redis: ClusterRedis) -> None:
    url = cluster_redis.url.replace("redis:", "redis+cluster:").removesuffix("/0")
    with ExitStack() as closing_:
        for number in range(9):
            manager = RedisLeaseManager(url, name=f"limit {number}")
            closing_.enter_context(closing(manager)).set_capacity(TERMS)
        collector = closing_.enter_context(closing(ClusterCollector(url)))
        found = read(collector, names.CLUSTER_PERIOD)
        assert sorted(found) == [(f"limit {number}",) for number in range(9)]
        assert read(collector, names.REDIS_UP) == {(): True}


def test_a_port_that_is_taken_is_said_so(shared_redis: EmbeddedRedis) -> None:
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
        (("--port", "x"), 2, "'x': not a whole number"),
        (("--port", "70000"), 2, "a port is from 0 to 65535"),
        (("--redis", "http://x"), 1, "--redis must be"),
        (("--once", "--redis", "redis://:secret@localhost:1"), 1, "did not answer; see above"),
    ],
)
def test_what_is_wrong_is_said_without_passwords(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr + done.stdout


def test_old_state_without_totals_is_read(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager:
        manager.set_capacity(TERMS)
    assert read(collector, names.CLUSTER_OPERATIONS)["orders", "done"] == 0


PROMTOOL = Path("/usr/bin/promtool")


@pytest.mark.skipif(not PROMTOOL.exists(), reason="only where Prometheus is installed")
def test_promtool_finds_nothing(shared_redis: EmbeddedRedis) -> None:
    work(limiter_of(shared_redis.url), 10)
    text = once("--redis", shared_redis.url).stdout
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
