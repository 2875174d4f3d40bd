"""What an instance and the coordinator of a limit send to each other. Plain values.

Durations are whole milliseconds. No time of an instance's clock is ever sent, only how long ago
something happened; `stamped` entries carry times of the server that `server` names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from limiters._plain_numbers import plain
from limiters._support.validation import MAX_AMOUNT, ArgumentError, amount, seconds
from limiters.leases._format import (
    DRIFT,
    FEWEST_INTERVALS,
    FLOAT_ERROR,
    FORMAT,
    MAX_ENTRIES,
    MAX_LEASE_MS,
    MAX_NAME,
    MAX_PARTITIONS,
    MAX_PERIOD_MS,
    MAX_PERMIT_MS,
    MAX_TEXT,
    MAX_TOTALS,
    MAX_WEIGHT,
    MAX_WHOLE,
    MIN_CAPACITY,
    MIN_LEASE_MS,
    REQUEST,
    UNITS,
    WEIGHT_SCALE,
    Field,
    FieldKind,
)
from limiters.leases._ledger import counts_for

AGE = Field("age", FieldKind.WHOLE, -MAX_WHOLE, MAX_WHOLE)

Entries = tuple[tuple[int, float], ...]
"""Spending: (time stamp or age in milliseconds, cost)."""

MIN_PERIOD, MAX_PERIOD = 0.001, MAX_PERIOD_MS / 1000
"""Seconds: ages are whole milliseconds."""

MIN_LEASE, MAX_LEASE = MIN_LEASE_MS / 1000, MAX_LEASE_MS / 1000
"""Seconds."""


def partitions_of(capacity: float, factor: float) -> int:
    """Into how many partitions people see a limit divided (law C10)."""
    return max(1, math.ceil(capacity / factor - FLOAT_ERROR))


def check_partitions(terms: Terms) -> None:
    """Refuses terms with more partitions than there may be."""
    if not terms.are_divisible:
        least = terms.capacity / MAX_PARTITIONS
        raise ArgumentError(
            "factor",
            terms.factor,
            f"be at least {plain(least)} for a capacity of {plain(terms.capacity)}",
            f"there can be no more than {MAX_PARTITIONS:,} partitions",
        )


def shared_amount(name: str, value: object, *, zero: bool = False) -> float:
    """`value` as the capacity of a limit, or as what it rises by in a second."""
    checked = amount(name, value, zero=zero)
    if checked and checked < MIN_CAPACITY:
        raise ArgumentError(name, value, f"be at least {MIN_CAPACITY}")
    return checked


def ramp_of(value: object) -> float | None:
    """(how much, over how many seconds) as what a capacity rises by in a second, if it is not to
    rise at once."""
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise ArgumentError("ramp", value, "be (how much, over how many seconds)")
    return shared_amount("ramp", amount("ramp", value[0]) / seconds("ramp", value[1]))


def period_seconds(value: object) -> float:
    """`value` as the period of a limit, in whole milliseconds: rather longer than shorter."""
    period = seconds("period", value)
    if not MIN_PERIOD <= period <= MAX_PERIOD:
        raise ArgumentError(
            "period", value, f"be from {plain(MIN_PERIOD)} to {plain(MAX_PERIOD)} seconds"
        )
    return math.ceil(period * 1000 - 1e-6) / 1000


def lease_seconds(value: object) -> float:
    """`value` as the lease time of a limit."""
    lease = seconds("lease_time", value)
    if not MIN_LEASE <= lease <= MAX_LEASE:
        raise ArgumentError(
            "lease_time", value, f"be from {plain(MIN_LEASE)} to {plain(MAX_LEASE)} seconds"
        )
    return lease


def as_bytes(text: str) -> bytes:
    """As names and labels are written."""
    return text.encode("utf-8", "surrogateescape")


def milliseconds(duration: float) -> int:
    """Whole milliseconds of a duration in seconds."""
    return round(duration * 1000)


def weight_units(value: object) -> int:
    """`value` as the weight of an instance, in whole thousandths."""
    weight = amount("weight", value, most=math.inf)
    if not 1 / WEIGHT_SCALE <= weight <= MAX_WEIGHT:
        raise ArgumentError("weight", value, f"be from {1 / WEIGHT_SCALE} to {MAX_WEIGHT}")
    return max(1, round(weight * WEIGHT_SCALE))


@dataclass(frozen=True, slots=True)
class Terms:
    """What all instances of one limit agree on."""

    capacity: float
    factor: float
    period: int
    lease: int
    version: int = 0
    """When an operator set them, by a server's clock; 0 if they are only configured."""
    served: bool = False
    """Whether a server that was certain has answered under them."""
    in_force: float = 0.0
    """The capacity that was in force when they were last known; 0 for all of it."""
    rising: float = 0.0
    """By how much it rises, for each millisecond."""

    @property
    def counts(self) -> int:
        """How long spending counts: a period and a guard."""
        return counts_for(self.period)

    @property
    def span(self) -> int:
        """How long it takes until nothing is left of a lease: it ends, and its spending too."""
        return self.lease + self.counts

    @property
    def rank(self) -> tuple[int, bool]:
        """Terms of a higher rank replace others while a server is uncertain."""
        return self.version, self.served

    @property
    def are_divisible(self) -> bool:
        """Whether people may see the limit divided into so many partitions."""
        # Not by partitions_of(): no whole number is as large as such a quotient may be.
        return self.capacity / self.factor - FLOAT_ERROR <= MAX_PARTITIONS

    def agrees(self, other: Terms) -> bool:
        """Whether instances under both may share a limit."""
        return (self.lease, self.period) == (other.lease, other.period)


def usable_lease(lease: int) -> float:
    """The milliseconds for which an instance uses a lease, by its own clock, from before the
    request was sent."""
    return lease * (1 - DRIFT) - 2


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that an instance has to say, in one call."""

    instance: str
    seq: int
    """Grows with each new request; one that is sent again keeps it."""
    terms: Terms
    format: int = FORMAT
    born: int = 0
    """The `born` of the last answer; 0 if there was none."""
    server: str = ""
    """The server that answered last."""
    age: int = 0
    """How long ago the request was composed that it answered."""
    nonce: str = ""
    """That of the last reply, if it had one."""
    ended: bool = False
    """Whether a request was ended without an answer since the last answer."""
    confirmed: int = -1
    """How far the clock of `server` may be by now, as far as the instance knows; -1 for unknown."""
    tries: int = 0
    """How often this request was refused because the server's clock is ahead of that."""
    units: int = 0
    """What it holds, without what it releases."""
    left: int = 0
    """How much of its lease was left when this request was composed."""
    released: int = 0
    history: Entries = ()
    """Its own spending on what it releases: (age, cost)."""
    stamped: Entries = ()
    """Inherited spending on what it releases: (time stamp, cost)."""
    need: float = 0.0
    """The cost it could spend in a period: what waits, and what it spent in the last period."""
    by_permit: float = 0.0
    """How much of `need` permits have paid for."""
    ask: float = 0.0
    """The cost for which it asks for a permit; 0 for none."""
    gathers: bool = False
    """Whether it spends nothing before it can pay for `ask`."""
    waited: int = 0
    """For how long it has asked."""
    valid: int = 0
    """For how long it would use a permit."""
    piece: float = 0.0
    """What a batch of it costs, on average."""
    weight: int = WEIGHT_SCALE
    interval: int = 500
    """How soon it will ask again."""
    spent: float = 0.0
    """What it spent of the shared capacity in the last period."""
    reserved: float = 0.0
    label: str = ""
    """Its host and process, for people."""
    leaving: bool = False
    permit: int = 0
    """The permit that `permit_spent` reports; 0 for none."""
    permit_spent: Entries = ()
    """What was spent of it: (age, cost); an age of -1 for what may still start."""
    totals: tuple[float, ...] = ()
    """What was done since what it reported before, by `totals.COUNTERS`; () for nothing."""


_OF_REQUEST = frozenset(Request.__dataclass_fields__)


def value_of(request: Request, one: Field) -> Any:
    """What a request says in one of the fields of REQUEST."""
    return getattr(request if one.name in _OF_REQUEST else request.terms, one.name)


def fault_of(request: Request) -> str | None:
    """The field of a request that has what no instance can say; None if there is none."""
    for one in REQUEST:
        if not _fits(one, value_of(request, one)):
            return one.name
    if not 0 < len(as_bytes(request.instance)) <= MAX_NAME:
        return "instance"
    return None if request.terms.are_divisible else "factor"


def _fits(one: Field, value: Any) -> bool:
    if one.kind is FieldKind.FLAG:
        return True
    if one.kind is FieldKind.TEXT:
        return len(as_bytes(value)) <= MAX_TEXT
    if one.kind is FieldKind.PAIRS:
        return len(value) <= MAX_ENTRIES and all(map(_is_entry, value))
    if one.kind is FieldKind.FLOATS:
        return len(value) <= MAX_TOTALS and all(abs(number) <= MAX_AMOUNT for number in value)
    return one.fits(value)


def _is_entry(pair: Sequence[float]) -> bool:
    at, cost = pair
    return AGE.fits(at) and math.isfinite(cost)


def checked(request: Request) -> Request | None:
    """The request as it is served: what would reach further than anything of an instance does is
    cut. None if no instance can have sent it. So a mad or hostile one harms nobody else."""
    if fault_of(request) is not None:
        return None
    return replace(
        request,
        interval=min(request.interval, -(-request.terms.lease // FEWEST_INTERVALS)),
        valid=min(request.valid, MAX_PERMIT_MS),
    )


class Kind(StrEnum):
    """What a reply is."""

    ANSWER = "answer"
    RETRY = "retry"
    """The server's clock is ahead of what the instance confirms: to be sent again at once."""
    CHALLENGE = "challenge"
    """Nothing was changed; a new request with the nonce is to follow at once."""
    REFUSED = "refused"
    """The instance has another lease or period than the limit."""
    STALE = "stale"
    """A later request of this instance was served; nothing was changed."""
    INVALID = "invalid"
    """The request has what no instance can say; nothing was changed."""
    FULL = "full"
    """The limit has as many instances as there may be, and this is another one; nothing of it was
    served."""
    FORMAT = "format"
    """The request, or what is stored, is of another format."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Everything that the coordinator has to say."""

    kind: Kind
    format: int = FORMAT
    seq: int = 0
    server: str = ""
    now: int = 0
    """The coordinator's time."""
    nonce: str = ""
    created: bool = False
    """There was no such limit before."""
    terms: Terms = field(default=Terms(0, 1, 1000, 2000))
    certain: bool = True
    uncertain: int = 0
    """For how long nothing will be granted yet."""
    cause: str = ""
    """Why not."""
    skew: int = 0
    """By how much the server's clock is ahead of the coordinator's time."""
    born: int = 0
    """A number for this membership: another one if the instance was given up meanwhile."""
    units: int = 0
    """What it holds now."""
    given: Entries = ()
    """Spending that comes along with what is new: (time stamp, cost)."""
    keep: int = 0
    """How much it may keep."""
    share: int = 0
    """Its fair share."""
    short: bool = False
    """Whether it is entitled to more than it holds."""
    permit: int = 0
    """A permit, and the cost it is for."""
    permit_cost: float = 0.0
    back: int = -1
    """When it is worth asking again, before the next sync; -1 if it is not."""
    waiting: int = 0
    """How many wait for a permit, as far as is known."""
    ahead: int = 0
    """How many of them go first."""
    evicted: bool = False
    counted: bool = False
    """Whether the totals of the request were counted."""
    instances: int = 0
    needs: int = 0
    """The sum of what all need, in units."""
    free: int = 0

    @property
    def worth(self) -> float:
        """What one unit is worth."""
        return self.terms.in_force / UNITS
