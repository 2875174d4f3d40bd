"""Real processes share a real limit through a real Redis, and bad things happen to them.

What was begun when, by the ledgers of the instances, is judged by the verifier: C1 and C2 have to
hold whatever happens. How fast things go is measured in benchmarks/; here only that they go.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.verifier import Verdict, verify
from tests.processes import Processes
from tests.processes.plan import Plan
from tests.servers.cluster import ClusterRedis
from tests.servers.proxy import Proxy
from tests.servers.sentinel import SentinelRedis
from tests.waiting import until

CAPACITY = 20_000.0
LEASE, INTERVAL, PERIOD = 1.2, 0.3, 1.0


@pytest.fixture
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as server:
        yield server


def plan_for(url: str) -> Plan:
    """Instances with a backlog that never ends."""
    manager = RedisLeaseManager(url, name="orders", lease_time=LEASE)
    # It is certain who holds what by the time all have started.
    manager.set_terms(capacity=CAPACITY, factor=1_000, period=PERIOD, lease_time=LEASE)
    manager.close()
    return Plan(url=url, log="", lease_time=LEASE, max_interval=INTERVAL, operations=None)


def judged(cluster: Processes) -> Verdict:
    return verify(cluster.log(), CAPACITY)


def await_spending(cluster: Processes, *names: str, since: float | None = None) -> None:
    """Returns when each of `names` has spent something after `since`, or after now."""
    since = time.monotonic() if since is None else since
    until(lambda: set(names) <= {e.instance for e in cluster.log() if e.at > since}, within=60)


def await_more_than_half(cluster: Processes, name: str) -> None:
    """Returns when `name` uses more in a second than its fair share with another one."""
    since = time.monotonic()

    def used() -> bool:
        log = [it for it in cluster.log() if it.instance == name and it.at > since]
        return (
            bool(log)
            and sum(one.cost for one in log if one.at > log[-1].at - PERIOD) > 0.55 * CAPACITY
        )

    until(used, within=60)


def spent(cluster: Processes, start: float, end: float) -> float:
    return sum(entry.cost for entry in cluster.log() if start <= entry.at < end)


def test_c1_processes_share_a_limit(server: EmbeddedRedis) -> None:
    with Processes(plan_for(server.url)) as cluster:
        cluster.start([["a"], ["b"], ["c"]])
        await_spending(cluster, "a", "b", "c")
        time.sleep(3)  # so that there are some windows
        await_spending(cluster, "a", "b", "c")
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c2_one_is_killed_and_its_share_is_used_again(server: EmbeddedRedis) -> None:
    with Processes(plan_for(server.url)) as cluster:
        started = cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        started[0].signal(signal.SIGKILL)
        await_more_than_half(cluster, "b")
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c2_one_leaves_gracefully_and_its_share_is_used_again(server: EmbeddedRedis) -> None:
    with Processes(plan_for(server.url)) as cluster:
        started = cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        started[0].stop()
        await_more_than_half(cluster, "b")
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c2_one_is_stopped_past_its_lease_and_goes_on(server: EmbeddedRedis) -> None:
    with Processes(plan_for(server.url)) as cluster:
        started = cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        for _ in range(2):
            started[0].signal(signal.SIGSTOP)
            time.sleep(LEASE + PERIOD + INTERVAL)
            started[0].signal(signal.SIGCONT)
            await_spending(cluster, "a", "b")
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c7_redis_is_away_for_longer_than_a_lease(server: EmbeddedRedis) -> None:
    with Processes(plan_for(server.url)) as cluster:
        cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        server.pause()
        away = time.monotonic()
        time.sleep(LEASE + 1)
        assert spent(cluster, away + LEASE, time.monotonic()) == 0
        server.resume()
        await_spending(cluster, "a", "b")
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c8_redis_is_killed_and_comes_back_empty(server: EmbeddedRedis) -> None:
    with Processes(plan_for(server.url)) as cluster:
        cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        server.kill()
        server.restart(empty=True)
        cluster.start([["new"]])
        restarted = time.monotonic()
        await_spending(cluster, "new", "a", "b", since=restarted)
        time.sleep(1)
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c8_redis_is_killed_and_comes_back_from_its_append_only_file() -> None:
    with EmbeddedRedis(appendonly=True) as server, Processes(plan_for(server.url)) as cluster:
        cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        server.kill()
        server.start()
        cluster.start([["new"]])
        restarted = time.monotonic()
        await_spending(cluster, "new", "a", "b", since=restarted)
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c8_sentinel_fails_over_under_load() -> None:
    with SentinelRedis() as servers, Processes(plan_for(servers.url)) as cluster:
        cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        servers.fail_over()
        moved = time.monotonic()
        cluster.start([["new"]])
        await_spending(cluster, "new", "a", "b", since=moved)
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)


def test_c1_replies_are_lost_after_they_were_carried_out(server: EmbeddedRedis) -> None:
    with Proxy(server) as proxy:
        plan = plan_for(server.url)
        with Processes(replace(plan, url=proxy.url)) as cluster:
            cluster.start([["a"], ["b"], ["c"]])
            await_spending(cluster, "a", "b", "c")
            for _ in range(12):
                lost = proxy.lost
                proxy.lose_next_reply("EVALSHA")
                until(lambda lost=lost: proxy.lost > lost)  # type: ignore[misc]
            await_spending(cluster, "a", "b", "c")
            verdict = judged(cluster)
            assert verdict.holds, str(verdict)


def test_c1_on_a_redis_cluster() -> None:
    with ClusterRedis() as servers, ExitStack() as stack:
        url = servers.url.replace("redis://", "redis+cluster://").removesuffix("/0")
        cluster = stack.enter_context(Processes(plan_for(url)))
        cluster.start([["a"], ["b"]])
        await_spending(cluster, "a", "b")
        time.sleep(1)
        verdict = judged(cluster)
        assert verdict.holds, str(verdict)
