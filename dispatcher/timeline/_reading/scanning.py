"""Page through the messages of a topic, in steps whose length does not depend on its size."""

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
"""Number of messages that one script examines at first."""

MOST_IN_A_STEP = 512
BYTES_IN_A_STEP = 131_072
"""Number of bytes that one script examines once few of the messages it sees are wanted."""

MOST_ON_A_PAGE = 16_384
"""Maximum number of messages examined for one page. Few of them may be wanted, among millions."""

PARTS = {
    "waiting": (Status.NEW, Status.WAITING),
    "leased": (Status.LOST, Status.PROCESSING),
    "dead": (Status.DEAD,),
}
"""Which part of a bucket holds which states. Waiting comes first: a message that moves there from
another part is not listed twice."""


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
    """Return about `limit` messages, of one owner or of all (b""), and the next cursor. The number
    of messages examined is bounded: if few of them are wanted, the page is shorter, or empty.

    Without `states` all messages count. From `start` up to `end`, which is excluded.
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
        looked += max(seen, STEP)  # a script that finds nothing takes time too
        step = _next_step(step, seen, len(wanted), size)
        at = following.decode()
        if at == "0":
            bucket += 1
    return list(found.values()), f"{part}:{bucket}:{at}" if part < len(parts) else ""


def _next_step(step: int, seen: int, wanted: int, size: int) -> int:
    """Return how many messages to examine next, by how many of the last were wanted and how long
    they were."""
    if size > BYTES_IN_A_STEP:
        return max(STEP, step // 2)
    if wanted * 4 <= seen and size * 2 <= BYTES_IN_A_STEP:
        return min(2 * step, MOST_IN_A_STEP)
    return step


def told(bucket: int, answers: bytes, texts: bytes, bodies: bool = True) -> Iterator[Snapshot]:
    """Decode the messages of a bucket from a reply of told.lua."""
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
