"""Extend and end the leases of a consumer, and decode them."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Sequence

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._leasing.settling import (
    BURY,
    DELETE,
    EXTEND,
    Bury,
    Deed,
    Delete,
    Ending,
    ReleaseLease,
)
from dispatcher.timeline._server.server import HOLD
from dispatcher.timeline._server.topic import Answer, Items, Topic, answers_of, body_of
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.message import Lease
from dispatcher.timeline.outcomes import (
    AlreadyGone,
    Buried,
    Deleted,
    Extended,
    LeaseExpired,
    LeaseLost,
    MessageOutcome,
    NotFound,
    Released,
    TimeInPast,
)
from limiters._redis.runner import Call
from limiters._support.validation import ArgumentError

_LEASE = struct.Struct("<ddIIII")
_HELD = struct.Struct("<dBBdIH")

SAFETY = 0.001
"""By this fraction a lease counts as shorter here, since clocks run at different rates."""


def ends_at(asked: float, length_ms: float) -> float:
    """Return until when a lease surely lasts, by the monotonic clock, which was read before the
    request."""
    return asked + length_ms / 1000 * (1 - SAFETY)


def leases_of(
    bucket: int, blob: bytes, untils: Iterable[int], ends: Iterable[float]
) -> Iterator[Lease]:
    """Decode the leases in the reply of give.lua, with the end of each by the server's clock and by
    this process's."""
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
            (bucket, blob[name:body]),
        )


class HeldLeases:
    """Extends, releases and deletes leased messages. Thread-safe."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def extend(self, leases: Sequence[Lease], length_ms: int) -> list[MessageOutcome]:
        """Extend leases until `length_ms` from now; a lease that lasts longer is left as it is."""
        asked = time.monotonic()
        outcomes = self._do(leases, [Deed(EXTEND, True, length_ms)] * len(leases))
        for lease, outcome in zip(leases, outcomes, strict=True):
            if isinstance(outcome, Extended):
                lease._ends = max(lease._ends, ends_at(asked, length_ms))
                lease.until, lease.version = outcome.until, outcome.version
        return outcomes

    def settle(self, leases: Sequence[Lease], deeds: Sequence[Deed]) -> list[MessageOutcome]:
        """Release, delete or give up each message."""
        return self._do(leases, deeds)

    def _do(self, leases: Sequence[Lease], deeds: Sequence[Deed]) -> list[MessageOutcome]:
        items = Items(len(leases))
        for place, (lease, deed) in enumerate(zip(leases, deeds, strict=True)):
            bucket, written = lease._place
            numbers = (lease.token, deed.action, deed.relative, deed.time_ms)
            text = _HELD.pack(*numbers, len(written), len(deed.why)) + written + deed.why
            items.add(place, bucket, text)
        remember_ms = self._topic.settings.remember_ms
        portions = list(items.portions())
        calls: list[Call] = []
        for bucket, _, texts in portions:
            told = [self._topic.layout.channel, bucket, remember_ms, b"".join(texts)]
            calls.append((self._topic.layout.keys(bucket), told))
        failed: list[tuple[int, TimelineError]] = []
        for (_, places, _), answer in zip(
            portions, self._topic.server.run_each(HOLD, calls), strict=True
        ):
            if isinstance(answer, TimelineError):
                failed += [(place, answer) for place in places]
                continue
            for place, said in zip(places, answers_of(answer[1]), strict=True):
                items.outcomes[place] = _outcome(leases[place].id, deeds[place].action, said)
        items.unanswered([lease.id for lease in leases], failed)
        return items.done()


def _outcome(name: str, action: int, said: Answer) -> MessageOutcome:
    code, _, time_ms, version, _ = said
    if code == 1:
        if action == DELETE:
            return Deleted(name)
        if action == BURY:
            return Buried(name, version)
        done = Extended if action == EXTEND else Released
        return done(name, int(time_ms), version)
    if code == 8:
        return LeaseExpired(name, int(time_ms))
    if code == 9:
        return TimeInPast(name, int(time_ms))
    return {3: NotFound, 7: LeaseLost, 10: AlreadyGone}[code](name)


def as_deeds(endings: Iterable[tuple[Lease, Ending]]) -> tuple[list[Lease], list[Deed]]:
    """Split pairs of a lease and its ending into leases and deeds."""
    leases: list[Lease] = []
    deeds: list[Deed] = []
    for pair in endings:
        match pair:
            case (Lease() as lease, Delete() | ReleaseLease() | Bury() as ending):
                leases.append(lease)
                deeds.append(ending.deed())
            case _:
                raise ArgumentError(
                    "endings",
                    pair,
                    "be pairs of a lease and a Delete(), a Release(...) or a Bury(reason)",
                )
    return leases, deeds


def as_leases(leases: Iterable[Lease] | Lease) -> list[Lease]:
    """Return a list, also of a single lease."""
    given = [leases] if isinstance(leases, Lease) else list(leases)
    for lease in given:
        if not isinstance(lease, Lease):
            raise ArgumentError("leases", lease, "be what lease() returns")
    return given
