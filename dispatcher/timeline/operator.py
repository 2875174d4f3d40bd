"""Operator: reads the messages of all groups, and acts on them in the name of their owners."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.times import Moment, epoch_ms
from dispatcher.timeline._reading import peeking
from dispatcher.timeline._reading.scanning import scan
from dispatcher.timeline._server.topic import Topic
from dispatcher.timeline.message import Snapshot
from dispatcher.timeline.outcomes import MessageOutcome, Status
from dispatcher.timeline.producer import Producer, is_pair
from limiters._support.validation import ArgumentError, Seconds, count

Outcomes = list[MessageOutcome]
Snapshots = list[Snapshot]
_Placed = list[tuple[int, Snapshot]]

LIVING = (Status.NEW, Status.LOST, Status.WAITING, Status.PROCESSING)
"""All states but dead."""


class Operator:
    """Reads and repairs a topic, across all groups. Reading changes nothing, and neither waits nor
    leases.

    `move` and `delete` do what the owner of each message may do, and only if the message has not
    changed since it was read: law T5 holds, and leased messages are left to their consumer.
    Thread-safe.

    >>> from dispatcher.timeline import Message, Timeline
    >>> from limiters.embedded import EmbeddedRedis
    >>> with EmbeddedRedis() as server:
    ...     timeline = Timeline(server.url, "mails")
    ...     _ = timeline.producer("signup").create([Message("hello", id="user-7", delay=60)])
    ...     [seen] = timeline.operator().peek()
    ...     [gone] = timeline.operator().delete([seen])
    >>> seen.body, seen.group, gone
    ('hello', 'signup', Deleted(id='user-7'))
    """

    def __init__(self, topic: Topic, producer: Callable[[str, bytes], Producer]) -> None:
        self._topic = topic
        self._producer = producer

    def __repr__(self) -> str:
        return f"Operator(of {self._topic.name!r})"

    def peek(
        self,
        limit: int = 20,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        states: Collection[Status | str] = LIVING,
    ) -> list[Snapshot]:
        """Return the first `limit` messages by time, at most 500. The time is when they are due,
        their lease ends, or they died; from `start` up to `end`, which is excluded; in one of
        `states`."""
        if count("limit", limit) > peeking.MOST:
            raise ArgumentError("limit", limit, f"be at most {peeking.MOST}")
        wanted = _states(states)
        return peeking.first(self._topic, limit, *_between(start, end), wanted) if wanted else []

    def get(self, names: Sequence[str]) -> list[MessageOutcome]:
        """Return a Snapshot, NotFound or Invalid for each id."""
        given = [names] if isinstance(names, str) else list(names)
        if is_pair(tuple(given)) or any(map(is_pair, given)):
            raise ArgumentError("ids", names, "be ids alone, without versions")
        return peeking.read(self._topic, given)

    def list(
        self,
        limit: int = 100,
        cursor: str = "",
        *,
        group: str | None = None,
        states: Collection[Status | str] = (),
        start: Moment | None = None,
        end: Moment | None = None,
        bodies: bool = True,
    ) -> tuple[list[Snapshot], str]:
        """Return a page of about `limit` messages, and a cursor for the next call with the same
        arguments; "" after the last page. The order is arbitrary; messages that are created,
        deleted or changed meanwhile may be missing.

        It examines all messages of the topic, or those in `states`, some thousands a page: if few
        of them match, a page may be short, or empty. Without `bodies`, the bodies of the snapshots
        are None.
        """
        owner = b"" if group is None else ids.as_bytes(group)
        first, last = _between(start, end)
        return scan(
            self._topic,
            owner,
            count("limit", limit),
            cursor,
            states=_states(states),
            start=first,
            end=last,
            bodies=bodies,
        )

    def move(
        self,
        seen: Iterable[Snapshot] | Snapshot,
        *,
        at: Moment | None = None,
        delay: Seconds | None = None,
    ) -> Outcomes:
        """Move messages, as a Producer of their group does; dead ones live again, with all
        attempts."""
        return self._for_owners(seen, lambda owner, its: owner.move(its, at=at, delay=delay))

    def delete(self, seen: Iterable[Snapshot] | Snapshot) -> Outcomes:
        """Delete messages, as a Producer of their group does."""
        return self._for_owners(seen, lambda owner, its: owner.delete(its))

    def _for_owners(
        self,
        seen: Iterable[Snapshot] | Snapshot,
        act: Callable[[Producer, Snapshots], Sequence[MessageOutcome]],
    ) -> Outcomes:
        by_owner: dict[tuple[str, bytes], _Placed] = {}
        given = [seen] if isinstance(seen, Snapshot) else list(seen)
        for snapshot in given:
            if not isinstance(snapshot, Snapshot):
                raise ArgumentError("seen", snapshot, "be Snapshots", "get(ids) returns them")
        for place, snapshot in enumerate(given):
            owner = ids.as_bytes(snapshot.group)
            if snapshot._place is not None:
                owner = snapshot._place[2]
            by_owner.setdefault((snapshot.group, owner), []).append((place, snapshot))
        outcomes: dict[int, MessageOutcome] = {}
        for (group, owner), placed in by_owner.items():
            said = act(self._producer(group, owner), [snapshot for _, snapshot in placed])
            outcomes.update(zip((place for place, _ in placed), said, strict=True))
        return [outcomes[place] for place in range(len(outcomes))]


def _between(start: Moment | None, end: Moment | None) -> tuple[float, float]:
    return (
        -math.inf if start is None else epoch_ms("start", start),
        math.inf if end is None else epoch_ms("end", end),
    )


def _states(states: Collection[Status | str]) -> list[Status]:
    known = [state for state in Status if state is not Status.DELETED]
    for state in states:
        if state not in known:
            raise ArgumentError("states", state, f"be some of {', '.join(known)}")
    return [state for state in known if state in states]
