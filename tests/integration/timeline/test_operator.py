"""An operator's view of a topic, and its changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from dispatcher.timeline import (
    Deleted,
    Invalid,
    Leased,
    Message,
    Moved,
    NotFound,
    Operator,
    Snapshot,
    Stats,
    Status,
    Timeline,
    VersionConflict,
)
from limiters.embedded import EmbeddedRedis
from tests.servers.cluster import ClusterRedis
from tests.timelines import START_MS, Hands, timed


@pytest.fixture
def hands(shared_redis: EmbeddedRedis) -> Iterator[Hands]:
    made = Hands(shared_redis.url)
    yield made
    made.close()


@pytest.fixture
def timeline(shared_redis: EmbeddedRedis, hands: Hands) -> Timeline:
    """One message in each state, of two groups; the time of each names its place."""
    made = timed(shared_redis.url, max_attempts=1)
    consumer = made.consumer("c")
    us, them = made.producer("us"), made.producer("them")
    us.create([Message("dead", id="dead")])
    consumer.lease(1, for_=0.001)
    hands.turn(10)
    assert len(consumer.lease(1, for_=1)) == 0  # and now it is dead
    them.create([Message("lost", id="lost")])
    consumer.lease(1, for_=0.01)
    us.create([Message("processing", id="processing")])
    consumer.lease(1, for_=60)
    us.create([Message("new", id="new", delay=0.02), Message("waiting", id="waiting", delay=30)])
    hands.turn(40)
    return made


def named(snapshots: list[Snapshot]) -> list[str]:
    return [snapshot.id for snapshot in snapshots]


def test_peek_returns_the_first_by_time_and_whose_they_are(timeline: Timeline) -> None:
    seen = timeline.operator().peek()
    assert named(seen) == ["lost", "new", "waiting", "processing"]
    assert [it.status for it in seen] == [
        Status.LOST,
        Status.NEW,
        Status.WAITING,
        Status.PROCESSING,
    ]
    assert [it.group for it in seen] == ["them", "us", "us", "us"]
    assert [it.body for it in seen] == ["lost", "new", "waiting", None]
    assert [it.attempts for it in seen] == [1, 0, 0, 1]
    assert seen[1].time == START_MS + 30
    assert named(timeline.operator().peek(2)) == ["lost", "new"]


@pytest.mark.parametrize("state", [state for state in Status if state is not Status.DELETED])
def test_peek_and_list_find_one_state(timeline: Timeline, state: Status) -> None:
    operator = timeline.operator()
    [seen] = operator.peek(states=[state])
    assert (seen.id, seen.status) == (state.value, state)
    assert operator.list(states=[state.value]) == ([seen], "")
    assert operator.peek(states=[state], end=seen.time) == []
    assert operator.peek(states=[state], start=seen.time, end=seen.time + 1) == [seen]
    assert operator.list(states=[state], start=seen.time + 1) == ([], "")
    assert operator.list(states=[state], start=seen.time, end=seen.time + 1)[0] == [seen]


def test_list_goes_by_group_and_state(timeline: Timeline) -> None:
    operator = timeline.operator()
    assert len(operator.list()[0]) == 5
    assert named(operator.list(group="them")[0]) == ["lost"]
    assert sorted(named(operator.list(group="us", states=["new", "dead"])[0])) == ["dead", "new"]
    [without] = operator.list(states=["dead"], bodies=False)[0]
    assert (without.body, without.group, without.attempts) == (None, "us", 1)


def test_looking_changes_nothing(timeline: Timeline, shared_redis: EmbeddedRedis) -> None:
    def stored() -> dict[bytes, bytes]:
        with Redis.from_url(shared_redis.url) as client:
            return {key: client.dump(key) for key in client.keys("dispatcher:*")}

    def counted() -> Stats:
        return replace(timeline.stats(), drift=None, backlog_age=0)

    before, stats = stored(), counted()
    operator = timeline.operator()
    operator.peek(500, states=list(Status)[:5])
    operator.list()
    operator.get(["new", "waiting", "nothing"])
    assert (stored(), counted()) == (before, stats)


def test_get_reads_of_all_groups(timeline: Timeline) -> None:
    lost, nothing, bad, again = timeline.operator().get(["lost", "nothing", "~bad", "lost"])
    assert isinstance(lost, Snapshot)
    assert (lost.body, lost.group, again) == ("lost", "them", lost)
    assert nothing == NotFound("nothing")
    assert isinstance(bad, Invalid)


def test_t5_an_operator_acts_for_the_owners_and_only_on_what_was_seen(
    timeline: Timeline, hands: Hands
) -> None:
    operator = timeline.operator()
    seen = operator.peek()
    timeline.producer("us").move(["waiting"], delay=50)
    lost, new, waiting, processing = operator.move(seen, delay=5)
    assert (lost, new) == (
        Moved("lost", hands.now_ms + 5_000, 3),
        Moved("new", hands.now_ms + 5_000, 2),
    )
    assert waiting == VersionConflict("waiting", 2)
    assert isinstance(processing, Leased)
    seen = operator.peek(states=["waiting"])
    assert operator.delete(seen) == [Deleted(it.id) for it in seen]
    assert len(seen) == 3
    assert timeline.stats().deleted == 3


def test_what_is_dead_lives_again_with_all_attempts(timeline: Timeline, hands: Hands) -> None:
    operator = timeline.operator()
    dead = operator.peek(states=["dead"])
    assert [it.ok for it in operator.move(dead, delay=0)] == [True]
    assert [type(it) for it in operator.move(dead, delay=0)] == [VersionConflict]
    [again] = operator.get(["dead"])
    assert isinstance(again, Snapshot)
    assert (again.status, again.attempts) == (Status.NEW, 0)
    stats = timeline.stats()
    assert stats.created == stats.deleted + stats.dead + stats.remaining


def test_the_first_of_many_in_all_buckets(shared_redis: EmbeddedRedis, hands: Hands) -> None:
    timeline = timed(shared_redis.url)
    producer = timeline.producer("us")
    producer.create([Message(n, id=f"n{n}", delay=n) for n in range(1_000)])
    operator = timeline.operator()
    for limit in (1, 20, 500):
        assert [it.body for it in operator.peek(limit)] == list(range(limit))
    found, cursor = dict[str, Snapshot](), ""
    while True:
        page, cursor = operator.list(100, cursor, states=["waiting", "new"], bodies=False)
        found.update((it.id, it) for it in page)
        if not cursor:
            break
    assert len(found) == 1_000


def test_t10_large_bodies_are_looked_at_in_several_steps(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=1)
    timeline.producer("us").create(
        [Message(bytes([n]) * 250_000, id=str(n), delay=60 + n) for n in range(12)]
    )
    assert [it.body[0] for it in timeline.operator().peek(12)] == list(range(12))


def test_in_a_cluster(cluster_redis: ClusterRedis) -> None:
    places = ",".join(f"127.0.0.1:{node.port}" for node in cluster_redis.nodes)
    timeline = Timeline(f"redis+cluster://{places}", "topic", buckets=8)
    assert not timeline.exists()
    timeline.producer("us").create([Message(n, id=f"n{n}", delay=n) for n in range(50)])
    assert timeline.exists()
    operator = timeline.operator()
    seen = operator.peek(30)
    assert [it.body for it in seen] == list(range(30))
    assert all(outcome.ok for outcome in operator.delete(seen))
    assert len(operator.list(1_000)[0]) == 20


def test_asking_whether_a_topic_exists_does_not_make_it(own_redis: EmbeddedRedis) -> None:
    timeline = Timeline(own_redis.url, "topic")
    assert not timeline.exists()
    with Redis.from_url(own_redis.url) as client:
        assert not client.keys("*{*}*")
    assert timeline.buckets == 64
    assert timeline.exists()
    assert not Timeline(own_redis.url, "topi").exists()


def test_what_cannot_be_asked(shared_redis: EmbeddedRedis) -> None:
    operator: Operator = Timeline(shared_redis.url, "topic").operator()
    with pytest.raises(ValueError, match="limit must be at most 500, not 501"):
        operator.peek(501)
    with pytest.raises(ValueError, match="limit must be at least 1"):
        operator.list(0)
    with pytest.raises(ValueError, match="states must be some of new, lost"):
        operator.peek(states=["gone"])
    with pytest.raises(ValueError, match="start must be in milliseconds"):
        operator.peek(start=1)
    with pytest.raises(ValueError, match="cursor must be one"):
        operator.list(cursor="9:9:9")


def test_t10_what_looking_does_does_not_grow_with_the_backlog(own_redis: EmbeddedRedis) -> None:
    """Measured by the commands inside. A step of a scan reads a few more than requested."""
    timeline = Timeline(own_redis.url, "topic", buckets=1)
    done = []
    for first, last in ((0, 1_000), (1_000, 20_000)):
        timeline.producer("us").create([Message("x", id=str(n)) for n in range(first, last)])
        with Redis.from_url(own_redis.url) as client:
            before = calls_of(client)
            timeline.operator().peek(20)
            timeline.operator().list(10)
            timeline.operator().list(10, states=["new"])
            done.append(calls_of(client) - before)
    assert max(done) < 400, done


def calls_of(client: Any) -> int:
    stats = client.info("commandstats")
    return sum(it["calls"] for name, it in stats.items() if "info" not in name)
