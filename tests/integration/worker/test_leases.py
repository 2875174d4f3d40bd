"""The leases of what a Worker handles."""

from __future__ import annotations

import threading
from contextlib import closing

from dispatcher import ProvisionedResource, Throttled
from dispatcher.timeline import Lease, Message, Status, Timeline
from limiters.embedded import EmbeddedRedis
from tests.integration.worker.handled import KeeperTime, Made, Noted, create, dead, leased, many
from tests.waiting import until


def test_t3_leases_of_what_is_handled_for_long_are_kept(
    timeline: Timeline, run: Made, keeper_time: KeeperTime
) -> None:
    create(timeline, Message("x", id="x"))
    go_on = threading.Event()
    worker = run(lambda messages: go_on.wait(60) and None, **KeeperTime.OPTIONS)
    until(lambda: worker.in_flight)
    [leased] = timeline.operator().peek(1)
    assert leased.status is Status.PROCESSING

    keeper_time.extends("x")

    [extended] = timeline.operator().peek(1)
    assert (extended.status, extended.time > leased.time) == (Status.PROCESSING, True)
    go_on.set()
    until(lambda: worker.totals.done == 1)
    assert worker.totals.lost == 0


def test_t3_what_is_lost_before_it_begins_does_not_begin(
    timeline: Timeline, run: Made, shared_redis: EmbeddedRedis, keeper_time: KeeperTime
) -> None:
    create(timeline, *many(2))
    go_on, begun = threading.Event(), Noted(lambda messages: go_on.wait(60) and None)
    limiter = ProvisionedResource(1)
    own = {"concurrency": 1, "max_batch_size": 1, "rate_limiter": limiter}
    worker = run(begun, **own, **KeeperTime.OPTIONS)
    until(lambda: worker.in_flight == 1)
    worker._calls.batch_time = 0.001  # as if a slot were free in no time: it leases one ahead
    limiter.set_capacity(1_000)
    until(lambda: worker.waiting == 1)
    with closing(
        Timeline(shared_redis.url, "work")
    ) as same:  # another consumer takes what it has, by its name
        taken = same.consumer(worker.consumer.id).active()
    assert len(taken) == 2
    keeper_time.next_extension()
    until(lambda: all(one.lost for one in worker._holds._waiting))
    go_on.set()
    until(lambda: worker.totals.lost == 2)
    assert len(begun.ids) == 1
    assert timeline.stats().deleted == 0


def test_a_worker_that_comes_back_under_its_id_gets_its_messages_immediately(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, Message("x"))
    lease = leased(timeline.consumer("one"), 600)
    handler = Noted()
    worker = run(handler, consumer_id="one")
    until(lambda: worker.totals.done == 1)
    assert handler.batches[0][0].attempt == lease.attempt + 1


def test_a_message_whose_attempts_never_end_is_dead(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("poison", id="poison"))
    for _ in range(2):  # two workers that were killed by it
        lease = leased(timeline.consumer("killed"), 0.5)
        until(lease.is_expired)
    handler = Noted()
    worker = run(handler, max_attempts=2)
    until(lambda: worker.totals.dead)
    assert handler.batches == []
    assert "leased 2 times, and the last attempt did not end" in dead(timeline)["poison"]
    assert "or it failed and max_attempts was lowered since" in dead(timeline)["poison"]


def test_what_hangs_is_counted_and_given_out_again(timeline: Timeline, run: Made) -> None:
    create(timeline, Message("x", id="x"))
    go_on = threading.Event()
    handler = Noted(lambda messages: go_on.wait(60) if messages[0].attempt == 1 else None)
    worker = run(handler, lease_time=4, max_operation_time=2, concurrency=2)
    until(lambda: worker.totals.hung == 1)
    assert worker.hanging == 1
    assert worker.trouble() == ""
    until(lambda: worker.totals.done == 1)
    assert [batch[0].attempt for batch in handler.batches] == [1, 2]
    go_on.set()
    until(lambda: worker.totals.lost == 1)
    assert worker.hanging == 0, "it came back after all, and its late word counts for nothing"


def test_a_worker_that_hangs_everywhere_takes_no_more_and_says_so(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, *many(20))
    go_on = threading.Event()
    worker = run(
        lambda messages: go_on.wait(60) and None,
        lease_time=4,
        max_operation_time=1,
        concurrency=2,
        max_batch_size=1,
    )
    until(worker.trouble)
    assert worker.trouble() == "all 2 slots hang in the handler"
    assert worker.unready() == worker.trouble()
    until(lambda: timeline.stats().lost == 2)  # and no other consumer is there to take them
    assert (worker.totals.leased, worker.waiting) == (2, 0)
    go_on.set()
    until(lambda: timeline.stats().remaining == 0)


def test_a_coroutine_that_blocks_the_loop_does_not_keep_what_cannot_begin(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, *many(20))
    go_on = threading.Event()

    async def block(messages: list[Lease]) -> None:
        go_on.wait(60)  # as a library does that has no coroutines

    worker = run(block, lease_time=4, max_operation_time=1, concurrency=4, max_batch_size=2)
    until(worker.trouble)
    assert "calls of the handler do not begin" in worker.trouble()
    until(lambda: worker.totals.hung == 1)
    with closing(timeline.consumer("other")) as other:
        found: set[str] = set()

        def takes() -> bool:
            found.update(lease.id for lease in other.lease(20, 60))
            return len(found) >= 18

        until(takes)  # but for what it tries now and then
    go_on.set()
    until(lambda: worker.trouble() == "")


def test_what_is_refused_too_late_is_not_kept(timeline: Timeline, run: Made) -> None:
    def refuse(messages: list[Lease]) -> None:
        if messages[0].attempt == 1 and not worker.totals.throttled:
            until(lambda: worker.totals.hung and worker.batcher.totals.batches_abandoned)
            raise Throttled(retry_after=0.01)

    worker = run(refuse, lease_time=60, max_operation_time=2)
    create(timeline, Message("x"))
    until(lambda: worker.totals.done == worker.totals.throttled == 1)
    assert (worker.waiting, worker.totals.returned) == (0, 1)
