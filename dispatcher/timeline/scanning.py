"""Goes through the messages of a topic, in steps that do not grow with it."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator

from dispatcher.timeline import ids
from dispatcher.timeline.message import Snapshot
from dispatcher.timeline.outcomes import Status
from dispatcher.timeline.server import SCAN
from dispatcher.timeline.topic import STATUSES, Topic, answers_of, body_of
from limiters._support.validation import ArgumentError

_LENGTHS = struct.Struct("<HIH")

STEP = 32

PARTS = {
    "waiting": (Status.NEW, Status.WAITING),
    "leased": (Status.LOST, Status.PROCESSING),
    "dead": (Status.DEAD,),
}
"""Which part of a bucket has which states. Waiting comes first: what is moved from another part
goes there, and so is not met again."""


def scan(
    topic: Topic,
    owner: bytes,
    limit: int,
    cursor: str,
    *,
    states: Collection[Status] = (),
    start: float = -math.inf,
    end: float = math.inf,
    bodies: bool = True,
) -> tuple[list[Snapshot], str]:
    """About `limit` messages, of one owner or of all (b""), and where to go on.

    Without `states` it is all of them. From `start` up to `end`, which is left out.
    """
    parts = [part for part, its in PARTS.items() if not set(its).isdisjoint(states)] or [""]
    part, bucket, at = _read(cursor, len(parts))
    codes = [STATUSES.index(state) for state in states]
    bounds = [repr(float(start)), repr(float(end)), "1" if bodies else ""]
    found: dict[str, Snapshot] = {}
    while part < len(parts) and len(found) < limit:
        if bucket >= topic.buckets:
            part, bucket, at = part + 1, 0, "0"
            continue
        words = [parts[part], at, STEP, owner, *bounds, *codes]
        _, following, answers, texts = topic.server.run(SCAN, topic.layout.keys(bucket), words)
        found.update((it.id, it) for it in told(answers, texts, bodies))
        at = following.decode()
        if at == "0":
            bucket += 1
    return list(found.values()), f"{part}:{bucket}:{at}" if part < len(parts) else ""


def told(answers: bytes, texts: bytes, bodies: bool = True) -> Iterator[Snapshot]:
    """What told.lua tells."""
    place = 0
    for said in answers_of(answers):
        id_length, length, why_length = _LENGTHS.unpack_from(texts, place)
        place += _LENGTHS.size
        name = ids.as_text(texts[place : place + id_length])
        place += id_length
        stored = texts[place : place + length]
        place += length
        why = ids.as_text(texts[place : place + why_length])
        place += why_length
        status = STATUSES[said.status]
        assert status is not None
        body = body_of(stored) if bodies and status is not Status.PROCESSING else None
        group = ids.as_text(stored[1 : 1 + stored[0]])
        facts = int(said.time), said.version, said.attempts, group, why
        yield Snapshot(name, body, status, *facts)


def _read(cursor: str, parts: int) -> tuple[int, int, str]:
    words = (cursor or "0:0:0").split(":")
    if len(words) != 3 or not all(map(str.isdecimal, words)) or int(words[0]) >= parts:
        raise ArgumentError("cursor", cursor, "be one that a call before has returned")
    return int(words[0]), int(words[1]), words[2]
