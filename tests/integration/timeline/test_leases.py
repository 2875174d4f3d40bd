"""Operations of consumers: leases, their ends, and the messages afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from dispatcher.timeline import (
    AlreadyGone,
    BucketCountError,
    Buried,
    Bury,
    Consumer,
    Delete,
    Deleted,
    Ending,
    Extended,
    Lease,
    LeaseExpired,
    LeaseLost,
    Message,
    NotFound,
    Released,
    ReleaseLease,
    Status,
    TimeInPast,
    Timeline,
)
from dispatcher.timeline._leasing.wake_signal import MOST_UNHEARD, ConsumerSignal
from dispatcher.timeline.outcomes import MessageOutcome
from limiters.embedded import EmbeddedRedis
from tests.logged import told_of
from tests.servers.proxy import Proxy
from tests.timelines import START_MS, Hands, timed
from tests.waiting import LONG, until


@pytest.fixture
def hands(shared_redis: EmbeddedRedis) -> Iterator[Hands]:
    made = Hands(shared_redis.url)
    yield made
    made.close()


def names(outcomes: list[MessageOutcome]) -> set[str]:
    return {type(outcome).__name__ for outcome in outcomes}


def insist(consumer: Consumer) -> None:
    """Make it ask the server, although by its own times nothing is due."""
    for bucket in range(consumer._topic.buckets):
        consumer._serving.agenda.learn(bucket, [0] * 5, [0] * 5)


def test_leases_end_in_ways_that_differ_in_one_call(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url, buckets=1)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message(name, id=name) for name in "abcdefg"])
    leases = {it.id: it for it in consumer.lease(10, for_=10)}
    consumer.delete(leases["g"])
    endings: dict[str, Ending] = {
        "a": Delete(),
        "b": ReleaseLease(delay=5),
        "c": ReleaseLease(at=START_MS + 7_000, attempted=False),
        "d": Bury("no such user"),
        "e": Bury("malformed"),
        "f": ReleaseLease(at=START_MS - 1_000),
        "g": Bury("too late"),
    }
    outcomes = consumer.settle([(leases[name], ending) for name, ending in endings.items()])
    assert [type(it) for it in outcomes] == [
        *(Deleted, Released, Released, Buried, Buried, TimeInPast, NotFound)
    ]
    assert [it.id for it in outcomes] == list(endings)
    dead, _ = timeline.dead(10)
    assert {it.id: it.reason for it in dead} == {"d": "no such user", "e": "malformed"}
    hands.turn(8_000)
    again = {it.id: it.attempt for it in consumer.lease(10, for_=10)}
    assert again == {"b": 2, "c": 1}
    [twice, other] = consumer.settle([(leases["f"], ReleaseLease()), (leases["f"], Delete())])
    assert (type(twice), type(other)) == (Released, LeaseLost), "the first one counts"


def test_t2_never_early_by_the_servers_clock(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", delay=0.010, id="x")])
    consumer = timeline.consumer("c")
    hands.turn(9)
    assert consumer.lease(1, for_=1) == []
    hands.turn(1)
    assert [lease.due for lease in consumer.lease(1, for_=1)] == [START_MS + 10]


def test_t2_not_even_by_a_part_of_a_millisecond(shared_redis: EmbeddedRedis) -> None:
    hands = Hands(shared_redis.url)
    hands._client.set("tests:now_us", START_MS * 1000 + 1)
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", delay=0.001, id="x")])
    consumer = timeline.consumer("c")
    hands._client.set("tests:now_us", START_MS * 1000 + 1_000)
    assert consumer.lease(1, for_=1) == [], "999 microseconds later"
    hands._client.set("tests:now_us", START_MS * 1000 + 2_000)
    [lease] = consumer.lease(1, for_=0.001)
    hands._client.set("tests:now_us", START_MS * 1000 + 2_999)
    assert consumer.extend(lease, 0.001)[0].ok
    hands.close()


def test_t2_what_clients_take_for_the_time_changes_nothing(
    shared_redis: EmbeddedRedis, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", delay=10, id="x")])
    consumer = timeline.consumer("c")
    monkeypatch.setattr(time, "time", lambda: 4e9)
    insist(consumer)
    assert consumer.lease(1, for_=1) == []


def test_t3_one_lease_at_a_time(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", id="x")])
    one, two = timeline.consumer("one"), timeline.consumer("two")
    [first] = one.lease(5, for_=2)
    assert (first.until, first.attempt, first.version) == (START_MS + 2_000, 1, 2)
    hands.turn(1_999)
    for consumer in (one, two):
        insist(consumer)
        assert consumer.lease(5, for_=2) == []
    hands.turn(1)
    assert one.extend(first, 5) == [LeaseExpired("x", START_MS + 2_000)]
    assert one.delete(first) == [LeaseExpired("x", START_MS + 2_000)]
    assert one.release(first) == [LeaseExpired("x", START_MS + 2_000)]
    hands.turn(1_000)
    [second] = two.lease(5, for_=2)
    assert (second.attempt, second.token > first.token) == (2, True)
    for outcomes in (one.extend(first, 5), one.delete(first), one.release(first)):
        assert outcomes == [LeaseLost("x")]
    assert two.delete(second) == [Deleted("x")]
    assert one.delete(first) == [AlreadyGone("x")]
    assert one.extend(first, 1) + one.release(first) == [NotFound("x"), NotFound("x")]


def test_t3_a_stale_lease_is_lost_on_a_message_of_the_same_id(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("x", id="x")])
    [old] = consumer.lease(1, for_=10)
    consumer.delete(old)
    producer.create([Message("x", id="x")])
    assert names(consumer.delete(old)) == {"LeaseLost"}
    [new] = consumer.lease(1, for_=10)
    assert names(consumer.delete(old)) == {"LeaseLost"}
    assert names(consumer.delete(new)) == {"Deleted"}


def test_t3_tokens_go_on_after_the_server_forgot(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    consumer = timeline.consumer("c")
    tokens = []
    for _ in range(3):
        timeline.producer("us").create([Message("x", id="x")])
        tokens.append(consumer.lease(1, for_=1)[0].token)
        hands._client.flushall()
        hands.turn(1)
    assert tokens == sorted(set(tokens))


def test_t4_extend_never_shortens(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", id="x")])
    consumer = timeline.consumer("c")
    [lease] = consumer.lease(1, for_=60)
    ends = lease._ends
    assert consumer.extend(lease, 1) == [Extended("x", START_MS + 60_000, 3)]
    assert lease._ends == ends
    assert consumer.extend([lease], 90) == [Extended("x", START_MS + 90_000, 4)]
    assert (lease.until, lease.version) == (START_MS + 90_000, 4)
    assert lease._ends > ends + 29
    hands.turn(89_999)
    assert timeline.consumer("d").lease(1, for_=1) == []


def test_t4_release_to_any_time_from_now_on(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", id="x")])
    consumer = timeline.consumer("c")
    [lease] = consumer.lease(1, for_=60)
    assert consumer.release(lease, delay=3) == [Released("x", START_MS + 3_000, 3)]
    assert consumer.extend(lease, 3) == [LeaseLost("x")]
    hands.turn(2_999)
    assert consumer.lease(1, for_=1) == []
    hands.turn(1)
    [again] = consumer.lease(1, for_=1)
    assert (again.attempt, again.version, again.due) == (2, 4, START_MS + 3_000)


def test_t5_ids_bodies_and_owners_never_change_and_versions_grow(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message({"b": 1}, id="x")])
    versions = [1]
    for _ in range(3):
        [lease] = consumer.lease(1, for_=5)
        versions.append(lease.version)
        assert lease.body == {"b": 1}
        consumer.extend(lease, 6)
        versions.append(lease.version)
        [found] = consumer.active()
        versions.append(found.version)
        hands.turn(6_000)
        versions.append(producer.move(["x"], delay=0)[0].version)  # type: ignore[attr-defined]
    assert versions == list(range(1, 14))


def test_t6_who_comes_back_gets_its_leases_with_new_tokens(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message(n, id=str(n)) for n in range(300)])
    old, other = timeline.consumer("c"), timeline.consumer("cc")
    held = old.lease(250, for_=10)
    old.delete(held[:10])
    old.release(held[10:20], delay=1)
    short = other.lease(50, for_=1)
    hands.turn(500)
    back = timeline.consumer("c")
    asked = time.monotonic()
    found = back.active()
    assert {lease.id for lease in found} == {lease.id for lease in held[20:]}
    assert {lease.until for lease in found} == {START_MS + 10_000}
    assert {lease.attempt for lease in found} == {1}
    left = [lease.remaining for lease in found]
    assert max(left) <= 9.5
    assert min(left) > 9.5 - (time.monotonic() - asked) - 0.1
    assert names(old.extend(held[20:], 99)) == {"LeaseLost"}
    assert names(old.delete(held[20:])) == {"LeaseLost"}
    assert names(back.extend(found, 20)) == {"Extended"}
    hands.turn(600)
    assert names(other.delete(short)) == {"LeaseExpired"}
    assert other.active() == []


def test_t6_what_another_consumer_has_by_now_is_not_returned(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    timeline.producer("us").create([Message("x", id="x")])
    one, two = timeline.consumer("one"), timeline.consumer("two")
    one.lease(1, for_=1)
    hands.turn(2_000)
    assert len(two.lease(1, for_=1)) == 1
    assert one.active() == []
    assert len(two.active()) == 1


def test_t7_what_is_leased_too_often_is_dead(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url, max_attempts=2)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("bad", id="bad"), Message("good", id="good")])
    for _ in range(2):
        for lease in consumer.lease(10, for_=1):
            if lease.id == "good":
                consumer.delete(lease)
        hands.turn(1_000)
    assert consumer.lease(10, for_=1) == []
    stats = timeline.stats()
    assert (stats.dead, stats.remaining, stats.created, stats.deleted) == (1, 0, 2, 1)
    [dead], cursor = timeline.dead()
    assert (dead.id, dead.body, dead.status, dead.attempts) == ("bad", "bad", Status.DEAD, 2)
    assert cursor == ""
    assert producer.get(["bad"])[0].ok
    assert producer.move([dead], delay=0)[0].ok
    [again] = consumer.lease(10, for_=1)
    assert (again.id, again.attempt) == ("bad", 1)
    hands.turn(1_000)
    assert timed(shared_redis.url)._topic.settings.most_attempts == 2, "it is stored"


def test_t7_the_dead_do_not_block_the_living(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url, max_attempts=1, buckets=1)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message(n, id=f"bad-{n}") for n in range(450)])
    consumer.lease(450, for_=1)
    hands.turn(1_000)
    producer.create([Message("good", id="good")])
    assert [lease.id for lease in consumer.lease(10, for_=1)] == ["good"]
    assert timeline.stats().dead == 450
    assert producer.delete([f"bad-{n}" for n in range(450)])[-1] == Deleted("bad-449")


def test_t7_many_that_die_are_no_flood_in_the_log(
    shared_redis: EmbeddedRedis, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = timed(shared_redis.url, max_attempts=1)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("bad") for _ in range(640)])
    while consumer.lease(640, for_=1):
        pass
    hands.turn(1_000)
    while timeline.stats().dead < 640:
        consumer.lease(10, for_=1)
    told = told_of("messages-dead", caplog)
    assert 10 <= len(told) <= 10 * (2 + (told[-1]["created"] - told[0]["created"]) // 10)


def test_t8_each_lease_of_a_call_is_answered_for(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message(n, id=n) for n in "abcd"])
    leases = {lease.id: lease for lease in consumer.lease(10, for_=1)}
    hands.turn(500)
    assert consumer.extend(leases["a"], 1)[0].ok
    assert consumer.delete(leases["b"])[0].ok
    hands.turn(500)
    taken = timeline.consumer("d").lease(1, for_=1)
    outcomes = consumer.delete([leases[n] for n in "abcd"] + [leases["a"]])
    expected = {"a": "Deleted", "b": "AlreadyGone", "c": "LeaseExpired", "d": "LeaseExpired"}
    expected |= {lease.id: "LeaseLost" for lease in taken}
    assert [type(it).__name__ for it in outcomes] == [*(expected[n] for n in "abcd"), "AlreadyGone"]
    with pytest.raises(ValueError, match="leases must be what lease"):
        consumer.delete(["a"])  # type: ignore[list-item]


def test_t13_a_sleeper_is_woken_by_an_earlier_create(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._leasing.subscription.LOOK_AGAIN", 3 * LONG)
    timeline = Timeline(shared_redis.url, "topic")
    producer = timeline.producer("us")
    producer.create([Message("far", delay=3_600)])
    with Subscription(timeline, for_=5 * LONG) as seen:
        until(lambda: seen.listens())
        producer.create([Message("soon", delay=0.05), Message("sooner")])
        until(lambda: [lease.body for lease in seen.leases] == ["sooner", "soon"])
        assert min(it.until - 5 * LONG * 1000 - it.due for it in seen.leases) >= 0


def test_t13_a_lost_wakeup_is_survived(proxy: Proxy) -> None:
    timeline = Timeline(proxy.url, "topic")
    with Subscription(timeline, channel=b"a channel without messages") as seen:
        until(lambda: seen.listens())
        timeline.producer("us").create([Message("x")])
        until(lambda: [lease.body for lease in seen.leases] == ["x"])
        proxy.cut()
        timeline.producer("us").create([Message("y")])
        until(lambda: [lease.body for lease in seen.leases] == ["x", "y"])


def test_a_subscriber_that_nothing_would_run_is_refused(proxy: Proxy) -> None:
    async def handle(due: object) -> None: ...

    timeline = Timeline(proxy.url, "topic")
    consumer = timeline.consumer("c")
    for fn in (handle, lambda leases: (yield)):
        with pytest.raises(ValueError, match="fn must"):
            consumer.subscribe(fn, for_=LONG)
    with pytest.raises(ValueError, match="fn must be a plain function"):
        timeline.watch_lateness(handle)


def test_t13_who_subscribes_before_redis_is_there_may_be_asked_to_look_again(proxy: Proxy) -> None:
    proxy.refuse()
    timeline = Timeline(proxy.url, "topic")
    consumer = timeline.consumer("c")
    with Subscription(timeline, consumer=consumer) as seen:
        until(lambda: consumer.reachable is False)
        for _ in range(3):
            consumer.look_again()
            until(lambda: consumer._bell._heard.empty())
        proxy.accept()
        timeline.producer("us").create([Message("x")])
        until(lambda: [lease.body for lease in seen.leases] == ["x"])


def test_t13_wake_ups_without_a_listener_are_bounded_and_not_missed() -> None:
    bell = ConsumerSignal()
    for number in range(3 * MOST_UNHEARD):
        bell.ring((0, number))
        bell.wake()
    heard, has_missed = bell.listen(0)
    assert len(heard) == MOST_UNHEARD
    assert has_missed, "it has to look by itself"
    assert bell.listen(0) == ([], False)


def test_t13_it_does_not_poll(proxy: Proxy) -> None:
    timeline = Timeline(proxy.url, "topic")
    timeline.producer("us").create([Message("in half a second", delay=0.5)])
    with Subscription(timeline) as seen:
        until(lambda: seen.listens())
        before = proxy.requests["EVALSHA"] + proxy.requests["EVAL"]
        until(lambda: seen.leases)
        assert proxy.requests["EVALSHA"] + proxy.requests["EVAL"] - before < 15


def test_t13_a_function_that_raises_harms_nothing(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    consumer = timeline.consumer("c")
    calls: list[int] = []

    def work(leases: list[Lease]) -> None:
        calls.append(leases[0].attempt)
        if len(calls) == 1:
            raise RuntimeError("no luck today")
        consumer.delete(leases)
        consumer.close()

    timeline.producer("us").create([Message("x")])
    consumer.subscribe(work, for_=0.1)
    assert calls == [1, 2]
    assert "no luck today" in caplog.text


def test_t11_a_subscriber_to_a_topic_of_other_buckets_is_refused(
    shared_redis: EmbeddedRedis,
) -> None:
    assert Timeline(shared_redis.url, "topic", buckets=8).buckets == 8
    with pytest.raises(BucketCountError):
        Timeline(shared_redis.url, "topic", buckets=9).consumer("c").subscribe(print)


def test_t11_a_closed_consumer_is_missed_immediately(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    with Subscription(timeline) as seen:
        until(lambda: seen.listens())
        assert timeline.stats().consumers == 1
    assert timeline.stats().consumers == 0


def test_t7_a_subscriber_that_dies_is_replaced_before_it_is_missed(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How soon is measured by the benchmark, on a machine with time to spare."""
    monkeypatch.setattr("dispatcher.timeline._leasing.members.COUNTS_FOR_MS", 10 * int(LONG) * 1000)
    timeline = Timeline(shared_redis.url, "topic")
    dead, alive = timeline.consumer("dead"), timeline.consumer("alive")
    assert alive.buckets
    assert len(dead.buckets) == 32
    timeline.producer("us").create([Message(n, id=str(n)) for n in range(20)])
    lost = dead.lease(100, for_=1.5)
    assert lost
    ends = {lease.id: lease.until for lease in lost}
    with Subscription(timeline, consumer=alive) as seen:
        until(lambda: set(ends) <= {it.id for it in seen.leases})
    again = [it for it in seen.leases if it.id in ends]
    assert {it.attempt for it in again} == {2}
    assert all(it.until - 30_000 >= ends[it.id] for it in again)
    assert timeline.stats().consumers == 1, "that one has left, and the dead one still counts"


class Subscription:
    """A consumer's subscribe on a thread; it deletes nothing."""

    def __init__(
        self,
        timeline: Timeline,
        *,
        consumer: Consumer | None = None,
        for_: float = 30.0,
        channel: bytes | None = None,
    ) -> None:
        self._timeline = timeline
        self._consumer = consumer or timeline.consumer("c")
        if channel is not None:
            self._timeline._topic.layout.channel = channel
        self.leases: list[Lease] = []
        self._thread = threading.Thread(
            target=lambda: self._consumer.subscribe(self.leases.extend, for_=for_), daemon=True
        )

    def __enter__(self) -> Subscription:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()
        self._thread.join(LONG)
        self._timeline.close()
        assert not self._thread.is_alive()

    def listens(self) -> bool:
        """Whether it has looked and is asleep."""
        client = self._timeline._server.connection.client()
        channel = self._timeline._topic.layout.channel
        return bool(client.pubsub_numsub(channel)[0][1]) and bool(self._consumer._serving.buckets)
