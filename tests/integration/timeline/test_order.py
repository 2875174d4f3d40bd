"""The order in which messages are served: by due time across buckets, and by consumers with
room."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import pytest

from dispatcher.timeline import Consumer, Leases, Message, Timeline
from dispatcher.timeline._encoding.ids import bucket_of
from limiters.embedded import EmbeddedRedis
from tests.timelines import START_MS, Hands, timed
from tests.waiting import LONG, until

OVERTAKEN_MS = 1_000


@pytest.fixture
def hands(shared_redis: EmbeddedRedis) -> Iterator[Hands]:
    made = Hands(shared_redis.url)
    yield made
    made.close()


def overtaken_by(served: list[int]) -> float:
    """By how much a message was overtaken at most, in the order in which they were served."""
    latest, most = served[0], 0
    for due in served:
        most = max(most, latest - due)
        latest = max(latest, due)
    return most


@pytest.mark.parametrize("apart_ms", [1, 40, 700])
def test_a_backlog_is_served_by_due_time_whatever_its_buckets(
    shared_redis: EmbeddedRedis, hands: Hands, apart_ms: int
) -> None:
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    messages = [Message(n, id=f"n{n}", at=START_MS + n * apart_ms) for n in range(1_600)]
    assert all(it.ok for it in producer.create(messages))
    hands.turn(1_600 * apart_ms)
    served: list[int] = []
    while leases := consumer.lease(70, for_=3_600):
        served += [lease.due for lease in leases]
    assert len(served) == 1_600
    assert overtaken_by(served) <= OVERTAKEN_MS


def test_lost_messages_have_their_place_in_that_order(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    """It is when they became due again."""
    timeline = timed(shared_redis.url)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("lost", id=f"l{n}") for n in range(40)])
    assert len(consumer.lease(40, for_=10)) == 40
    producer.create([Message(n, id=f"n{n}", delay=n) for n in range(30)])
    hands.turn(30_000)
    served: list[int] = []
    while leases := consumer.lease(7, for_=3_600):  # in each call they go by their first time
        served += sorted(START_MS + 10_000 if it.attempt == 2 else it.due for it in leases)
    assert len(served) == 70
    assert overtaken_by(served) <= OVERTAKEN_MS


def test_what_another_polls_too_late_is_leased_by_one_that_has_room(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    busy, free = timeline.consumer("a"), timeline.consumer("b")
    assert busy.buckets
    assert len(free.buckets) == 32
    timeline.producer("us").create([Message(n, id=str(n)) for n in range(100)])
    assert 20 < len(free.lease(1_000, for_=60)) < 80, "its own immediately"
    hands.turn(20)
    assert len(free.lease(1_000, for_=60)) > 20


class Subscriber:
    """A consumer's `subscribe` on a thread. While it is `held`, its function does not return."""

    def __init__(self, timeline: Timeline, name: str) -> None:
        self.consumer: Consumer = timeline.consumer(name)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.room = 10
        self.served: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.consumer.subscribe(self._take, limit=lambda: self.room)

    def _take(self, leases: Leases) -> None:
        self.served += [lease.id for lease in leases]
        self.consumer.delete(leases)
        self.may_go_on.wait(LONG)

    def stop(self) -> None:
        self.may_go_on.set()
        self.consumer.close()
        self._thread.join(LONG)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that are left to the owner of their bucket are left without end, within the time of
    a test."""
    monkeypatch.setattr("dispatcher.timeline._leasing.agenda.PATIENCE_MS", 1e9)
    monkeypatch.setattr("dispatcher.timeline._leasing.serving.PATIENCE_MS", 1e9)
    monkeypatch.setattr("dispatcher.timeline._leasing.members.COUNTS_FOR_MS", 10 * int(LONG) * 1000)


@pytest.fixture
def both(shared_redis: EmbeddedRedis, patient: None) -> Iterator[tuple[Subscriber, Subscriber]]:
    timeline = Timeline(shared_redis.url, "topic")
    made = Subscriber(timeline, "a"), Subscriber(timeline, "b")
    try:
        until(lambda: [len(it.consumer.buckets) for it in made] == [32, 32])
        yield made
    finally:
        for one in made:
            one.stop()


@pytest.mark.usefixtures("patient")
def test_a_busy_consumers_messages_are_served_by_one_that_has_room(
    shared_redis: EmbeddedRedis, both: tuple[Subscriber, Subscriber]
) -> None:
    producer = Timeline(shared_redis.url, "topic").producer("us")
    busy, free = both
    busy.may_go_on.clear()
    names = [f"first-{n}" for n in range(20)]
    producer.create([Message("x", id=name) for name in names])
    until(lambda: busy.served and set(busy.served + free.served) == set(names))
    # From here on it serves nothing.
    later = [f"later-{n}" for n in range(50)]
    for name in later:
        producer.create([Message("x", id=name)])
    until(lambda: set(later) <= set(free.served))
    assert not set(later) & set(busy.served)


@pytest.mark.usefixtures("patient")
def test_a_consumer_without_room_leaves_its_messages_to_others_until_it_has_some(
    shared_redis: EmbeddedRedis, both: tuple[Subscriber, Subscriber]
) -> None:
    producer = Timeline(shared_redis.url, "topic").producer("us")
    busy, free = both
    for turn in range(2):
        busy.room = 0
        busy.consumer.look_again()
        names = [f"{turn}-{n}" for n in range(30)]
        producer.create([Message("x", id=name, delay=0.2) for name in names])
        until(functools.partial(has_served, free, names))
        before = len(busy.served)
        busy.room = 10
        busy.consumer.look_again()

        def serves_again(before: int = before) -> bool:
            producer.create([Message("x")])
            return len(busy.served) > before

        until(serves_again)


def has_served(subscriber: Subscriber, names: list[str]) -> bool:
    return set(names) <= set(subscriber.served)


def test_t11_what_is_due_in_another_bucket_comes_however_much_there_is_in_one(
    shared_redis: EmbeddedRedis,
) -> None:
    """A caller of `lease` whose limit is always reached still sees what was created meanwhile."""
    timeline = Timeline(shared_redis.url, "topic", buckets=4)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    names = [f"n{number}" for number in range(100)]
    first = next(name for name in names if bucket_of(name, 4) == 0)
    older = next(name for name in names if bucket_of(name, 4) == 1)
    producer.create([Message(None, id=first)])

    def comes() -> bool:
        leases = consumer.lease(1, for_=30)
        consumer.release(leases, delay=0)
        return [lease.id for lease in leases] == [older]

    assert not comes()
    producer.create([Message(None, id=older, at=1_000_000_000_000)])
    until(comes)
    timeline.close()
