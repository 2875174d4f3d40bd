"""How many messages there are, by time and state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from dispatcher.timeline import Message, Snapshot, Status, Timeline
from limiters.embedded import EmbeddedRedis
from tests.servers.cluster import ClusterRedis
from tests.timelines import START_MS, Hands, timed
from tests.waiting import LONG, until


@pytest.fixture
def hands(shared_redis: EmbeddedRedis) -> Iterator[Hands]:
    made = Hands(shared_redis.url)
    yield made
    made.close()


def test_t9_counts_by_time_and_state(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url, max_attempts=1)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("d", id="dead")])
    consumer.lease(5, for_=1)
    hands.turn(1_000)
    consumer.lease(5, for_=1)
    producer.create([Message("p", id="p"), Message("l", id="l")])
    short, _ = consumer.lease(2, for_=1)
    hands.turn(500)
    longer = [it for it in consumer.active() if it.id != short.id]
    consumer.extend(longer, 60)
    producer.create([Message(n, delay=n) for n in range(1, 11)])
    producer.create([Message("new")])
    hands.turn(1_000)
    now = hands.now_ms
    assert timeline.stats().remaining == 13
    stats = timeline.stats()
    found = (stats.new, stats.lost, stats.waiting, stats.processing, stats.dead)
    assert found == (2, 1, 9, 1, 1)
    assert stats.next_due == now - 1_000
    assert stats.backlog_age == pytest.approx(1.0, abs=0.5)
    assert timeline.count(now, now + 3_000) == 3, "from now on, three seconds excluded"
    assert timeline.count(now + 1, now + 3_001) == 3
    assert timeline.count(START_MS, now + 1, "new") == 2
    assert timeline.count(START_MS, now + 90_000, Status.PROCESSING) == 1
    assert timeline.count(START_MS, now + 90_000, "dead") == 1
    with pytest.raises(ValueError, match=r"state must be one of new, lost, .* not 'tired'"):
        timeline.count(START_MS, now, "tired")
    bars = timeline.histogram(now + 1, now + 10_001, 2)
    assert [number for _, number in bars] == [2, 2, 2, 2, 1]
    assert [at for at, _ in bars] == [now + 1 + 2_000 * n for n in range(5)]
    assert timeline.histogram(now, now, 1) == []
    with pytest.raises(ValueError, match="step must make at most 10000 steps, not 100000"):
        timeline.histogram(now, now + 100_000, 0.001)
    assert timeline.due_within(2) == 5
    assert timeline.is_spike(more_than=4, within=2)
    assert not timeline.is_spike(more_than=5, within=2)


def test_t9_a_long_histogram_is_counted_in_parts(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=8)
    start = START_MS + 10**9
    timeline.producer("us").create([Message(n, at=start + n * 100) for n in range(2_000)])
    bars = timeline.histogram(start, start + 200_000, 0.2)
    assert [number for _, number in bars] == [2] * 1_000


def works(timeline: Timeline, stopped: threading.Event) -> None:
    """Does a bit of all there is, until it is stopped."""
    producer, consumer = timeline.producer("us"), timeline.consumer(threading.current_thread().name)
    while not stopped.is_set():
        producer.create([Message("x", id=f"{consumer.id}-{n}") for n in range(100)])
        leases = consumer.lease(100, for_=30)
        consumer.bury(leases[:10], "in vain")
        consumer.release(leases[10:20])
        consumer.delete(leases[20:])
        producer.delete(timeline.operator().list(50, states=["dead"])[0])


def is_exact(timeline: Timeline) -> bool:
    stats = timeline.stats()
    assert stats.created == stats.deleted + stats.dead + stats.remaining
    return stats.created > 5_000


@pytest.mark.parametrize("cluster", [False, True])
def test_t7_stats_are_exact_while_workers_run(
    shared_redis: EmbeddedRedis, cluster_redis: ClusterRedis, cluster: bool
) -> None:
    places = ",".join(f"127.0.0.1:{node.port}" for node in cluster_redis.nodes)
    url = f"redis+cluster://{places}" if cluster else shared_redis.url
    timeline = Timeline(url, "exact", buckets=8)
    stopped = threading.Event()
    workers = [threading.Thread(target=works, args=(timeline, stopped)) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(30):
            is_exact(timeline)
        until(lambda: is_exact(timeline))
    finally:
        stopped.set()
        for worker in workers:
            worker.join(LONG)
        timeline.close()


def test_t9_steps_around_now_are_separated_by_state(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url, buckets=3)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message(n, id=f"n{n}", at=START_MS - 50 + n) for n in range(100)])
    for length in (0.003, 0.030, 0.060):
        consumer.lease(10, for_=length)
    hands.turn(10)
    for width in (1, 7, 20, 33, 200):
        bars = {
            state: timeline.histogram(START_MS - 80, START_MS + 120, width / 1000, state)
            for state in ("new", "lost", "waiting", "processing")
        }
        assert {state: sum(number for _, number in its) for state, its in bars.items()} == {
            "new": 31,
            "lost": 10,
            "waiting": 39,
            "processing": 20,
        }
        every = timeline.histogram(START_MS - 80, START_MS + 120, width / 1000)
        assert sum(number for _, number in every) == 100
        for place, (at, number) in enumerate(every):
            assert number == sum(its[place][1] for its in bars.values())
            assert number == timeline.count(at, min(at + width, START_MS + 120))
            assert bars["new"][place][1] == 0 or at <= hands.now_ms
            assert bars["waiting"][place][1] == 0 or at + width > hands.now_ms


def test_t9_a_histogram_costs_a_count_for_each_step_and_less_where_nothing_is(
    own_redis: EmbeddedRedis,
) -> None:
    timeline = Timeline(own_redis.url, "topic", buckets=8)
    start, steps = START_MS + 10**9, 1_440
    producer = timeline.producer("us")
    producer.create([Message(n, id=f"n{n}", at=start + n * 43_200) for n in range(2_000)])
    # Three later: where there is so little, the steps in between cost nothing.
    producer.create([Message(n, id=f"l{n}", at=start + 10**9 + n * 10**7) for n in range(3)])
    with Redis.from_url(own_redis.url) as client:
        before = counted(client)
        bars = timeline.histogram(start, start + steps * 60_000, 60)
        dense = counted(client) - before
        sparse_bars = timeline.histogram(start + 10**9, start + 10**9 + steps * 60_000, 60)
        sparse = counted(client) - before - dense
    assert (len(bars), sum(number for _, number in bars)) == (steps, 2_000)
    assert sum(number for _, number in sparse_bars) == 3
    assert dense < 1.2 * steps * 8, "a count for each edge of each bucket"
    assert sparse < 0.2 * dense


def counted(client: Any) -> int:
    stats: dict[str, Any] = client.info("commandstats")
    return int(stats.get("cmdstat_zcount", {}).get("calls", 0))


def test_t10_a_page_of_a_small_group_among_many_looks_at_a_bounded_part(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._reading.scanning.MOST_ON_A_PAGE", 4_000)
    timeline = Timeline(own_redis.url, "topic", buckets=4)
    theirs, ours = timeline.producer("them"), timeline.producer("us")
    theirs.create([Message("theirs", id=f"t{n}") for n in range(40_000)])
    ours.create([Message("ours", id=f"o{n}") for n in range(40)])
    found: dict[str, Snapshot] = {}
    cursor, pages = "", 0
    with Redis.from_url(own_redis.url) as client:
        while True:
            before = scripts(client)
            page, cursor = ours.list(10, cursor)
            assert scripts(client) - before <= 25, "few scripts, each of some hundreds"
            found.update((it.id, it) for it in page)
            pages += 1
            if not cursor:
                break
    assert set(found) == {f"o{n}" for n in range(40)}
    assert 5 <= pages <= 15


def scripts(client: Any) -> int:
    stats: dict[str, Any] = client.info("commandstats")
    return int(stats["cmdstat_evalsha"]["calls"])


def test_t10_a_listing_of_large_bodies_reads_few_in_one_call(own_redis: EmbeddedRedis) -> None:
    timeline = Timeline(own_redis.url, "topic", buckets=1)
    theirs, ours = timeline.producer("them"), timeline.producer("us")
    theirs.create([Message(b"x" * 20_000, id=f"t{n}") for n in range(600)])
    ours.create([Message("ours", id="o")])
    with Redis.from_url(own_redis.url) as client:
        before = scripts(client)
        page, cursor = ours.list(10)
        assert scripts(client) - before >= 600 / 40, "steps stay small"
    assert ([it.id for it in page], cursor) == (["o"], "")


@pytest.mark.parametrize("buckets", [1, 40])
def test_c5_a_consumer_counts_how_many_are_due_in_its_buckets_however_many(
    shared_redis: EmbeddedRedis, hands: Hands, buckets: int
) -> None:
    timeline = timed(shared_redis.url, buckets=buckets)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message(n, id=f"m{n}") for n in range(300)])
    producer.create([Message(n, delay=60) for n in range(100)])
    first = consumer.lease(10, for_=10)
    assert consumer.due == 290, "what it received as it leased"
    others = timeline.consumer("other").lease(50, for_=1)
    assert consumer.due == 290, "it makes no call"
    consumer._serving.look()
    assert consumer.due == 300 - len(first) - len(others)
    hands.turn(2_000)
    consumer._serving.look()
    assert consumer.due == 290, "a lease that has ended is due as well"
