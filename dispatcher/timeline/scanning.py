"""Goes through the messages of a topic, in steps that do not grow with it."""

from __future__ import annotations

import struct

from dispatcher.timeline import ids
from dispatcher.timeline.message import Snapshot
from dispatcher.timeline.outcomes import Status
from dispatcher.timeline.server import SCAN
from dispatcher.timeline.topic import STATUSES, Topic, answers_of, body_of

_LENGTHS = struct.Struct("<HIH")

STEP = 32


def scan(
    topic: Topic, owner: bytes, limit: int, cursor: str, *, only: str = ""
) -> tuple[list[Snapshot], str]:
    """About `limit` messages, of one owner or of all (b""), and where to go on."""
    bucket, at = _read(cursor)
    found: dict[str, Snapshot] = {}
    while bucket < topic.buckets and len(found) < limit:
        told = [owner, at, STEP, only]
        _, following, answers, texts = topic.server.run(SCAN, topic.layout.keys(bucket), told)
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
            body = None if status is Status.PROCESSING else body_of(stored)
            facts = int(said.time), said.version, said.attempts, why
            found[name] = Snapshot(name, body, status, *facts)
        at = following.decode()
        if at == "0":
            bucket += 1
    return list(found.values()), f"{bucket}:{at}" if bucket < topic.buckets else ""


def _read(cursor: str) -> tuple[int, str]:
    bucket, _, at = (cursor or "0:0").partition(":")
    if not (bucket.isdecimal() and at.isdecimal()):
        raise ValueError(f"cursor must be one that a call before has returned, not {cursor!r}")
    return int(bucket), at
