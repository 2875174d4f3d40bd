"""What a SharedResource tells its listeners and the log, and what it has told already."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import NamedTuple

from limiters import events
from limiters._costs import AnyCost, Costs
from limiters._instance_share import News
from limiters._limits_text import dimension_text
from limiters._plain_numbers import plain
from limiters._redis.faults import cause_of
from limiters._redis.outages import OUTAGES
from limiters._support.rate_limited_log import RateLimitedLog
from limiters.events import Emitter
from limiters.leases._bounds import limits_of_terms
from limiters.leases._format import FLOAT_ERROR
from limiters.leases._layout import names_of, parts_of
from limiters.leases._messages import BoundTerms, Reply, Terms, partitions_of
from limiters.limits import Limits

_log = logging.getLogger("limiters.shared")

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
        """What is wrong, as long as requests are not answered."""
        self._evicted = False
        self._provisioned = False
        self._certain = True
        self._partitions = 0
        self._refused: Terms | None = None

    def connected(self, asks: bool) -> bool | None:
        """Whether the lease manager answers; None before the first answer, or the lack of it, and
        of one who got none and asks no more: it would stay cut off until it has work again."""
        return self._connected if asks or self._connected else None

    def capacity(self, capacity: AnyCost) -> bool:
        """What is held; whether it has changed."""
        if capacity == self._capacity:
            return False
        self._capacity = capacity
        self._emit(events.CAPACITY, capacity)
        return True

    def partitions(self, held: float) -> None:
        """How many partitions are held; one event for each whole one that came or went."""
        whole = math.floor(held + FLOAT_ERROR)
        for number in range(self._partitions, whole):
            self._emit(events.ALLOCATED, number)
        for number in range(self._partitions - 1, whole - 1, -1):
            self._emit(events.RELEASED, number)
        self._partitions = whole

    def lost(self, error: BaseException, asked: float = math.inf) -> None:
        """The lease manager did not answer a request of that time, by the monotonic clock."""
        message = str(error) or repr(error)
        if self._connected is not False:
            self._connected = False
            self._emit(events.DISCONNECTED, 0, message, error)
        cause, self.trouble = cause_of(error), message
        is_new = message not in self._troubles and len(self._troubles) < MOST_TOLD
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
        """The lease manager has answered; `missing` partitions were wanted and not granted."""
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
                f"limit {self._limit!r}: somebody else used the same identity; taking a new one",
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
        """Amounts by bound as a cost: of several windows, the smallest."""
        found: dict[str, float] = {}
        for part, one in zip(parts_of(self._own.layout), amounts, strict=True):
            found[part.dimension] = min(one, found.get(part.dimension, one))
        return Costs(found) if len(found) > 1 else min(amounts)

    def _changed(self, terms: Terms) -> None:
        both = zip(told_of(terms), told_of(self._terms or terms), strict=True)
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
        """The limit has another lease time or period: nobody may share it under both."""
        if terms is not None and terms != self._refused:
            self._emit(events.REFUSED, 0, self._limit)
            self._trouble_with("refused", self.refusal(terms))
        self._refused = terms

    def refusal(self, terms: Terms) -> str:
        """Why this instance gets nothing of a limit with these terms, and what to do."""
        own, name = self._own, quote(self._limit)
        unlike = differences(own, terms)
        if unlike:
            text = str(limits_of_terms(own)) if own.layout else plain(own.capacity)
            over = "" if own.layout == terms.layout else "--start-over "
            return (
                f"no shared capacity: {unlike} of the limit {self._limit!r}; make all instances "
                "with the same Limits, or change the limit for everybody: "
                f"dispatcher limit set {name} {over}--shared-capacity {text}"
            )
        lease, period = plain(self._own.lease / 1000), plain(self._own.period / 1000)
        if own.layout:
            return (
                f"no shared capacity: this instance was made with lease_time={lease}, but the "
                f"limit {self._limit!r} has lease_time={plain(terms.lease / 1000)}; use that, or "
                f"change the limit for everybody: dispatcher limit set {name} --lease-time {lease}"
            )
        return (
            f"no shared capacity: this instance was made with lease_time={lease} and "
            f"period={period}, but the limit {self._limit!r} has "
            f"lease_time={plain(terms.lease / 1000)} and period={plain(terms.period / 1000)}; use "
            "those, or change the limit for everybody: "
            f"dispatcher limit set {name} --lease-time {lease} --period {period}"
        )

    def _compare(self, terms: Terms) -> None:
        pairs = zip(told_of(terms), told_of(self._own), strict=True)
        unlike = [(theirs, own) for theirs, own in pairs if theirs.value != own.value]
        different = [
            f"{theirs.name} {plain(theirs.value)} (this instance was made with {plain(own.value)})"
            for theirs, own in unlike
        ]
        if different:
            self._trouble_with(
                "other-terms",
                f"following what is stored of limit {self._limit!r}: {', '.join(different)}; make "
                "all instances with the same numbers, or change the limit for everybody: "
                f"dispatcher limit set {quote(self._limit)} "
                f"{options(self._own, [own for _, own in unlike])}",
            )

    def _trouble_with(self, happening: str, message: str) -> None:
        _log.warning("%s", message, extra={"happening": happening, "limit": self._limit})
        self._emit(events.ERROR, 0, message)


class Told(NamedTuple):
    """One of the terms of a limit, as people know it."""

    name: str
    value: float
    option: str
    """That of `dispatcher limit set`."""
    dimension: str = ""
    """What the bound is called; "" of a limit of one rate without a name."""


def told_of(terms: Terms) -> tuple[Told, ...]:
    """The terms of a limit, in order."""
    lease = Told("lease time", terms.lease / 1000, "lease-time")
    if not terms.layout:
        return (
            Told("shared capacity", terms.capacity, "shared-capacity"),
            Told("factor", terms.factor, "factor"),
            Told("period", terms.period / 1000, "period"),
            lease,
        )
    names = names_of(terms.layout, [one.period for one in terms.bounds])
    capacities, periods = [], []
    for name, one in zip(names, terms.bounds, strict=True):
        capacities.append(Told(f"capacity of {name}", one.capacity, "shared-capacity", name))
        what = "longest call" if one.slots else "period"
        periods.append(Told(f"{what} of {name}", one.period / 1000, "period", name))
    return (*capacities, *periods, lease)


def options(terms: Terms, some: Sequence[Told]) -> str:
    """Options of `dispatcher limit set` that give a limit some of these terms: of dimensions, all
    that there is of each.

    >>> terms = Terms.scalar(9.0, 1.0, 1_000, 5_000)
    >>> options(terms, [told_of(terms)[0], told_of(terms)[3]])
    '--shared-capacity 9 --lease-time 5'
    """
    dimensions = {one.dimension.partition("/")[0] for one in some if one.dimension}
    limits = limits_of_terms(terms)
    by_option: dict[str, str] = {}
    if isinstance(limits, Limits) and dimensions:
        by_option["shared-capacity"] = ",".join(
            f"{name}={dimension_text(one, usual=True)}"
            for name, one in limits.items()
            if name in dimensions
        )
    by_option |= {one.option: plain(one.value) for one in some if not one.dimension}
    return " ".join(f"--{name} {quote(value)}" for name, value in by_option.items())


def capacity_of(terms: Terms) -> float | dict[str, float]:
    """The capacity of a limit, by the names of its bounds if there are several."""
    if len(terms.bounds) == 1:
        return terms.capacity
    names = names_of(terms.layout, [one.period for one in terms.bounds])
    return {name: one.capacity for name, one in zip(names, terms.bounds, strict=True)}


def differences(own: Terms, stored: Terms) -> str:
    """What this instance says of which dimension that the limit does not, where both have not the
    same dimensions, windows and calls; "" if they have.

    >>> one = Terms.scalar(10.0, 1.0, 1_000, 2_000)
    >>> differences(one, one)
    ''
    """
    if (own.layout, len(own.bounds)) == (stored.layout, len(stored.bounds)) and (
        not own.layout or all(map(BoundTerms.agrees, own.bounds, stored.bounds))
    ):
        return ""
    mine, theirs = dict(_described(own)), dict(_described(stored))
    told = [
        f"{name or 'its only dimension'} is {mine.get(name, 'no dimension')} here and "
        f"{theirs.get(name, 'no dimension')} there"
        for name in dict.fromkeys((*mine, *theirs))
        if mine.get(name) != theirs.get(name)
    ]
    return f"this instance was made with other dimensions ({'; '.join(told)}) than those"


def _described(terms: Terms) -> Iterator[tuple[str, str]]:
    """What each dimension is, for people."""
    found: dict[str, list[str]] = {}
    for part, one in zip(parts_of(terms.layout), terms.bounds, strict=True):
        period = plain(one.period / 1000)
        if part.slots:
            what = f"calls in flight of at most {period} s"
            what += "" if part.strict else ", not strict"
        else:
            what = f"a rate per {period} s"
            what += f", counted from the end of calls of at most {plain(one.running / 1000)} s" * (
                part.counts == "end"
            )
        found.setdefault(part.dimension, []).append(what)
    for name, windows in found.items():
        yield name, " and ".join(windows)
