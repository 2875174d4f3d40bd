"""The Timeline at its edges: times that are now, repeated calls, settings that change."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.timeline import (
    Buried,
    Delete,
    Deleted,
    Invalid,
    LeaseLost,
    Message,
    Moved,
    Released,
    Snapshot,
    Timeline,
    VersionConflict,
    message,
)
from limiters.embedded import EmbeddedRedis
from limiters.errors import ImproperOrderError
from tests.timelines import START_MS, Hands, timed
from tests.waiting import LONG, until


@pytest.fixture
def hands(shared_redis: EmbeddedRedis) -> Iterator[Hands]:
    made = Hands(shared_redis.url)
    yield made
    made.close()


def test_t2_what_is_due_now_is_leased_now(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    """The server's time is never a whole millisecond for long."""
    hands._client.set("tests:now_us", START_MS * 1000 + 1)
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("created", id="a"), Message("moved", delay=60, id="b")])
    assert producer.move(["b"], delay=0) == [Moved("b", START_MS, 2)]
    leases = consumer.lease(10, for_=30)
    assert {lease.id for lease in leases} == {"a", "b"}
    assert [it.ok for it in consumer.release(leases, delay=0)] == [True, True]
    assert len(consumer.lease(10, for_=30)) == 2


def test_t2_a_message_that_was_just_created_is_found(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    for number in range(100):
        producer.create([Message(number, delay=0)])
        leases = consumer.lease(1, for_=30)
        assert [lease.body for lease in leases] == [number]
        consumer.delete(leases)


def test_t4_a_release_repeated_after_a_lost_reply_says_what_the_first_did(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", id="x")])
    consumer = timeline.consumer("c")
    for attempted, version in ((True, 3), (False, 5)):
        [lease] = consumer.lease(1, for_=60)
        first = consumer.release(lease, delay=3, attempted=attempted)
        assert first == [Released("x", hands.now_ms + 3_000, version)]
        hands.turn(2_000)
        assert consumer.release(lease, delay=3, attempted=attempted) == first
        assert consumer.bury(lease, "no") == [LeaseLost("x")]
        assert consumer.extend(lease, 9) == consumer.delete(lease) == [LeaseLost("x")]
        hands.turn(1_000)
    [lease] = consumer.lease(1, for_=60)
    assert lease.attempt == 2


def test_t4_a_give_up_repeated_after_a_lost_reply_says_what_the_first_did(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("x", id="x")])
    [lease] = consumer.lease(1, for_=60)
    assert consumer.bury(lease, "no such user") == [Buried("x", 3)]
    hands.turn(90_000)
    assert consumer.bury(lease, "no such user") == [Buried("x", 3)]
    assert consumer.release(lease) == [LeaseLost("x")]
    assert timeline.stats().given_up == 1
    assert [it.reason for it in timeline.dead()[0]] == ["no such user"]


def test_t4_a_repeated_release_is_lost_once_the_message_has_moved_on(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("x", id="x")])
    [first] = consumer.lease(1, for_=60)
    consumer.release(first)
    [second] = consumer.lease(1, for_=60)
    assert consumer.release(first) == [LeaseLost("x")]
    assert consumer.release(second)[0].ok
    assert producer.move(["x"], delay=9)[0].ok
    assert consumer.release(second) == [LeaseLost("x")], "its owner has moved it since"


def test_t5_a_pair_is_one_message_at_a_version(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    producer = timed(shared_redis.url).producer("us")
    producer.create([Message("x", id="a", delay=5), Message("y", id="b", delay=5)])
    producer.move("a", delay=6)
    stale = [VersionConflict("a", 2)]
    assert producer.delete(("a", 1)) == stale
    assert producer.move(("a", 1), delay=1) == stale
    assert producer.get(("a", 1)) == stale
    assert [type(it) for it in producer.get(("a", "b"))] == [Snapshot, Snapshot]
    [snapshot] = producer.get(("a", 2))
    assert isinstance(snapshot, Snapshot)
    assert producer.delete(("a", 2)) == [Deleted("a")]


def test_t5_what_could_be_a_pair_or_two_ids_is_refused(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    producer = timeline.producer("us")
    producer.create([Message("x", id="a", delay=5)])
    pair: Any = ["a", 1]
    says = r"be no list of an id and a number, not \['a', 1\]; .* \('a', 1\)"
    for call in (producer.delete, producer.get, lambda it: producer.move(it, delay=1)):
        with pytest.raises(ValueError, match=says):
            call(pair)
    several: list[Any] = [pair, tuple(pair), [tuple(pair)]]
    for one in several:
        with pytest.raises(ValueError, match="ids must be ids alone, without versions"):
            timeline.operator().get(one)
    assert producer.get("a")[0].ok
    for version in (-1, 1.0, True, "1", 2**32):
        bad: Any = [("a", version)]
        [outcome] = producer.delete(bad)
        assert isinstance(outcome, Invalid)
        assert f"version must be a whole number, 0 for any, not {version!r}" in outcome.reason
    [snapshot] = producer.get("a")
    assert isinstance(snapshot, Snapshot)
    assert timeline.operator().move(snapshot, delay=1)[0].ok
    with pytest.raises(ValueError, match="seen must be Snapshots, not 'a'"):
        timeline.operator().delete(["a"])  # type: ignore[list-item]


def test_t9_lost_messages_are_due_too(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message(n, delay=n) for n in range(3)])
    timeline.consumer("c").lease(1, for_=1)
    assert timeline.due_within(1) == 1, "one is due, one is leased"
    hands.turn(1_000)
    assert timeline.stats().lost == 1
    assert (timeline.due_within(0), timeline.due_within(1)) == (2, 3)
    assert timeline.is_spike(more_than=2, within=1)


def test_t7_a_running_consumer_follows_changed_settings(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=4)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    assert consumer.lease(1, for_=30) == []
    changed = Timeline(shared_redis.url, "topic", max_attempts=2, remember_deleted=60)
    assert changed.max_attempts == 2

    def followed() -> bool:
        consumer.lease(1, for_=30)
        return timeline.max_attempts == 2

    until(followed)
    producer.create([Message("x", id="x"), Message("y", id="y")])
    for _ in range(2):
        leases = consumer.lease(2, for_=30)
        assert {lease.id for lease in leases} == {"x", "y"}
        consumer.release(leases, delay=0)
    assert consumer.lease(2, for_=30) == []
    assert timeline.stats().dead == 2
    assert producer.delete(["x"]) == [Deleted("x")]
    assert timeline.stats().remembered == 1


def test_t7_a_producer_alone_follows_changed_settings_too(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._server.topic.SEEN_FOR", 0.0)
    timeline = Timeline(shared_redis.url, "topic")
    producer = timeline.producer("us")
    producer.create([Message("x", id="x", delay=5)])
    assert Timeline(shared_redis.url, "topic", remember_deleted=60).buckets == 64
    assert producer.delete(["x"]) == [Deleted("x")]
    assert timeline.stats().remembered == 1


def test_t10_year_9999_can_be_looked_at(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    producer, operator = timeline.producer("us"), timeline.operator()
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    [created] = producer.create([Message("x", id="x", at=last)])
    assert created.ok
    [seen] = operator.peek()
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=seen.time) == last
    assert operator.peek(end=last) == []
    assert operator.peek(start=last) == [seen]
    assert timeline.count(START_MS, last) == 0
    assert [it.id for it in operator.list(start=last)[0]] == ["x"]
    assert timeline.stats().next_due == seen.time
    assert producer.move("x", at=last)[0].ok


def test_t11_heartbeats_go_on_after_the_servers_clock_was_set_back(
    shared_redis: EmbeddedRedis, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._leasing.members.HEARTBEAT_MS", 20)
    timeline = timed(shared_redis.url)
    one, two = timeline.consumer("one"), timeline.consumer("two")
    until(lambda: len(one.buckets) == len(two.buckets) == 32)
    hands.turn(-3_600_000)
    members = timeline._topic.layout.members

    def shown_until() -> dict[bytes, float]:
        assert one.buckets
        shown: Any = hands._client.zrange(members, 0, -1, withscores=True)
        return dict(shown)

    # "two" is gone, and is not counted for an hour because it was seen an hour from now.
    until(lambda: set(shown_until()) == {b"one"})
    assert max(shown_until().values()) < hands.now_ms + 9_000
    until(lambda: len(two.buckets) == 32 and len(one.buckets) == 32)


def test_t13_a_second_subscribe_is_refused(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    consumer = timeline.consumer("c")
    refused: list[str] = []

    def subscribe() -> None:
        try:
            consumer.subscribe(print)
        except ImproperOrderError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=subscribe, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: refused)
    finally:
        consumer.close()
        for thread in threads:
            thread.join(LONG)
    assert len(refused) == 1
    assert "'c' is subscribed already" in refused[0]
    consumer.subscribe(print)  # closed: it returns immediately


def test_t3_a_lease_call_returns_no_lease_that_has_ended(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    for _ in range(10):
        producer.create([Message("x") for _ in range(2_000)])
    now, serving = time.monotonic(), consumer._serving
    run_each = serving._topic.server.run_each

    def slowly(*arguments: Any) -> list[Any]:
        nonlocal now
        answers = run_each(*arguments)
        now += 0.03
        return answers

    monkeypatch.setattr(serving._topic.server, "run_each", slowly)
    monkeypatch.setattr(serving.clock, "_monotonic", lambda: now)
    monkeypatch.setattr(message, "time", SimpleNamespace(monotonic=lambda: now))
    for length, some in ((0.02, False), (0.05, True), (0.2, True)):
        leases = consumer.lease(20_000, for_=length)
        assert bool(leases) is some
        assert not [lease for lease in leases if lease.is_expired()]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lease: (lease, Delete),
        lambda lease: (lease, "delete"),
        lambda lease: (lease, None),
        lambda lease: (lease.id, Delete()),
        lambda lease: lease,
    ],
)
def test_what_is_no_ending_of_a_lease_is_refused_before_anything_is_done(
    shared_redis: EmbeddedRedis, hands: Hands, wrong: Any
) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message(name, id=name) for name in "ab"])
    consumer = timeline.consumer("c")
    first, second = consumer.lease(10, for_=10)
    with pytest.raises(ValueError, match=r"endings must be pairs of a lease and a Delete\(\)"):
        consumer.settle([(first, Delete()), wrong(second)])
    assert timeline.stats().processing == 2
