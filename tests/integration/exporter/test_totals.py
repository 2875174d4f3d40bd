"""The totals of instances that the exporter shows, and that its counters never go back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.cluster import ClusterCollector
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from limiters.leases._messages import Request
from tests.integration.exporter.exporting import TERMS, limiter_of, make, once, read, work
from tests.processes import Processes
from tests.processes.plan import Plan
from tests.servers.proxy import Proxy
from tests.waiting import LONG, until


def test_each_instance_is_shown_and_what_it_has_done(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    failing = iter([True, False, True])
    failed: list[int] = []
    seen = threading.Event()

    def on_batch(batch: list[Operation]) -> None:
        if next(failing, False):
            failed.append(len(batch))
            raise RuntimeError
        if batch[-1].payload > 250:  # there is work until it was seen
            seen.wait(3 * LONG)

    limiter = limiter_of(shared_redis.url, reserved_capacity=20)
    watcher = Watcher(on_batch, max_batch_size=10)
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(500)])
        [(_, member)] = _once_there(lambda: read(collector, names.MEMBER_PARTITIONS))
        assert member.endswith(f":{os.getpid()}")
        # With the requests that are sent anyway, not only with the last one.
        until(lambda: read(collector, names.CLUSTER_OPERATIONS)["orders", "done"] > 0)
        seen.set()
    done = read(collector, names.CLUSTER_OPERATIONS)
    assert done["orders", "done"] == 500 - sum(failed)
    assert done["orders", "failed"] == sum(failed)
    assert read(collector, names.CLUSTER_BATCHES)["orders", "failed"] == 2
    spent = read(collector, names.CLUSTER_SPENT)
    assert spent["orders", "shared"] + spent["orders", "reserved"] == pytest.approx(500)
    assert spent["orders", "reserved"] > 0
    assert read(collector, names.CLUSTER_THROTTLED) == {("orders",): 0}


def _once_there(read_: Callable[[], dict[tuple[str, ...], Any]]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def look() -> bool:
        found[:] = read_()
        return bool(found)

    until(look)
    return found


def test_sums_only_shows_no_instance(shared_redis: EmbeddedRedis) -> None:
    with limiter_of(shared_redis.url) as limiter:
        limiter.give_me(100)  # who wants something is there for as long as that takes
        until(lambda: limiter.partitions)
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
        lease_time=1.0,
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

        def done_by_both() -> bool:
            """More than the other one has begun: then some of the killed one are counted."""
            counted = done()
            begun = sum(it.cost for it in processes.log() if it.instance == "left") / plan.cost
            return counted > 200 and begun > 0 and counted > begun

        until(done_by_both)
        killed.signal(signal.SIGKILL)
        at_the_kill = done()
        [late] = processes.start([["late"]])
        until(lambda: done() > at_the_kill + 400)
        until(lambda: len(read(collector, names.MEMBER_PARTITIONS)) == 2)
        left.stop()
        late.stop()
        # All that those did who were not killed, and not more than was begun at all.
        log = processes.log()
        begun = sum(entry.cost for entry in log) / plan.cost
        of_the_killed = sum(it.cost for it in log if it.instance == "killed") / plan.cost
        assert begun - of_the_killed < done() <= begun
        missing = begun - done()
        assert missing <= 5_000 / 10  # at most what the killed one did in a second


def test_a_request_that_is_sent_again_counts_once(
    shared_redis: EmbeddedRedis, proxy: Proxy, collector: ClusterCollector
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders", lease_time=1)) as manager:
        make(manager)
    limiter = limiter_of(proxy.url)
    watcher = Watcher(lambda batch: None, max_batch_size=5)
    lost = 0
    with Batcher(rate_limiter=limiter) as batcher:
        for _ in range(8):
            batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(20)])
            batcher.drain()
            proxy.lose_next_reply("EVALSHA")
            until(partial(_heard_of, proxy, proxy.lost, limiter))
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
    with closing(RedisLeaseManager(shared_redis.url, name="orders", lease_time=1)) as manager:
        manager.sync(Request.scalar("somebody", 0, TERMS, need=1))  # the script is there
    limiter = limiter_of(proxy.url)
    work(limiter, 300)
    requests = proxy.requests
    synced = limiter.standing()
    assert requests.pop("EVALSHA") == sum(synced.sync_seconds.counts) + synced.sync_failures > 0
    assert set(requests) <= {"CLIENT", "HELLO", "AUTH", "SELECT"}
