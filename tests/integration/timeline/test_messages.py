"""Operations of producers on messages, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis

from dispatcher.timeline import (
    AlreadyGone,
    BucketCountError,
    Created,
    Deleted,
    Duplicate,
    Invalid,
    Leased,
    Message,
    Moved,
    NotFound,
    NotOwner,
    Snapshot,
    Status,
    TimeInPast,
    Timeline,
    TimelineUnavailableError,
    VersionConflict,
)
from limiters.embedded import EmbeddedRedis
from tests.servers.proxy import Proxy
from tests.timelines import START_MS, Hands, timed


@pytest.fixture
def hands(shared_redis: EmbeddedRedis) -> Iterator[Hands]:
    made = Hands(shared_redis.url)
    yield made
    made.close()


def test_t1_an_id_that_exists_is_a_duplicate_and_changes_nothing(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    producer = timed(shared_redis.url).producer("us")
    first = producer.create([Message("one", delay=5, id="x")])
    assert first == [Created("x", START_MS + 5_000, 1)]
    again = producer.create([Message("two", delay=9, id="x"), Message("three", id="x")])
    told = Duplicate("x", Status.WAITING, START_MS + 5_000, 1, 0)
    assert again == [told, told]
    assert producer.get(["x"]) == [Snapshot("x", "one", Status.WAITING, START_MS + 5_000, 1, 0)]
    hands.turn(5_000)
    [twice] = timed(shared_redis.url).producer("others").create([Message("four", id="x")])
    assert twice == Duplicate("x", Status.NEW, START_MS + 5_000, 1, 0)


def test_t1_twice_in_one_call(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    producer = timed(shared_redis.url).producer("us")
    created, duplicate = producer.create([Message(1, delay=1, id="x"), Message(2, id="x")])
    assert created.ok
    assert duplicate == Duplicate("x", Status.WAITING, START_MS + 1_000, 1, 0)
    assert timed(shared_redis.url).stats().created == 1


def test_t1_after_a_lost_reply_the_same_messages_are_duplicates(proxy: Proxy) -> None:
    timeline = Timeline(proxy.url, "topic")
    producer = timeline.producer("us")
    producer.create([Message("so that the script is loaded")])
    messages = [Message(number) for number in range(50)]
    proxy.lose_next_reply("EVALSHA")
    with pytest.raises(TimelineUnavailableError, match="cuts the connection"):
        producer.create(messages)
    again = producer.create(messages)
    assert {type(outcome) for outcome in again} == {Duplicate}
    assert timeline.stats().created == 51


def test_t4_a_delete_repeated_after_a_lost_reply_says_already_gone(proxy: Proxy) -> None:
    timeline = Timeline(proxy.url, "topic", remember_deleted=60)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("a", id="a"), Message("b", id="b"), Message("c")])
    consumer.delete(consumer.lease(1, for_=30))
    leases = consumer.lease(10, for_=30)
    proxy.lose_next_reply("EVALSHA")
    with pytest.raises(TimelineUnavailableError):
        consumer.delete(leases[0])
    assert consumer.delete(leases[0]) == [AlreadyGone(leases[0].id)]
    producer.delete(["nothing"])
    producer.create([Message("d", delay=60, id="d")])
    proxy.lose_next_reply("EVALSHA")
    with pytest.raises(TimelineUnavailableError):
        producer.delete(["d"])
    assert producer.delete(["d", "never"]) == [AlreadyGone("d"), NotFound("never")]


def test_t1_a_remembered_id_stays_a_duplicate(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url, remember_deleted=10)
    producer = timeline.producer("us")
    producer.create([Message("a", id="x")])
    producer.delete(["x"])
    hands.turn(9_999)
    assert producer.create([Message("a", id="x")]) == [Duplicate("x", Status.DELETED, 0, 0, 0)]
    assert timeline.stats().remembered == 1
    hands.turn(1)
    [created] = producer.create([Message("a", id="x")])
    assert created.ok
    assert timeline.sweep() == 1


def test_t5_the_owner_moves_reads_and_deletes(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    producer = timed(shared_redis.url).producer("us")
    producer.create([Message({"n": 1}, delay=5, id="x")])
    assert producer.move(["x"], delay=7) == [Moved("x", START_MS + 7_000, 2)]
    at = datetime.fromtimestamp((START_MS + 9_000) / 1000, UTC)
    [moved] = producer.move([("x", 2)], at=at)
    assert moved == Moved("x", START_MS + 9_000, 3)
    assert producer.move([("x", 2)], delay=1) == [VersionConflict("x", 3)]
    assert producer.delete([("x", 2)]) == [VersionConflict("x", 3)]
    assert producer.get([("x", 4)]) == [VersionConflict("x", 3)]
    [snapshot] = producer.get([("x", 3)])
    assert snapshot == Snapshot("x", {"n": 1}, Status.WAITING, START_MS + 9_000, 3, 0)
    assert isinstance(snapshot, Snapshot)
    assert producer.delete([snapshot]) == [Deleted("x")]
    assert producer.delete(["x", "x"]) == [NotFound("x"), NotFound("x")]


def test_t5_others_may_not(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("body", delay=5, id="x")])
    for group in ("them", "u", "uss", "us\0"[:2] + "x"):
        them = timeline.producer(group)
        assert them.move(["x"], delay=0) == [NotOwner("x")]
        assert them.delete(["x"]) == [NotOwner("x")]
        assert them.get(["x"]) == [NotOwner("x")]
        assert them.list() == ([], "")
    assert timeline.producer("us").get(["x"])[0].ok


def test_t5_not_while_a_lease_lives(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("body", id="x")])
    [lease] = consumer.lease(1, for_=2)
    leased = [Leased("x", START_MS + 2_000)]
    hands.turn(1_999)
    assert producer.move(["x"], delay=0) == leased
    assert producer.delete(["x"]) == leased
    assert producer.get(["x"]) == leased
    [listed], _ = producer.list()
    assert (listed.status, listed.body) == (Status.PROCESSING, None)
    hands.turn(1)
    [snapshot] = producer.get(["x"])
    assert snapshot == Snapshot("x", "body", Status.LOST, START_MS + 2_000, 2, 1)
    assert producer.move(["x"], delay=0) == [Moved("x", START_MS + 2_000, 3)]
    assert lease.version == 2


def test_t4_a_move_into_the_past_is_refused(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("body", id="x")])
    assert producer.move(["x"], at=START_MS - 1) == [TimeInPast("x", START_MS)]
    assert producer.move(["x"], at=START_MS) == [Moved("x", START_MS, 2)]
    [lease] = consumer.lease(1, for_=2)
    assert consumer.release(lease, at=START_MS - 1) == [TimeInPast("x", START_MS)]
    assert consumer.release(lease, at=START_MS)[0].ok


def test_a_message_created_for_the_past_is_due_immediately(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("late", at=START_MS - 60_000)])
    assert timeline.stats().backlog_age == pytest.approx(60, abs=1)
    assert [lease.due for lease in timeline.consumer("c").lease(5, for_=1)] == [START_MS - 60_000]


def test_t8_bad_ones_do_not_disturb_the_others(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    producer = timed(shared_redis.url, buckets=16).producer("us")
    bad: list[Any] = [
        (Message("x" * 300_000, id="a"), "body must be at most 262144 bytes, not 300000"),
        (Message("x", at=START_MS // 1000, id="b"), "at must be in milliseconds, but 1800000000"),
        (Message({1, 2}, id="c"), "body must be bytes, a str, or what JSON can say, not a set"),
        (Message("x", id="~zzthatisofanother!"), "id must not begin with '~'"),
        (Message("x", id="~zz" + "0" * 17), "and the topic has only 16"),
        (Message("x", delay=-1, id="e"), "delay must be zero or more"),
        (Message("x", id=7), "id must be a text"),  # type: ignore[arg-type]
    ]
    good = Message("fine", delay=1)
    outcomes = producer.create([*(message for message, _ in bad), good])
    for outcome, (_, says) in zip(outcomes, bad, strict=False):
        assert isinstance(outcome, Invalid)
        assert says in outcome.reason
    assert isinstance(outcomes[-1], Created)
    assert producer.delete([7, good.id, "~"])[1] == Deleted(str(good.id))  # type: ignore[list-item]


def test_t8_one_may_stand_alone(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    producer = timeline.producer("us")
    [created] = producer.create(Message("x", delay=60, id="abc"))
    [found] = producer.get("abc")
    assert isinstance(found, Snapshot)
    assert timeline.operator().get("abc") == [found]
    [moved] = producer.move(found, delay=90)
    assert isinstance(moved, Moved)
    assert [created.ok, producer.delete(moved)] == [True, [Deleted("abc")]]


def test_what_is_no_message_is_refused(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    with pytest.raises(ValueError, match="messages must be Messages, not 'x'"):
        timeline.producer("us").create(["x"])  # type: ignore[list-item]


def test_t8_more_than_one_script_works_on_and_in_order(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    messages = [Message(number, id=f"n-{number}") for number in range(3_000)]
    messages += [Message(number) for number in range(3_000, 4_000)]
    outcomes = producer.create(messages)
    assert [outcome.id for outcome in outcomes] == [message.id for message in messages]
    assert all(outcome.ok for outcome in outcomes)
    snapshots = producer.get([outcome.id for outcome in outcomes])
    assert [getattr(snapshot, "body", None) for snapshot in snapshots] == list(range(4_000))
    leases = consumer.lease(5_000, for_=60)
    assert sorted(lease.body for lease in leases) == list(range(4_000))
    assert [outcome.id for outcome in consumer.extend(leases, 90)] == [it.id for it in leases]
    assert {type(outcome) for outcome in consumer.delete(leases)} == {Deleted}


def test_t10_large_bodies_are_read_in_several_steps(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=1)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    messages = [Message(bytes([number]) * 250_000, id=str(number)) for number in range(12)]
    assert all(outcome.ok for outcome in producer.create(messages))
    snapshots = producer.get([str(number) for number in range(12)])
    assert [getattr(it, "body", b"?")[:1] for it in snapshots] == [bytes([n]) for n in range(12)]
    assert len(consumer.lease(12, for_=60)) == 12
    assert len(consumer.active()) == 12


def test_listing_finds_all_in_small_steps(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=8)
    timeline.producer("them").create([Message("theirs", id=f"t{n}") for n in range(500)])
    producer = timeline.producer("us")
    producer.create([Message("ours", id=f"o{n}") for n in range(700)])
    found: set[str] = set()
    cursor, calls = "", 0
    while True:
        page, cursor = producer.list(100, cursor)
        found |= {snapshot.id for snapshot in page}
        calls += 1
        if not cursor:
            break
    assert found == {f"o{n}" for n in range(700)}
    assert calls >= 4
    with pytest.raises(ValueError, match="cursor must be one"):
        producer.list(100, "nonsense")


def test_t11_another_number_of_buckets_is_refused(shared_redis: EmbeddedRedis) -> None:
    assert Timeline(shared_redis.url, "topic", buckets=16).buckets == 16
    assert Timeline(shared_redis.url, "topic").buckets == 16
    assert Timeline(shared_redis.url, "other").buckets == 64
    wrong = Timeline(shared_redis.url, "topic", buckets=32)
    for _ in range(2):
        with pytest.raises(BucketCountError, match=r"buckets is 32, but the topic 'topic' .* 16"):
            wrong.producer("us").create([Message("x")])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topic": "a{b}"}, "topic must be without braces, not 'a{b}'"),
        ({"topic": ""}, "topic must be a text"),
        ({"prefix": "{x}"}, "prefix must be without braces"),
        ({"buckets": 0}, "buckets must be at least 1, not 0"),
        ({"buckets": 5_000}, "buckets must be at most 4096, not 5000"),
        ({"buckets": 2.5}, "buckets must be a whole number"),
        ({"max_attempts": 0}, "max_attempts must be at least 1"),
        ({"remember_deleted": -1}, "remember_deleted must be zero or more"),
        ({"timeout": 0}, "timeout must be more than zero"),
        ({"url_or_client": "http://x"}, "url_or_client must begin with"),
    ],
)
def test_what_a_timeline_is_not_made_of(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Timeline(**{"url_or_client": "redis://nowhere", "topic": "topic", **options})


def test_passwords_never_show() -> None:
    timeline = Timeline("redis://user:hunter2@127.0.0.1:1/0?socket_timeout=0.1", "topic")
    shown = [repr(timeline), timeline.where, repr(timeline.consumer("c"))]
    with pytest.raises(TimelineUnavailableError) as caught:
        timeline.producer("us").create([Message("x")])
    assert "hunter2" not in " ".join([*shown, str(caught.value), repr(timeline.producer("us"))])
    assert "refuses connections" in str(caught.value)


def test_a_client_that_decodes_is_used_as_it_is(shared_redis: EmbeddedRedis) -> None:
    with Redis.from_url(shared_redis.url, decode_responses=True) as client:
        timeline = Timeline(client, "topic")
        timeline.producer("us").create([Message(b"\xff\xfe", id="é")])
        consumer = timeline.consumer("ü")
        [lease] = consumer.lease(5, for_=5)
        assert (lease.id, lease.body) == ("é", b"\xff\xfe")
        assert consumer.buckets
        assert timeline.producer("us").list()[1] == ""
        timeline.close()
        assert client.ping()
