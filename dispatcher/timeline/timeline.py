"""Timeline: a topic of messages that are due at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.layout import Layout
from dispatcher.timeline._encoding.times import Moment, epoch_ms, milliseconds
from dispatcher.timeline._leasing.mending import Mending
from dispatcher.timeline._reading.looking import counts, totals
from dispatcher.timeline._reading.scanning import scan
from dispatcher.timeline._server.durability import Durably
from dispatcher.timeline._server.server import EXISTS, JOIN, SWEEP, Server
from dispatcher.timeline._server.topic import Topic
from dispatcher.timeline.consumer import Consumer
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.message import Snapshot
from dispatcher.timeline.operator import LIVING, Operator
from dispatcher.timeline.outcomes import Status
from dispatcher.timeline.producer import Producer
from limiters._redis.client import RedisConnection
from limiters._support.callables import check_plain
from limiters._support.validation import (
    UNSHOWN,
    ArgumentError,
    Seconds,
    count,
    key_part,
    optional_count,
    seconds,
    text,
)

if TYPE_CHECKING:
    from redis import Redis, RedisCluster

MOST_BINS = 10_000

SWEPT_AT_ONCE = 200

AVAILABLE = (Status.NEW, Status.LOST)
"""Due, and without a lease."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers of a topic. Each bucket is read at one moment, so `created` is always `deleted + dead
    + remaining`."""

    new: int
    lost: int
    waiting: int
    processing: int
    dead: int
    created: int
    deleted: int
    given_up: int
    """Number of messages that died, in all: also those that were moved back to life or deleted
    since."""
    remembered: int
    """Number of deleted messages whose ids are remembered."""
    backlog_age: float
    """Seconds for which the oldest available message has been due; 0 if there is none."""
    next_due: int | None
    """When the next message without a lease is due."""
    consumers: int
    drift: float | None
    """Seconds by which this machine's clock is ahead of the server's."""

    @property
    def remaining(self) -> int:
        """Number of messages that are neither dead nor deleted: always created - deleted - dead."""
        return self.new + self.lost + self.waiting + self.processing


class Timeline:
    """The topic called `topic` on a Redis 6.2 or newer, Valkey, Sentinel or Cluster.

    Messages are due at a time, leased to one consumer at a time, never duplicated and never lost:
    docs/guarantees.md states the limits of that. The URL or client is as for RedisLeaseManager.

    * `buckets`: number of buckets that the topic is divided into, 64 by default. Fixed when the
      topic is first used; another number later raises BucketCountError. More buckets serve more
      consumers: a bucket belongs to one consumer at a time.
    * `remember_deleted`: for how long, in seconds, creating a message with the id of a deleted one
      returns Duplicate; a remembered id takes about 100 bytes.
    * `max_attempts`: how often a message may be leased; when it is due again after that, it is
      dead. `remember_deleted` and `max_attempts` are stored with the topic; without them the stored
      values apply.
    * `timeout`: the longest that one step of a call may take, in seconds.

    Connects at the first call. Thread-safe, and safe on both sides of a fork.

    >>> Timeline("redis://:secret@localhost:6379/0", "mails")
    Timeline('mails', at 'redis://localhost:6379/0')
    """

    def __init__(
        self,
        url_or_client: str | Redis | RedisCluster,
        topic: str,
        *,
        buckets: int | None = None,
        prefix: str = "dispatcher",
        remember_deleted: Seconds | None = None,
        max_attempts: int | None = None,
        timeout: Seconds = 1.0,
    ) -> None:
        self._name = key_part("topic", topic)
        optional_count("buckets", buckets)
        if buckets is not None and buckets > ids.MOST_BUCKETS:
            raise ArgumentError("buckets", buckets, f"be at most {ids.MOST_BUCKETS}")
        remember_ms = None
        if remember_deleted is not None:
            remember_ms = milliseconds("remember_deleted", remember_deleted, zero=True)
        asked = (buckets, remember_ms, optional_count("max_attempts", max_attempts))
        self._patience = seconds("timeout", timeout)
        connection = RedisConnection(url_or_client, self._patience)
        self._server = Server(connection, key_part("prefix", prefix))
        self._topic = Topic(self._server, Layout(prefix, topic), topic, asked)

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._name

    @property
    def where(self) -> str:
        """The URL of its Redis, without the password."""
        return self._server.connection.where

    @property
    def buckets(self) -> int:
        """Number of buckets of the topic."""
        return self._topic.buckets

    @property
    def max_attempts(self) -> int | None:
        """How often a message may be leased; None for any number of times."""
        return self._topic.settings.most_attempts or None

    @property
    def drift(self) -> float | None:
        """Seconds by which this machine's clock is ahead of the server's; None before the first
        answer. Affects only times passed as `at`, not delays or leases."""
        return self._server.clock.drift

    def __repr__(self) -> str:
        return f"Timeline({self._name!r}, at {self.where!r})"

    def producer(self, group: str) -> Producer:
        """Return a producer that creates messages on behalf of `group`, which owns them."""
        name = _short_name("group", group)
        return self._producer_of(name, ids.as_bytes(name))

    def consumer(self, consumer_id: str) -> Consumer:
        """Return the consumer with this id."""
        return Consumer(self._topic, _short_name("consumer_id", consumer_id))

    def operator(self) -> Operator:
        """Return an operator, which reads and repairs the messages of all groups."""
        return Operator(self._topic, self._producer_of)  # stored groups may be no names

    def exists(self) -> bool:
        """Whether the topic has been used; does not create it."""
        return bool(self._server.run(EXISTS, [self._topic.layout.settings], ())[1][0])

    def count(self, start: Moment, end: Moment, state: Status | str | None = None) -> int:
        """Count messages from `start` up to `end`, which is excluded: by when they are due, their
        lease ends, or they died. All but the dead, or those in one `state`."""
        edges = [epoch_ms("start", start), epoch_ms("end", end)]
        [found] = counts(self._topic, edges, _counted(state), relative=False)
        return found

    def histogram(
        self, start: Moment, end: Moment, step: Seconds, state: Status | str | None = None
    ) -> list[tuple[int, int]]:
        """Return the start of each step from `start` to `end`, and the `count` in it."""
        first, last = epoch_ms("start", start), epoch_ms("end", end)
        width = max(1, milliseconds("step", step))
        bins = max(0, math.ceil((last - first) / width))
        if bins > MOST_BINS:
            raise ArgumentError(
                "step", UNSHOWN, f"make at most {MOST_BINS} steps, not {bins}: {step!r}"
            )
        if not bins:
            return []
        edges = [*range(first, last, width), last]
        found = counts(self._topic, edges, _counted(state), relative=False)
        return list(zip(edges, found, strict=False))

    def late(self, ages: Sequence[Seconds]) -> list[int]:
        """For each of the ascending `ages`, in seconds, return how many messages without a lease
        have been due for longer."""
        edges = [-milliseconds("ages", age) for age in reversed(ages)]
        found = counts(self._topic, [-math.inf, *edges], AVAILABLE, relative=True)
        return list(itertools.accumulate(found))[::-1]

    def watch_lateness(self, fn: Callable[[list[float]], object]) -> None:
        """Call `fn` with how late messages were, in seconds, whenever a consumer made from this
        object leases some. It runs on the consumer's thread and should return quickly."""
        check_plain("fn", fn)
        self._topic.watch_lateness += (fn,)

    def due_within(self, duration: Seconds) -> int:
        """Number of messages without a lease that are due at most `duration` seconds from now."""
        return self._due_within(milliseconds("duration", duration, zero=True))

    def is_spike(self, more_than: int, within: Seconds) -> bool:
        """Whether more than `more_than` messages are due in the next `within` seconds."""
        return self._due_within(milliseconds("within", within)) > count("more_than", more_than)

    def stats(self) -> Stats:
        """Return the current and past numbers of messages, and how late they are."""
        found, layout = totals(self._topic), self._topic.layout
        _, _, members = self._server.run(JOIN, [layout.members, layout.settings], [b"", b""])
        late_ms = found.now_us / 1000 - min(found.waiting, found.leased)
        return Stats(
            **found.numbers,
            backlog_age=max(0.0, late_ms / 1000),
            next_due=None if found.waiting == math.inf else int(found.waiting),
            consumers=len(members) // 2,
            drift=self.drift,
        )

    def dead(self, limit: int = 100, cursor: str = "") -> tuple[list[Snapshot], str]:
        """Return a page of about `limit` dead messages, of all groups, and a cursor for the next
        call; "" after the last page. Their owners may `move` them to make them live again, or
        delete them."""
        return scan(self._topic, b"", count("limit", limit), cursor, states=[Status.DEAD])

    def sweep(self) -> int:
        """Remove the ids of deleted messages whose time is up, in small steps, and return their
        number. Deletes do the same step by step. Also repairs what was damaged in Redis, as
        consumers do."""
        Mending(self._topic).finish()
        swept, left = 0, list(range(self._topic.buckets))
        while left:
            calls = [(self._topic.layout.keys(bucket), [SWEPT_AT_ONCE]) for bucket in left]
            answers = self._server.run_each(SWEEP, calls)
            for answer in answers:
                if isinstance(answer, TimelineError):
                    raise answer
            swept += sum(answer[1] for answer in answers)
            left = [
                bucket
                for bucket, answer in zip(left, answers, strict=True)
                if answer[1] == SWEPT_AT_ONCE
            ]
        return swept

    def close(self) -> None:
        """Close the connections. Clients that were passed in stay open."""
        self._server.connection.close()

    def _producer_of(self, group: str, owner: bytes) -> Producer:
        return Producer(self._topic, group, owner, Durably(self._server, self._patience * 0.8))

    def _due_within(self, duration_ms: int) -> int:
        edges = [-math.inf, duration_ms + 1]
        [found] = counts(self._topic, edges, (*AVAILABLE, Status.WAITING), relative=True)
        return found


def _counted(state: Status | str | None) -> tuple[str, ...]:
    if state is None:
        return LIVING
    if state not in (*LIVING, Status.DEAD):
        known = ", ".join((*LIVING, Status.DEAD))
        raise ArgumentError("state", state, f"be one of {known}")
    return (state,)


def _short_name(parameter: str, value: object) -> str:
    name = text(parameter, value)
    if "\0" in name:
        raise ArgumentError(parameter, value, "be without a zero byte")
    if len(ids.as_bytes(name)) > ids.LONGEST:
        raise ArgumentError(parameter, value, f"be at most {ids.LONGEST} bytes")
    return name
