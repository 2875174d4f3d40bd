"""Looks at messages without leasing them: the first ones by time, or those with some ids."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Collection, Iterable, Sequence

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._reading.looking import groups_of
from dispatcher.timeline._reading.scanning import told
from dispatcher.timeline._server.server import FIRST, READ
from dispatcher.timeline._server.topic import AT_ONCE, Topic
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.message import Snapshot
from dispatcher.timeline.outcomes import Invalid, MessageOutcome, NotFound, Status
from limiters._support.validation import ArgumentError

LISTED_AT_ONCE = 1_000
"""How many ids one script lists."""

MOST = LISTED_AT_ONCE // 2
"""How many messages one look may bring: those of one bucket, in up to two sets for each state."""

_LISTED = struct.Struct("<dH")
_LENGTH = struct.Struct("<H")


def first(
    topic: Topic, limit: int, start: float, end: float, states: Collection[Status]
) -> list[Snapshot]:
    """The first `limit` messages from `start` up to `end`, by time, that are in one of `states`.

    It looks twice, for ids and then for messages: what has changed in between is told as it is.
    """
    words = [limit, repr(float(start)), repr(float(end)), *(state.value for state in states)]
    groups = groups_of(topic, max(1, LISTED_AT_ONCE // (limit * len(states))))
    calls = [(topic.layout.some(buckets, "waiting", "leased", "dead"), words) for buckets in groups]
    listed: list[tuple[float, bytes]] = []
    for answer in topic.server.run_each(FIRST, calls):
        if isinstance(answer, TimelineError):
            raise answer
        listed = heapq.nsmallest(limit, [*listed, *_listed(answer[1])])
    found = read(topic, [ids.as_text(name) for _, name in listed])
    snapshots = [it for it in found if isinstance(it, Snapshot)]
    return [it for it in snapshots if it.status in states and start <= it.time < end]


def read(topic: Topic, names: Sequence[str]) -> list[MessageOutcome]:
    """Snapshot, NotFound or Invalid for each, whoever owns it."""
    found: dict[str, MessageOutcome] = {}
    by_bucket: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        try:
            by_bucket.setdefault(ids.bucket_of(name, topic.buckets), []).append(name)
        except ArgumentError as error:
            found[name] = Invalid(name, str(error))
    left = list(by_bucket.items())
    while left:
        calls = [(topic.layout.keys(bucket), [_written(names[:AT_ONCE])]) for bucket, names in left]
        further = []
        for (bucket, asked), answer in zip(left, topic.server.run_each(READ, calls), strict=True):
            if isinstance(answer, TimelineError):
                raise answer
            found.update((it.id, it) for it in told(answer[2], answer[3]))
            if len(asked) > answer[1]:
                further.append((bucket, asked[answer[1] :]))
        left = further
    return [found.get(name) or NotFound(name) for name in names]


def _listed(blob: bytes) -> Iterable[tuple[float, bytes]]:
    at = 0
    while at < len(blob):
        time, length = _LISTED.unpack_from(blob, at)
        at += _LISTED.size
        yield time, blob[at : at + length]
        at += length


def _written(names: Sequence[str]) -> bytes:
    written = [ids.as_bytes(name) for name in names]
    return b"".join(_LENGTH.pack(len(name)) + name for name in written)
