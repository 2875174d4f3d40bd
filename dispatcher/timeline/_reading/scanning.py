"""Goes through the messages of a topic, in steps that do not grow with it."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._server.server import SCAN
from dispatcher.timeline._server.topic import STATUSES, Topic, answers_of, body_of, owner_length
from dispatcher.timeline.message import Snapshot
from dispatcher.timeline.outcomes import Status
from limiters._support.validation import ArgumentError

_LENGTHS = struct.Struct("<IIH")

STEP = 32
"""How many messages one script looks at, to begin with."""

MOST_IN_A_STEP = 512
BYTES_IN_A_STEP = 131_072
"""How much it looks at, once little of what it sees is wanted."""

MOST_ON_A_PAGE = 16_384
"""How many messages one page looks at. There may be few that are wanted, among millions."""

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
    """About `limit` messages, of one owner or of all (b""), and where to go on. It looks at so
    many messages at most, however few of them are wanted: then the page is shorter, or empty.

    Without `states` it is all of them. From `start` up to `end`, which is left out.
    """
    parts = [part for part, its in PARTS.items() if not set(its).isdisjoint(states)] or [""]
    part, bucket, at = _read(cursor, len(parts))
    codes = [STATUSES.index(state) for state in states]
    bounds = [repr(float(start)), repr(float(end)), "1" if bodies else ""]
    found: dict[object, Snapshot] = {}
    step, looked = STEP, 0
    while part < len(parts) and len(found) < limit and looked < MOST_ON_A_PAGE:
        if bucket >= topic.buckets:
            part, bucket, at = part + 1, 0, "0"
            continue
        words = [parts[part], at, step, owner, *bounds, *codes]
        answer = topic.server.run(SCAN, topic.layout.keys(bucket), words)
        _, following, seen, size, answers, texts = answer
        wanted = list(told(bucket, answers, texts, bodies))
        found.update((it._place, it) for it in wanted)
        looked += max(seen, STEP)  # a script that finds nothing takes its time too
        step = _next_step(step, seen, len(wanted), size)
        at = following.decode()
        if at == "0":
            bucket += 1
    return list(found.values()), f"{part}:{bucket}:{at}" if part < len(parts) else ""


def _next_step(step: int, seen: int, wanted: int, size: int) -> int:
    """How many to look at next, after so many of so many bytes were seen."""
    if size > BYTES_IN_A_STEP:
        return max(STEP, step // 2)
    if wanted * 4 <= seen and size * 2 <= BYTES_IN_A_STEP:
        return min(2 * step, MOST_IN_A_STEP)
    return step


def told(bucket: int, answers: bytes, texts: bytes, bodies: bool = True) -> Iterator[Snapshot]:
    """What told.lua tells of a bucket."""
    place = 0
    for said in answers_of(answers):
        id_length, length, why_length = _LENGTHS.unpack_from(texts, place)
        place += _LENGTHS.size
        written = texts[place : place + id_length]
        place += id_length
        stored = texts[place : place + length]
        place += length
        why = ids.as_text(texts[place : place + why_length])
        place += why_length
        status = STATUSES[said.status]
        assert status is not None
        body = body_of(stored) if bodies and status is not Status.PROCESSING else None
        owner = stored[1 : 1 + owner_length(stored)]
        facts = int(said.time), said.version, said.attempts, ids.as_text(owner), why
        seen_at = (bucket, written, owner)
        yield Snapshot(ids.as_text(written), body, status, *facts, seen_at)


def _read(cursor: str, parts: int) -> tuple[int, int, str]:
    words = (cursor or "0:0:0").split(":")
    if len(words) != 3 or not all(map(str.isdecimal, words)) or int(words[0]) >= parts:
        raise ArgumentError("cursor", cursor, "be one that a call before has returned")
    return int(words[0]), int(words[1]), words[2]
