"""Lease due messages in the buckets that a consumer serves, the oldest first."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
from typing import Any

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.bodies import UnreadableBody
from dispatcher.timeline._leasing.agenda import GRACE_MS, PATIENCE_MS, Agenda, Wave
from dispatcher.timeline._leasing.holding import HeldLeases, ends_at, leases_of
from dispatcher.timeline._leasing.members import Membership
from dispatcher.timeline._leasing.mending import Mending, tell_dead
from dispatcher.timeline._leasing.settling import Bury
from dispatcher.timeline._leasing.wake_signal import Heard
from dispatcher.timeline._reading.looking import look, times_of
from dispatcher.timeline._server.server import LEASE
from dispatcher.timeline._server.server_clock import ServerClock
from dispatcher.timeline._server.topic import AT_ONCE, KNOWN, Topic
from dispatcher.timeline.errors import TimelineError, TimelineUnavailableError
from dispatcher.timeline.message import Lease, Leases
from limiters._support.rate_limited_log import RateLimitedLog

logger = logging.getLogger("dispatcher.timeline")

LOOK_AGAIN = 1.0
"""Seconds after which a consumer examines all buckets again, even if it received every
notification."""

MOST_IN_A_WAVE = 1_000
"""Maximum number of messages leased in one step, so that the first ones do not wait for long."""

SPENT_LEASING = 0.25
"""The fraction of their length for which leases may wait for others of the same call."""


class Serving:
    """Leases messages for one consumer. Not thread-safe."""

    def __init__(self, topic: Topic, consumer_id: str, holding: HeldLeases) -> None:
        self._topic = topic
        self._holding = holding
        self._written = ids.as_bytes(consumer_id)
        self._members = Membership(topic, consumer_id)
        self._made_agenda: Agenda | None = None
        self._mending = Mending(topic)
        self._unusable: dict[int, TimelineUnavailableError] = {}
        """Buckets that have a key of another type."""
        self._looked = -math.inf
        self._closed = False
        self._damped = RateLimitedLog(logger)
        self.buckets: list[int] = []
        """The consumer's own share, as of the last heartbeat."""

    @property
    def agenda(self) -> Agenda:
        """The due times of all buckets."""
        if self._made_agenda is None:
            self._made_agenda = Agenda(self._topic.buckets)
        return self._made_agenda

    @property
    def due(self) -> int:
        """Number of messages due in the consumer's own buckets, by the stored times. Makes no
        call."""
        return 0 if self._made_agenda is None else self._made_agenda.due(self.clock.now_ms())

    @property
    def clock(self) -> ServerClock:
        """The estimate of the server's clock."""
        return self._topic.server.clock

    def lease(self, limit: int, length_ms: int) -> Leases:
        """Lease messages that are due now: in the buckets it serves, then in all others."""
        self.look_after(LOOK_AGAIN)  # its own buckets may fill every limit, and hide the others
        stop = self._stop(length_ms)
        leases = self._lease(limit, length_ms, stop, PATIENCE_MS)
        if len(leases) < limit:
            self.look()
            leases += self._lease(limit - len(leases), length_ms, stop, GRACE_MS)
        if not leases and self._unusable:
            raise next(iter(self._unusable.values()))
        return self._done(leases)

    def lease_known(self, limit: int, length_ms: int, look_after: float) -> Leases:
        """Lease messages that are due now, by stored times that are at most `look_after` seconds
        old."""
        self.look_after(look_after)
        return self._done(self._lease(limit, length_ms, self._stop(length_ms), PATIENCE_MS))

    def look_after(self, seconds: float) -> None:
        """Examine all buckets if the last time was that long ago."""
        if self.clock.monotonic() - self._looked >= seconds:
            self.look()

    def look(self) -> None:
        self._looked = self.clock.monotonic()
        self._unusable.clear()
        for bucket, seen in look(self._topic):
            if isinstance(seen, TimelineError):
                self._not_served(bucket, seen)
            else:
                self.agenda.learn(bucket, *seen)
        with contextlib.suppress(TimelineUnavailableError):  # it is tried after the next look
            self._mending.go_on(self.buckets)

    def until_next(self, look_after: float) -> float:
        """Seconds until a message is due, by the stored times, or until all buckets are examined
        again."""
        until_due = (self.agenda.next() - self.clock.now_ms()) / 1000
        return min(until_due, self._looked + look_after - self.clock.monotonic())

    def hear(self, heard: list[Heard], has_missed: bool) -> None:
        """Process notifications. Makes no call."""
        if has_missed:
            self._looked = -math.inf
        for subject, fact in heard:
            if isinstance(subject, str):
                self._members.hear(subject, bool(fact))
            elif self._made_agenda is not None:
                self._made_agenda.hear(subject, fact)
        if self._made_agenda is not None and any(isinstance(it, str) for it, _ in heard):
            self._made_agenda.assign(self._members.served)

    def readable(self, leases: list[Lease]) -> list[Lease]:
        """Return the leases whose bodies can be decoded; move the other messages to the dead
        letters."""
        bad = [(it, it.body.reason) for it in leases if isinstance(it.body, UnreadableBody)]
        if not bad:
            return leases
        with contextlib.suppress(TimelineUnavailableError):  # it is tried when the leases end
            self._holding.settle([it for it, _ in bad], [Bury(why).deed() for _, why in bad])
            self._tell_dead(len(bad), bad[0][1])
        return [it for it in leases if not isinstance(it.body, UnreadableBody)]

    def keep_membership(self) -> None:
        """Send a heartbeat if one is due, and read which other consumers there are."""
        if not self._closed and self._members.is_due:
            self._members.refresh()
            self.buckets = self._members.own
            self.agenda.assign(self._members.served)

    def stay_listed(self) -> None:
        """Send a heartbeat if one is due. From any thread."""
        if not self._closed:
            self._members.stay_listed()

    def leave(self) -> None:
        """Leave the list of consumers."""
        self._closed = True
        if self._members.is_listed:
            self._members.leave()

    def _stop(self, length_ms: int) -> float:
        return self.clock.monotonic() + length_ms / 1000 * SPENT_LEASING

    def _done(self, leases: list[Lease]) -> Leases:
        now = self.clock.monotonic()
        living = Leases(sorted((it for it in leases if it._ends > now), key=lambda it: it.due))
        living.more = self.agenda.has_more(self.clock.now_ms())
        return living

    def _lease(self, limit: int, length_ms: int, stop: float, patience: float) -> list[Lease]:
        """Lease step by step, until no message is due or the first leases have waited for long
        enough."""
        self.keep_membership()
        server, layout, clock = self._topic.server, self._topic.layout, self.clock
        leases: list[Lease] = []
        while len(leases) < limit and not (leases and clock.monotonic() >= stop):
            left = min(limit - len(leases), MOST_IN_A_WAVE)
            wave = self.agenda.choose(clock.now_ms(), left, patience)
            if not wave.portions:
                break
            most_attempts, latest = self._topic.settings.most_attempts, repr(float(wave.latest))
            calls = [
                (
                    layout.keys(bucket),
                    [self._written, min(portion, AT_ONCE), length_ms, most_attempts, latest, KNOWN],
                )
                for bucket, portion in wave.portions
            ]
            asked = clock.monotonic()
            answers = server.run_each(LEASE, calls)
            refused = self._take(leases, wave, answers, ends_at(asked, length_ms))
            if refused is not None and not leases:
                raise refused
        return leases

    def _take(
        self, leases: list[Lease], wave: Wave, answers: list[Any], ends: float
    ) -> TimelineError | None:
        """Process a reply. Return the error, if there were only errors."""
        refused = None
        for (bucket, _), answer in zip(wave.portions, answers, strict=True):
            if isinstance(answer, TimelineError):
                refused = refused if self._not_served(bucket, answer) else answer
                continue
            now_us, until, waiting, leased, blob, given_up, beyond, bodiless = answer
            self.agenda.learn(bucket, times_of(waiting), times_of(leased), beyond)
            untils, lasts = itertools.repeat(int(until)), itertools.repeat(ends)
            found = list(leases_of(bucket, blob, untils, lasts))
            leases += self.readable(found)
            if self._topic.watch_lateness and found:
                self._topic.tell_lateness(now_us, (lease.due for lease in found))
            if given_up:
                self._tell_dead(given_up, "they were leased too often")
            if bodiless:
                self._tell_dead(bodiless, "their bodies were lost")
        return refused

    def _tell_dead(self, messages: int, why: str) -> None:
        tell_dead(self._damped, self._topic.name, messages, why)

    def _not_served(self, bucket: int, error: TimelineError) -> bool:
        """Ask a bucket that gave no answer later. Return whether the bucket itself is at fault."""
        self.agenda.put_off(bucket, self.clock.now_ms() + LOOK_AGAIN * 1000)
        if not isinstance(error, TimelineUnavailableError) or not error.key:
            return False
        self._unusable[bucket] = error
        self._damped.log(
            logging.ERROR,
            "%s: bucket %d is not served: %s",
            *(self._topic.name, bucket, error),
            extra={"happening": "bucket-unusable", "topic": self._topic.name, "bucket": bucket},
        )
        return True
