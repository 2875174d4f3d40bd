"""Events and log lines of a SharedResource: one for each change, none while it lasts."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Sequence
from shlex import quote

from limiters import events
from limiters._costs import AnyCost, Costs
from limiters._instance_share import News
from limiters._plain_numbers import plain
from limiters._redis.faults import cause_of
from limiters._redis.outages import OUTAGES
from limiters._sharing.terms_in_words import (
    capacity_of,
    differences,
    in_another_order,
    named_terms,
    options,
)
from limiters._support.rate_limited_log import RateLimitedLog
from limiters.events import Emitter
from limiters.leases._bounds import limits_of_terms
from limiters.leases._format import FLOAT_ERROR
from limiters.leases._layout import parts_of
from limiters.leases._messages import Reply, Terms, partitions_of

_log = logging.getLogger("limiters.shared")

_numbers = itertools.count()  # an id() comes again, and outages are remembered

MAX_MESSAGES = 5
"""How many different messages are logged while the lease manager does not answer."""


class Announcements:
    """Announces what changes to listeners and the log. Used by one thread."""

    def __init__(
        self,
        emitter: Emitter,
        terms: Terms,
        limit: str = "",
        where: str | None = None,
        kept_by: str = "",
    ) -> None:
        self._emit = emitter.emit
        self._damped = RateLimitedLog(_log)
        self._kept_by = kept_by
        self._own = terms
        self._limit = limit
        self._part = f"limit {limit}, {next(_numbers)}"
        self._where = self._part if where is None else where
        self._terms: Terms | None = None
        self._capacity: AnyCost | None = None
        self._connected: bool | None = None
        self._cause = ""
        self._troubles: set[str] = set()
        self.trouble = ""
        """The reason why requests are not answered; "" as long as they are."""
        self._evicted = False
        self._provisioned = False
        self._certain = True
        self._partitions = 0
        self._refused: Terms | None = None

    def connected(self, asks: bool) -> bool | None:
        """Return whether the lease manager answers. None before the first answer, or the lack of
        it; and if there was no answer and nothing more is asked: it would stay cut off until there
        is work again."""
        return self._connected if asks or self._connected else None

    def capacity(self, capacity: AnyCost) -> bool:
        """Emit what is held, if it has changed. Return whether it has."""
        if capacity == self._capacity:
            return False
        self._capacity = capacity
        self._emit(events.CAPACITY, capacity)
        return True

    def partitions(self, held: float) -> None:
        """Emit an event for each whole partition that came or went."""
        whole = math.floor(held + FLOAT_ERROR)
        for number in range(self._partitions, whole):
            self._emit(events.ALLOCATED, number)
        for number in range(self._partitions - 1, whole - 1, -1):
            self._emit(events.RELEASED, number)
        self._partitions = whole

    def lost(self, error: BaseException, asked: float = math.inf) -> None:
        """Announce that a request of that time, by the monotonic clock, was not answered."""
        message = str(error) or repr(error)
        if self._connected is not False:
            self._connected = False
            self._emit(events.DISCONNECTED, 0, message, error)
        cause, self.trouble = cause_of(error), message
        is_new = message not in self._troubles and len(self._troubles) < MAX_MESSAGES
        if is_new or cause != self._cause:
            self._cause = cause
            self._troubles.add(message)
            self._damped.log(
                OUTAGES.began(self._where, self._part, cause, asked),
                "limit %r: requests are not served; only what is still held can be spent: %s",
                *(self._limit, message),
                extra={
                    "happening": "leases-away",
                    "limit": self._limit,
                    "error": type(error).__name__,
                },
            )
            self._emit(events.ERROR, 0, message, error)

    def reply(self, reply: Reply, news: News, missing: float) -> None:
        """Announce an answer; `missing` partitions were wanted and not granted."""
        self._troubles.clear()
        self._cause = self.trouble = ""
        if not self._connected:
            if self._connected is False:
                _log.log(
                    OUTAGES.ended(self._where, self._part),
                    "limit %r: requests are served again, and shared capacity is requested",
                    self._limit,
                    extra={"happening": "leases-back", "limit": self._limit},
                )
            self._connected = True
            self._emit(events.CONNECTED)
        if news.disowned:
            self._trouble_with(
                "disowned",
                f"limit {self._limit!r}: another process uses the same identity; taking a new one",
            )
            return
        self._refusal(news.refused)
        if not news.answered:
            return
        self._uncertainty(reply)
        if not self._provisioned:
            self._provisioned = True
            self._provision(reply)
            self._compare(reply.terms)
        else:
            self._changed(reply.terms)
        self._terms = reply.terms
        if news.permit:
            self._emit(events.PERMIT, self._cost_of(news.permit))
        if missing > FLOAT_ERROR:
            self._emit(events.FAILED, math.ceil(missing - FLOAT_ERROR))
        if reply.evicted and not self._evicted:
            self._trouble_with(
                "evicted",
                f"this instance was evicted by an operator: it gets nothing more of limit "
                f"{self._limit!r}; restart it to take part again",
            )
        self._evicted = reply.evicted

    def _cost_of(self, amounts: Sequence[float]) -> AnyCost:
        """Return amounts by bound as a cost: of several windows, the smallest."""
        found: dict[str, float] = {}
        for part, one in zip(parts_of(self._own.layout), amounts, strict=True):
            found[part.dimension] = min(one, found.get(part.dimension, one))
        return Costs(found) if len(found) > 1 else min(amounts)

    def _changed(self, terms: Terms) -> None:
        both = zip(named_terms(terms), named_terms(self._terms or terms), strict=True)
        different = [
            f"{new.name} {plain(new.value)} (was {plain(old.value)})"
            for new, old in both
            if new.value != old.value
        ]
        if different:
            _log.info(
                "limit %r was changed: %s",
                self._limit,
                ", ".join(different),
                extra={
                    "happening": "terms-changed",
                    "limit": self._limit,
                    "capacity": capacity_of(terms),
                },
            )

    def _provision(self, reply: Reply) -> None:
        limit, partition = events.VERIFIED_LIMIT, events.VERIFIED_PARTITION
        if reply.created:
            limit, partition = events.CREATED_LIMIT, events.CREATED_PARTITION
        smallest = self._cost_of([one.capacity for one in reply.terms.bounds])
        self._emit(limit, smallest, self._kept_by)
        for index in range(partitions_of(reply.terms.capacity, reply.terms.factor)):
            self._emit(partition, index, self._kept_by)
        self._emit(events.PROVISION_DONE, reply.uncertain / 1000)

    def _uncertainty(self, reply: Reply) -> None:
        certain = not reply.uncertain
        if certain is self._certain:
            return
        self._certain = certain
        self._emit(events.UNCERTAIN, reply.uncertain / 1000, reply.cause)
        if certain:
            return
        if self._provisioned:
            self._emit(events.PROVISION_DONE, reply.uncertain / 1000)
        _log.log(
            logging.WARNING if self._provisioned else logging.INFO,
            "limit %r grants nothing new for %.1f s, until all old leases have ended: %s",
            self._limit,
            reply.uncertain / 1000,
            reply.cause,
            extra={
                "happening": "uncertain",
                "limit": self._limit,
                "seconds": reply.uncertain / 1000,
            },
        )

    def _refusal(self, terms: Terms | None) -> None:
        """Announce that the limit has another lease time or period, under which none is shared."""
        if terms is not None and terms != self._refused:
            self._emit(events.REFUSED, 0, self._limit)
            self._trouble_with("refused", self.refusal(terms))
        self._refused = terms

    def refusal(self, terms: Terms) -> str:
        """Return why this instance gets nothing of a limit with these terms, and what to do."""
        own, name = self._own, quote(self._limit)
        unlike = differences(own, terms)
        if in_another_order(own, terms):
            return (
                f"no shared capacity: {unlike} of the limit {self._limit!r}; write them in that one"
            )
        if unlike:
            text = str(limits_of_terms(own)) if own.layout else plain(own.capacity)
            over = "" if own.layout == terms.layout else "--start-over "
            return (
                f"no shared capacity: {unlike} of the limit {self._limit!r}; make all instances "
                "with the same Limits, or change the limit for all: "
                f"dispatcher limit set {name} {over}--shared-capacity {text}"
            )
        lease, period = plain(self._own.lease / 1000), plain(self._own.period / 1000)
        if own.layout:
            return (
                f"no shared capacity: this instance was made with lease_time={lease}, but the "
                f"limit {self._limit!r} has lease_time={plain(terms.lease / 1000)}; use that, or "
                f"change the limit for all: dispatcher limit set {name} --lease-time {lease}"
            )
        return (
            f"no shared capacity: this instance was made with lease_time={lease} and "
            f"period={period}, but the limit {self._limit!r} has "
            f"lease_time={plain(terms.lease / 1000)} and period={plain(terms.period / 1000)}; use "
            "those, or change the limit for all: "
            f"dispatcher limit set {name} --lease-time {lease} --period {period}"
        )

    def _compare(self, terms: Terms) -> None:
        pairs = zip(named_terms(terms), named_terms(self._own), strict=True)
        unlike = [(theirs, own) for theirs, own in pairs if theirs.value != own.value]
        different = [
            f"{theirs.name} {plain(theirs.value)} (this instance was made with {plain(own.value)})"
            for theirs, own in unlike
        ]
        if different:
            self._trouble_with(
                "other-terms",
                f"following what is stored of limit {self._limit!r}: {', '.join(different)}; make "
                "all instances with the same numbers, or change the limit for all: "
                f"dispatcher limit set {quote(self._limit)} "
                f"{options(self._own, [own for _, own in unlike])}",
            )

    def _trouble_with(self, happening: str, message: str) -> None:
        _log.warning("%s", message, extra={"happening": happening, "limit": self._limit})
        self._emit(events.ERROR, 0, message)
