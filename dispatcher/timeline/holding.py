"""What a consumer does with its leases, and how they are read."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dispatcher.timeline import ids
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.message import Lease
from dispatcher.timeline.outcomes import (
    AlreadyGone,
    Buried,
    Deleted,
    Extended,
    LeaseExpired,
    LeaseLost,
    NotFound,
    Outcome,
    Released,
    TimeInPast,
)
from dispatcher.timeline.server import HOLD
from dispatcher.timeline.topic import Answer, Items, Topic, answers_of, body_of
from limiters._support.validation import ArgumentError

_LEASE = struct.Struct("<ddIIHI")
_HELD = struct.Struct("<dH")

SAFETY = 0.001
"""By which part of its length a lease counts as shorter here: clocks do not run alike."""


LONGEST_REASON = 1_000
"""Bytes that are kept of why a message is dead."""


def ends_at(asked: float, length_ms: float) -> float:
    """When a lease surely lasts until, by the monotonic clock that was read before asking."""
    return asked + length_ms / 1000 * (1 - SAFETY)


def leases_of(blob: bytes, untils: Iterable[int], ends: Iterable[float]) -> Iterator[Lease]:
    """The leases that give.lua tells of, with the end of each by the server's clock and ours."""
    at = 0
    size, unpack = _LEASE.size, _LEASE.unpack_from
    for until, end in zip(untils, ends, strict=False):
        if at >= len(blob):
            return
        due, token, attempt, version, id_length, length = unpack(blob, at)
        name, body = at + size, at + size + id_length
        at = body + length
        yield Lease(
            ids.as_text(blob[name:body]),
            body_of(blob[body:at]),
            int(due),
            until,
            int(token),
            attempt,
            version,
            end,
        )


class Holding:
    """Extends, releases and deletes what is leased. Thread-safe."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def extend(self, leases: Sequence[Lease], length_ms: int) -> list[Outcome]:
        """Until so long from now, or as it was if that is longer."""
        asked = time.monotonic()
        outcomes = self._do(b"extend", leases, True, length_ms)
        for lease, outcome in zip(leases, outcomes, strict=True):
            if isinstance(outcome, Extended):
                lease._ends = max(lease._ends, ends_at(asked, length_ms))
                lease.until, lease.version = outcome.until, outcome.version
        return outcomes

    def release(
        self, leases: Sequence[Lease], relative: bool, due: int, *, attempted: bool
    ) -> list[Outcome]:
        """To another time."""
        return self._do(b"release" if attempted else b"untouched", leases, relative, due)

    def bury(self, leases: Sequence[Lease], reason: str) -> list[Outcome]:
        """Among the dead."""
        why = ids.as_bytes(reason)[:LONGEST_REASON].decode("utf-8", "ignore")
        return self._do(b"bury", leases, True, 0, why.encode())

    def delete(self, leases: Sequence[Lease]) -> list[Outcome]:
        """For good."""
        return self._do(b"delete", leases, True, 0)

    def _do(
        self,
        action: bytes,
        leases: Sequence[Lease],
        relative: bool,
        time_ms: int,
        why: bytes = b"",
    ) -> list[Outcome]:
        items = Items(len(leases))
        for place, lease in enumerate(leases):
            written = ids.as_bytes(lease.id)
            bucket = ids.bucket_of(lease.id, self._topic.buckets)
            items.add(place, bucket, _HELD.pack(lease.token, len(written)) + written)
        remember_ms = self._topic.settings.remember_ms
        portions = list(items.portions())
        calls = []
        for bucket, _, texts in portions:
            told: list[Any] = [self._topic.layout.channel, bucket, action, int(relative), time_ms]
            keys = self._topic.layout.keys(bucket)
            calls.append((keys, [*told, remember_ms, b"".join(texts), why]))
        failed: list[tuple[int, TimelineError]] = []
        for (_, places, _), answer in zip(
            portions, self._topic.server.run_each(HOLD, calls), strict=True
        ):
            if isinstance(answer, TimelineError):
                failed += [(place, answer) for place in places]
                continue
            for place, said in zip(places, answers_of(answer[1]), strict=True):
                items.outcomes[place] = _outcome(leases[place].id, action, said)
        items.unanswered([lease.id for lease in leases], failed)
        return items.done()


def _outcome(name: str, action: bytes, said: Answer) -> Outcome:
    code, _, time_ms, version, _ = said
    if code == 1:
        if action == b"delete":
            return Deleted(name)
        if action == b"bury":
            return Buried(name, version)
        done = Extended if action == b"extend" else Released
        return done(name, int(time_ms), version)
    if code == 8:
        return LeaseExpired(name, int(time_ms))
    if code == 9:
        return TimeInPast(name, int(time_ms))
    return {3: NotFound, 7: LeaseLost, 10: AlreadyGone}[code](name)


def as_leases(leases: Iterable[Lease] | Lease) -> list[Lease]:
    """One or many."""
    given = [leases] if isinstance(leases, Lease) else list(leases)
    for lease in given:
        if not isinstance(lease, Lease):
            raise ArgumentError("leases", lease, "be what lease() returns")
    return given
