"""What a SharedResource tells its listeners and the log, and what it has told already."""

from __future__ import annotations

import itertools
import logging
import math

from limiters import events
from limiters._support.plain_numbers import plain
from limiters.events import Emitter
from limiters.holdings import News
from limiters.leases import ranges
from limiters.leases.messages import Reply, Terms, partitions_of
from limiters.leases.ranges import Ranges
from limiters.outages import OUTAGES

_log = logging.getLogger(__name__)

_numbers = itertools.count()  # an id() comes again, and outages are remembered

MOST_TOLD = 5
"""How many different messages are told while the lease manager does not answer."""


class Announcements:
    """One event when something changes, none while it stays. Used by one thread."""

    def __init__(
        self,
        emitter: Emitter,
        terms: Terms,
        limit: str = "",
        where: str | None = None,
        kept_by: str = "",
    ) -> None:
        self._emit = emitter.emit
        self._kept_by = kept_by
        self._own = terms
        self._limit = limit
        self._where = f"limit {limit}, {next(_numbers)}" if where is None else where
        self._version = 0
        self._capacity: float | None = None
        self._connected: bool | None = None
        self._troubles: set[str] = set()
        self._evicted = False
        self._provisioned = False
        self._certain = True

    def connected(self, asks: bool) -> bool | None:
        """Whether the lease manager answers; None before the first answer, or the lack of it, and
        of one who got none and asks no more: it would stay cut off until it has work again."""
        return self._connected if asks or self._connected else None

    def capacity(self, capacity: float) -> bool:
        """What is held; whether it has changed."""
        if capacity == self._capacity:
            return False
        self._capacity = capacity
        self._emit(events.CAPACITY, capacity)
        return True

    def released(self, released: Ranges) -> None:
        """What was given back."""
        for index in ranges.indexes(released):
            self._emit(events.RELEASED, index)

    def lost(self, error: BaseException, asked: float = math.inf) -> None:
        """The lease manager did not answer a request of that time, by the monotonic clock."""
        message = str(error) or repr(error)
        if self._connected is not False:
            self._connected = False
            self._emit(events.DISCONNECTED, 0, message, error)
        if message not in self._troubles and len(self._troubles) < MOST_TOLD:
            self._troubles.add(message)
            _log.log(
                OUTAGES.began(self._where, asked),
                "no shared capacity but what is still held: %s",
                message,
                extra={
                    "happening": "leases-away",
                    "limit": self._limit,
                    "error": type(error).__name__,
                },
            )
            self._emit(events.ERROR, 0, message, error)

    def reply(self, reply: Reply, news: News) -> None:
        """The lease manager has answered."""
        self._troubles.clear()
        if not self._connected:
            if self._connected is False:
                _log.log(
                    OUTAGES.ended(self._where),
                    "the lease manager answers again: shared capacity is asked for",
                    extra={"happening": "leases-back", "limit": self._limit},
                )
            self._connected = True
            self._emit(events.CONNECTED)
        if news.disowned:
            self._trouble_with("disowned", "somebody else used the same identity; taking a new one")
            return
        self._quarantine(reply)
        if not self._provisioned:
            self._provisioned = True
            self._provision(reply)
            self._compare(reply.terms)
        elif reply.terms.version != self._version:
            _log.info(
                "the shared capacity was changed to %s",
                plain(reply.terms.capacity),
                extra={
                    "happening": "capacity-changed",
                    "limit": self._limit,
                    "capacity": reply.terms.capacity,
                },
            )
        self._version = reply.terms.version
        for index in ranges.indexes(news.gained):
            self._emit(events.ALLOCATED, index)
        self.released(ranges.union(news.lost, news.released))
        if news.missing:
            self._emit(events.FAILED, news.missing)
        if reply.evicted and not self._evicted:
            self._trouble_with(
                "evicted",
                "this instance was evicted by an operator: it gets no shared capacity any more; "
                "restart it to take part again",
            )
        self._evicted = reply.evicted

    def _provision(self, reply: Reply) -> None:
        limit, partition = events.VERIFIED_LIMIT, events.VERIFIED_PARTITION
        if reply.created:
            limit, partition = events.CREATED_LIMIT, events.CREATED_PARTITION
        self._emit(limit, reply.terms.capacity, self._kept_by)
        for index in range(partitions_of(reply.terms.capacity, reply.terms.factor)):
            self._emit(partition, index, self._kept_by)
        self._emit(events.PROVISION_DONE, reply.quarantine_ms / 1000)

    def _quarantine(self, reply: Reply) -> None:
        certain = not reply.quarantine_ms
        if not certain and self._certain and self._provisioned:
            self._emit(events.PROVISION_DONE, reply.quarantine_ms / 1000)
        if not certain and self._certain:
            why = "the limit is new" if reply.created else "its state is new, or may be old"
            _log.log(
                logging.WARNING if self._provisioned else logging.INFO,
                "%s, so nothing more is granted for %.1f s: until whatever somebody may hold has "
                "run out",
                why,
                reply.quarantine_ms / 1000,
                extra={
                    "happening": "quarantine",
                    "limit": self._limit,
                    "seconds": reply.quarantine_ms / 1000,
                },
            )
        self._certain = certain

    def _compare(self, terms: Terms) -> None:
        different = [
            f"{name} {plain(theirs)} (this instance was made with {plain(own)})"
            for name, theirs, own in (
                ("shared capacity", terms.capacity, self._own.capacity),
                ("factor", terms.factor, self._own.factor),
                ("period", terms.period_ms / 1000, self._own.period_ms / 1000),
                ("lease time", terms.lease_ms / 1000, self._own.lease_ms / 1000),
            )
            if theirs != own
        ]
        if different:
            self._trouble_with("other-terms", f"following what is stored: {', '.join(different)}")

    def _trouble_with(self, happening: str, message: str) -> None:
        _log.warning("%s", message, extra={"happening": happening, "limit": self._limit})
        self._emit(events.ERROR, 0, message)
