"""Bodies that can be written and not be read: refused at create, or dead with a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from redis import Redis

from dispatcher.timeline import (
    Invalid,
    Lease,
    Message,
    MessageOutcome,
    Moved,
    Snapshot,
    Status,
    Timeline,
    TimelineUnavailableError,
    UnreadableBody,
)
from dispatcher.timeline._encoding import bodies
from dispatcher.worker import Worker
from limiters.embedded import EmbeddedRedis
from tests.commands import outside
from tests.waiting import until


def nested(depth: int) -> Any:
    body: Any = []
    for _ in range(depth - 1):
        body = [body]
    return body


@pytest.fixture
def timeline(shared_redis: EmbeddedRedis) -> Iterator[Timeline]:
    made = Timeline(shared_redis.url, "jobs", buckets=4)
    yield made
    made.close()


@pytest.fixture
def unreadable(timeline: Timeline, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Messages as another program, or an older version of this one, may have left them."""
    stored = {
        "deep": b"j" + b"[" * 5_000 + b"]" * 5_000,
        "cut": b"j{",
        "number": b"j" + b"9" * 5_000,
        "text": b"s\xff",
        "kind": b"z{}",
        "nothing": b"",
    }
    encoded = bodies.encoded
    monkeypatch.setattr(bodies, "encoded", lambda it: stored[it] if it in stored else encoded(it))
    made = [Message(name, id=name) for name in stored]
    made += [Message(name, id=name) for name in ("good", "fine")]
    assert all(it.ok for it in timeline.producer("us").create(made))
    return set(stored)


def lease_all(timeline: Timeline, names: set[str]) -> None:
    """Leases until only `names` are there, and these are dead."""
    consumer, found = timeline.consumer("one"), list[Lease]()

    def are_dead() -> bool:
        found.extend(consumer.lease(100, 60))
        return len(found) >= 2 and timeline.stats().dead == len(names)

    until(are_dead)
    assert {it.id for it in found} == {it.body for it in found} == {"good", "fine"}


@pytest.mark.parametrize("depth", [bodies.DEEPEST + 1, 900, 990, 100_000])
def test_a_body_too_deep_to_be_read_everywhere_is_refused(timeline: Timeline, depth: int) -> None:
    body = nested(depth)
    [outcome] = timeline.producer("us").create([Message(body)])
    assert isinstance(outcome, Invalid)
    assert "body must be" in outcome.reason
    [outcome] = timeline.producer("us").create([Message({"a": body})])
    assert isinstance(outcome, Invalid)
    assert timeline.stats().created == 0


def test_what_only_looks_deep_is_accepted_and_comes_back(timeline: Timeline) -> None:
    made = [nested(bodies.DEEPEST), ["[" * 500], [[]] * 500, [{'"[\\': []}] * 500]
    timeline.producer("us").create([Message(body) for body in made])
    consumer, found = timeline.consumer("one"), list[Any]()

    def all_came() -> bool:
        found.extend(it.body for it in consumer.lease(100, 60))
        return len(found) == len(made)

    until(all_came)
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, made))


def test_what_cannot_be_read_is_dead_with_a_reason_and_stops_no_consumer(
    timeline: Timeline, unreadable: set[str]
) -> None:
    lease_all(timeline, unreadable)
    found, _ = timeline.dead(100)
    assert {it.id for it in found} == unreadable
    for snapshot in found:
        assert snapshot.reason.startswith("its body cannot be read: ")
        assert isinstance(snapshot.body, UnreadableBody)


def test_what_cannot_be_read_stops_no_worker(timeline: Timeline, unreadable: set[str]) -> None:
    handled: list[str] = []
    with Worker(timeline, lambda its: handled.extend(it.id for it in its), rate_limiter=None):
        until(lambda: timeline.stats().dead == len(unreadable))
        until(lambda: timeline.stats().deleted == 2)
    assert sorted(handled) == ["fine", "good"]


def test_a_process_that_comes_back_is_not_stopped_by_what_it_had(
    timeline: Timeline, unreadable: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = timeline.consumer("one")
    with monkeypatch.context() as patched:  # it is killed as it reads them
        patched.setattr(consumer._holding, "settle", lambda leases, deeds: _away())
        until(lambda: consumer.lease(100, 60) == [] and timeline.stats().processing == 8)
    assert {it.id for it in consumer.active()} == {"good", "fine"}
    assert timeline.stats().dead == len(unreadable)


def _away() -> Any:
    raise TimelineUnavailableError("no answer")


def test_what_cannot_be_read_can_be_looked_at_moved_and_deleted(
    timeline: Timeline, unreadable: set[str]
) -> None:
    names, operator, producer = sorted(unreadable), timeline.operator(), timeline.producer("us")
    got = producer.get(names)
    pages: list[Sequence[MessageOutcome]] = [
        *(operator.get(names), operator.list(100)[0], operator.peek(100), got)
    ]
    for page in pages:
        seen = {it.id: it for it in page if isinstance(it, Snapshot)}
        assert all(isinstance(seen[name].body, UnreadableBody) for name in names)
    assert [type(it) for it in producer.move(["nothing"], delay=60)] == [Invalid]
    assert [it.ok for it in producer.delete(["nothing"])] == [True]
    names.remove("nothing")
    assert {type(it) for it in producer.move(names, delay=60)} == {Moved}
    lease_all(timeline, set())
    assert all(it.ok for it in producer.move(names, delay=0))
    lease_dead(timeline, names)
    dead = [it for it in operator.list(100)[0] if it.status is Status.DEAD]
    assert all(it.ok for it in operator.move(dead, delay=60))
    assert all(it.ok for it in producer.delete(names))


def lease_dead(timeline: Timeline, names: list[str]) -> None:
    consumer = timeline.consumer("one")
    until(lambda: consumer.lease(100, 60) == [] and timeline.stats().dead == len(names))


def test_the_command_line_shows_and_deletes_what_cannot_be_read(
    timeline: Timeline, unreadable: set[str], shared_redis: EmbeddedRedis
) -> None:
    place = {"DISPATCHER_REDIS": shared_redis.url}
    for command in (["peek"], ["peek", "--json"], ["peek", "--id", "deep"]):
        said = outside("timeline", command[0], "jobs", *command[1:], **place)
        assert (said.code, said.err) == (0, "")
    lease_all(timeline, unreadable)
    assert "its body cannot be read" in outside("timeline", "dead", "jobs", "--json", **place).out
    requeued = outside("timeline", "requeue", "jobs", "deep", "--delay", "1h", **place)
    assert (requeued.code, requeued.out) == (0, "1 requeued\n")
    deleted = outside("timeline", "delete", "jobs", *unreadable, "--yes", **place)
    assert (deleted.code, deleted.out) == (0, f"{len(unreadable)} deleted\n")
    deep = outside(
        "timeline", "create", "jobs", "--group", "us", "[" * 2000, "--body-json", **place
    )
    assert "Traceback" not in deep.err


PLANTED = {
    b"empty": b"",
    b"short": b"\x05us",
    b"missing": None,
    b"\xff\xfe": b"\x02usj1",
    b"~no generated id": b"\x02usj1",
}
"""Messages, with their ids, as a faulty program may leave them in the keys of a topic."""


def test_no_message_that_is_stored_badly_stops_a_worker(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "planted", buckets=1)
    timeline.producer("us").create([Message("good", id="good")])
    keys = [key.decode() for key in timeline._topic.layout.keys(0)]
    with Redis.from_url(shared_redis.url) as client:
        for name, stored in PLANTED.items():
            client.zadd(keys[0], {name: 1})
            if stored is not None:
                client.hset(keys[2], name, stored)
        client.hincrby(keys[7], "created", len(PLANTED))
    assert "good" in {it.id for it in timeline.operator().peek(10)}
    with Worker(timeline, lambda its: None, rate_limiter=None) as worker:
        until(lambda: timeline.stats().remaining == 0)
        assert worker.trouble() == ""
    assert (timeline.stats().dead, timeline.stats().deleted) == (3, 3)
    dead, _ = timeline.dead(10)
    assert {it.id for it in dead} == {"empty", "short", "missing"}
    outcomes = timeline.operator().delete([it for it in dead if it.id != "missing"])
    assert all(it.ok for it in outcomes)
    timeline.close()
