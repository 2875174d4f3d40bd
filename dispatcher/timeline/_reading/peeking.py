"""Read messages without leasing them: the first ones by time, or those with given ids."""

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
"""Number of ids that one script lists."""

MOST = LISTED_AT_ONCE // 2
"""Maximum number of messages in one result: those of one bucket, in up to two sets for each state.
"""

_LISTED = struct.Struct("<dII")
_LENGTH = struct.Struct("<I")

_Place = tuple[int, bytes]
"""A bucket, and an id as it is stored there."""


def first(
    topic: Topic, limit: int, start: float, end: float, states: Collection[Status]
) -> list[Snapshot]:
    """Return the first `limit` messages from `start` up to `end`, by time, in one of `states`.

    Reads ids first and messages second. A message that changes in between is returned as it is
    then.
    """
    words = [limit, repr(float(start)), repr(float(end)), *(state.value for state in states)]
    groups = groups_of(topic, max(1, LISTED_AT_ONCE // (limit * len(states))))
    calls = [(topic.layout.some(buckets, "waiting", "leased", "dead"), words) for buckets in groups]
    listed: list[tuple[float, bytes, int]] = []
    for buckets, answer in zip(groups, topic.server.run_each(FIRST, calls), strict=True):
        if isinstance(answer, TimelineError):
            raise answer
        listed = heapq.nsmallest(limit, [*listed, *_listed(buckets, answer[1])])
    places = list(dict.fromkeys((bucket, written) for _, written, bucket in listed))
    found = _read(topic, places)
    snapshots = [found[place] for place in places if place in found]
    return [it for it in snapshots if it.status in states and start <= it.time < end]


def read(topic: Topic, names: Sequence[str]) -> list[MessageOutcome]:
    """Return a Snapshot, NotFound or Invalid for each id, for any owner."""
    invalid: dict[str, MessageOutcome] = {}
    places: dict[str, _Place] = {}
    for name in dict.fromkeys(names):
        try:
            places[name] = ids.bucket_of(name, topic.buckets), ids.as_bytes(name)
        except ArgumentError as error:
            invalid[name] = Invalid(name, str(error))
    found = _read(topic, list(places.values()))
    return [invalid.get(name) or found.get(places[name]) or NotFound(name) for name in names]


def _read(topic: Topic, places: Sequence[_Place]) -> dict[_Place, Snapshot]:
    """Read the messages that exist."""
    found: dict[_Place, Snapshot] = {}
    by_bucket: dict[int, list[bytes]] = {}
    for bucket, written in places:
        by_bucket.setdefault(bucket, []).append(written)
    left = list(by_bucket.items())
    while left:
        calls = [(topic.layout.keys(bucket), [_written(names[:AT_ONCE])]) for bucket, names in left]
        further = []
        for (bucket, asked), answer in zip(left, topic.server.run_each(READ, calls), strict=True):
            if isinstance(answer, TimelineError):
                raise answer
            for it in told(bucket, answer[2], answer[3]):
                assert it._place is not None
                found[it._place[:2]] = it
            if len(asked) > answer[1]:
                further.append((bucket, asked[answer[1] :]))
        left = further
    return found


def _listed(buckets: Sequence[int], blob: bytes) -> Iterable[tuple[float, bytes, int]]:
    at = 0
    while at < len(blob):
        time, place, length = _LISTED.unpack_from(blob, at)
        at += _LISTED.size
        yield time, blob[at : at + length], buckets[place]
        at += length


def _written(names: Sequence[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(name)) + name for name in names)
