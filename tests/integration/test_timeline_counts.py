"""How many messages there are, by time and state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatcher.timeline import Message, Status, Timeline
from limiters.embedded import EmbeddedRedis
from tests.timelines import START_MS, Hands, timed


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
    assert timeline.due_within(2) == 4
    assert timeline.is_spike(more_than=3, within=2)
    assert not timeline.is_spike(more_than=4, within=2)


def test_t9_a_long_histogram_is_counted_in_parts(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=8)
    start = START_MS + 10**9
    timeline.producer("us").create([Message(n, at=start + n * 100) for n in range(2_000)])
    bars = timeline.histogram(start, start + 200_000, 0.2)
    assert [number for _, number in bars] == [2] * 1_000
