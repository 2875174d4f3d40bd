"""What an instance and the coordinator of a limit send to each other. Plain values.

Durations are whole milliseconds. No time of an instance's clock is ever sent, only how long ago
something happened; `stamped` entries carry times of the server that `server` names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from limiters._plain_numbers import plain
from limiters._support.validation import MAX_AMOUNT, ArgumentError, amount, seconds
from limiters.leases._format import (
    DRIFT,
    FEWEST_INTERVALS,
    FLOAT_ERROR,
    FORMAT,
    MAX_BOUNDS,
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
    REQUEST_BOUND,
    UNITS,
    WEIGHT_SCALE,
    Field,
    FieldKind,
)
from limiters.leases._ledger import counts_for, guard_for

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


def shared_amount(
    name: str, value: object, *, zero: bool = False, expected: str = "a number"
) -> float:
    """`value` as the capacity of a limit, or as what it rises by in a second."""
    checked = amount(name, value, zero=zero, expected=expected)
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
    return milliseconds_up(period) / 1000


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


def milliseconds_up(duration: float) -> int:
    """Whole milliseconds that are no less than a duration in seconds: a shorter window would allow
    more."""
    return math.ceil(duration * 1000 - 1e-6)


def weight_units(value: object) -> int:
    """`value` as the weight of an instance, in whole thousandths."""
    weight = amount("weight", value, most=math.inf)
    if not 1 / WEIGHT_SCALE <= weight <= MAX_WEIGHT:
        raise ArgumentError("weight", value, f"be from {1 / WEIGHT_SCALE} to {MAX_WEIGHT}")
    return max(1, round(weight * WEIGHT_SCALE))


@dataclass(frozen=True, slots=True)
class BoundTerms:
    """What all instances of a limit agree on for one of its bounds: a window of a rate, or how many
    calls may be in flight (slots)."""

    capacity: float
    """The cost in a period; of slots, how many there are."""
    period: int
    """The length of the window; of slots, for how long a call may run."""
    lasting: int
    """For how long a charge can count at most: `rate` and `in_flight` say how long that is."""
    slots: bool = False
    in_force: float = 0.0
    """The capacity that was in force when it was last known; 0 for all of it."""
    rising: float = 0.0
    """By how much it rises, for each millisecond."""

    @classmethod
    def rate(cls, capacity: float, period: int, *, running: int = 0) -> BoundTerms:
        """A window of a rate. Where a cost counts from the end of its call, `running` is for how
        long a call may run."""
        return cls(capacity, period, running + counts_for(period))

    @classmethod
    def in_flight(cls, slots: int, max_operation_time: int) -> BoundTerms:
        """So many calls at a time, each of which takes so long at most."""
        lasting = max_operation_time + guard_for(max_operation_time)
        return cls(float(slots), max_operation_time, lasting, slots=True)

    @property
    def counts(self) -> int:
        """How long a cost counts after its stamp, which is that of its start or of its end. Nothing
        is stamped in slots."""
        return counts_for(self.period)

    @property
    def running(self) -> int:
        """For how long after its start a cost may be stamped: 0 where it counts from the start."""
        return 0 if self.slots else self.lasting - self.counts

    @property
    def units(self) -> int:
        """The units of the whole: those of slots are the slots."""
        return max(1, math.floor(self.in_force or self.capacity)) if self.slots else UNITS

    def with_period(self, period: int) -> BoundTerms:
        """The same for another length of the window, or another longest call."""
        lasting = guard_for(period) if self.slots else self.running + guard_for(period)
        return replace(self, period=period, lasting=period + lasting)

    def agrees(self, other: BoundTerms) -> bool:
        """Whether instances under both may share a limit."""
        one = (self.period, self.lasting, self.slots)
        return one == (other.period, other.lasting, other.slots)


@dataclass(frozen=True, slots=True)
class Terms:
    """What all instances of one limit agree on.

    A limit of a single rate has one bound: `scalar` makes its terms. `capacity`, `period`,
    `in_force` and `rising` are those of the first bound.
    """

    bounds: tuple[BoundTerms, ...]
    factor: float
    """What one partition is worth, in cost of the first bound: for people."""
    lease: int
    layout: str = ""
    """What each bound is called and how it counts, as `_layout` writes it; "" for a scalar one."""
    version: int = 0
    """When an operator set them, by a server's clock; 0 if they are only configured."""
    served: bool = False
    """Whether a server that was certain has answered under them."""

    @classmethod
    def scalar(
        cls,
        capacity: float,
        factor: float,
        period: int,
        lease: int,
        version: int = 0,
        served: bool = False,
        in_force: float = 0.0,
        rising: float = 0.0,
    ) -> Terms:
        """Those of a limit of one rate that has no name."""
        bound = BoundTerms(capacity, period, counts_for(period), in_force=in_force, rising=rising)
        return cls((bound,), factor, lease, version=version, served=served)

    @property
    def capacity(self) -> float:
        """That of the first bound."""
        return self.bounds[0].capacity

    @property
    def period(self) -> int:
        """That of the first bound."""
        return self.bounds[0].period

    @property
    def in_force(self) -> float:
        """That of the first bound."""
        return self.bounds[0].in_force

    @property
    def rising(self) -> float:
        """That of the first bound."""
        return self.bounds[0].rising

    @property
    def counts(self) -> int:
        """How long a charge can count at most, in any bound."""
        return max(one.lasting for one in self.bounds)

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
        return (
            (self.lease, self.layout) == (other.lease, other.layout)
            and len(self.bounds) == len(other.bounds)
            and all(map(BoundTerms.agrees, self.bounds, other.bounds))
        )


def usable_lease(lease: int) -> float:
    """The milliseconds for which an instance uses a lease, by its own clock, from before the
    request was sent."""
    return lease * (1 - DRIFT) - 2


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """What an instance has to say of one bound."""

    units: int = 0
    """What it holds, without what it releases."""
    released: int = 0
    history: Entries = ()
    """Its own spending on what it releases: (age, cost). Of slots, nothing."""
    stamped: Entries = ()
    """Inherited spending on what it releases: (time stamp, cost). Of slots, nothing."""
    need: float = 0.0
    """The cost it could spend in a period: what waits, and what it spent in the last period. Of
    slots, how many calls it could have in flight. The needs of all bounds have the shape of its mix
    of operations, and none exceeds its capacity."""
    by_permit: float = 0.0
    """How much of `spent` permits have paid for."""
    ask: float = 0.0
    """The cost for which it asks for a permit; 0 in all bounds for none, and always of slots."""
    lacks: bool = True
    """Whether what it holds has no room for `ask` here."""
    piece: float = 0.0
    """What a batch of it costs, on average."""
    spent: float = 0.0
    """What it spent of the shared capacity in the last period."""
    reserved: float = 0.0
    permit_spent: Entries = ()
    """What was spent of its permit: (age, cost); an age of -1 for what may still be stamped."""
    debts: Entries = ()
    """What was spent beyond what was charged, and is in no ledger: (age, cost)."""
    refunds: Entries = ()
    """What permits were charged and calls did not cost: (time stamp, cost). The stamp is that of
    the charge in the pool's ledger; the cost is divided by what had stayed of the pool when the
    permit was granted."""
    moved: Entries = ()
    """What of `refunds` counts from an earlier time instead, as its call has ended: (age, cost),
    divided likewise."""
    wave: int = 0
    """The wave of the pool in which these permits were granted."""


_OF_BOUND_REQUEST = frozenset(BoundRequest.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that an instance has to say, in one call. `scalar` makes one of one bound."""

    instance: str
    seq: int
    """Grows with each new request; one that is sent again keeps it."""
    terms: Terms
    bounds: tuple[BoundRequest, ...]
    """As many as the terms have."""
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
    left: int = 0
    """How much of its lease was left when this request was composed; 0 if it holds nothing."""
    gathers: bool = False
    """Whether it spends nothing before it can pay for what it asks for."""
    waited: int = 0
    """For how long it has asked."""
    valid: int = 0
    """For how long it would use a permit."""
    weight: int = WEIGHT_SCALE
    interval: int = 500
    """How soon it will ask again."""
    label: str = ""
    """For people: its host and process, and in further lines what it has learned of costs."""
    leaving: bool = False
    permit: int = 0
    """The permit that `permit_spent` reports; 0 for none."""
    totals: tuple[float, ...] = ()
    """What was done since what it reported before, by `totals.COUNTERS`; () for nothing."""

    @classmethod
    def scalar(cls, instance: str, seq: int, terms: Terms, **said: Any) -> Request:
        """One of a limit of one bound: `said` has fields of the request and of that bound."""
        return altered(cls(instance, seq, terms, (BoundRequest(),)), **said)

    @property
    def units(self) -> int:
        """That of the first bound."""
        return self.bounds[0].units

    @property
    def released(self) -> int:
        """That of the first bound."""
        return self.bounds[0].released

    @property
    def need(self) -> float:
        """That of the first bound."""
        return self.bounds[0].need

    @property
    def ask(self) -> float:
        """That of the first bound."""
        return self.bounds[0].ask

    @property
    def holds(self) -> bool:
        """Whether it holds something of a bound."""
        return any(one.units for one in self.bounds)


_OF_REQUEST = frozenset(Request.__dataclass_fields__) - {"bounds"}


def value_of(request: Request, one: Field) -> Any:
    """What a request says in one of the fields of REQUEST."""
    return getattr(request if one.name in _OF_REQUEST else request.terms, one.name)


def value_of_bound(terms: BoundTerms, said: BoundRequest, one: Field) -> Any:
    """What a request says of a bound in one of the fields of REQUEST_BOUND."""
    return getattr(said if one.name in _OF_BOUND_REQUEST else terms, one.name)


def fault_of(request: Request) -> str | None:
    """The field of a request that has what no instance can say; None if there is none."""
    for one in REQUEST:
        if not _fits(one, value_of(request, one)):
            return one.name
    if not 0 < len(as_bytes(request.instance)) <= MAX_NAME:
        return "instance"
    if not 0 < len(request.bounds) == len(request.terms.bounds) <= MAX_BOUNDS:
        return "bounds"
    for terms, said in zip(request.terms.bounds, request.bounds, strict=True):
        for one in REQUEST_BOUND:
            if not _fits(one, value_of_bound(terms, said, one)):
                return one.name
        fault = fault_of_bound(terms)
        if fault:
            return fault
    return None if request.terms.are_divisible else "factor"


def fault_of_bound(terms: BoundTerms) -> str | None:
    """What no bound can have though each of its numbers can be one; None if there is nothing."""
    if terms.slots:
        if not 1 <= terms.capacity <= UNITS or terms.capacity % 1:
            return "capacity"
        return None if terms.lasting >= terms.period else "lasting"
    return None if terms.lasting >= terms.counts else "lasting"


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
class BoundReply:
    """What the coordinator has to say of one bound."""

    units: int = 0
    """What the instance holds now."""
    given: Entries = ()
    """Spending that comes along with what is new: (time stamp, cost)."""
    keep: int = 0
    """How much it may keep. Of slots, it starts no call beyond this many."""
    share: int = 0
    """Its fair share."""
    permit_cost: float = 0.0
    """The cost that its permit is for."""
    needs: int = 0
    """The sum of what all need, in units."""
    free: int = 0
    """What nobody holds. Less than nothing of slots, while more are held than there are now."""
    permit_at: int = 0
    """The time stamp of its permit in the pool's ledger, unless its use is reported."""
    permit_stayed: float = 0.0
    """The share of the pool of this wave that had stayed when it was granted."""
    permit_wave: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """Everything that the coordinator has to say. `scalar` makes one of one bound."""

    kind: Kind
    format: int = FORMAT
    seq: int = 0
    server: str = ""
    now: int = 0
    """The coordinator's time."""
    nonce: str = ""
    created: bool = False
    """There was no such limit before."""
    terms: Terms = field(default=Terms.scalar(0, 1, 1000, 2000))
    bounds: tuple[BoundReply, ...] = (BoundReply(),)
    """As many as the terms have."""
    certain: bool = True
    uncertain: int = 0
    """For how long nothing will be granted yet."""
    cause: str = ""
    """Why not."""
    skew: int = 0
    """By how much the server's clock is ahead of the coordinator's time."""
    born: int = 0
    """A number for this membership: another one if the instance was given up meanwhile."""
    short: bool = False
    """Whether it is entitled to more than it holds, of any bound."""
    permit: int = 0
    """The number of a permit; the bounds say for which cost."""
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
    heard: int = 0
    """The coordinator's time when it served the request first. It corrects the stamps of what the
    request reports by that time."""

    @classmethod
    def scalar(cls, kind: Kind, **said: Any) -> Reply:
        """One of a limit of one bound: `said` has fields of the reply and of that bound."""
        return altered(cls(kind), **said)

    @property
    def units(self) -> int:
        """That of the first bound."""
        return self.bounds[0].units

    @property
    def given(self) -> Entries:
        """That of the first bound."""
        return self.bounds[0].given

    @property
    def keep(self) -> int:
        """That of the first bound."""
        return self.bounds[0].keep

    @property
    def share(self) -> int:
        """That of the first bound."""
        return self.bounds[0].share

    @property
    def permit_cost(self) -> float:
        """That of the first bound."""
        return self.bounds[0].permit_cost

    @property
    def needs(self) -> int:
        """That of the first bound."""
        return self.bounds[0].needs

    @property
    def free(self) -> int:
        """That of the first bound."""
        return self.bounds[0].free

    @property
    def worth(self) -> float:
        """What one unit of the first bound is worth."""
        return self.terms.in_force / self.terms.bounds[0].units


_Message = TypeVar("_Message", Terms, Request, Reply)


def altered(message: _Message, **changes: Any) -> _Message:
    """The same with other values, as by `replace`; those of fields of a bound go to the first one.

    >>> altered(Terms.scalar(100.0, 10.0, 1_000, 2_000), capacity=50.0, lease=3_000).capacity
    50.0
    """
    own = {name: changes.pop(name) for name in [*changes] if name in message.__dataclass_fields__}
    if not changes:
        return replace(message, **own)
    first, *others = own.pop("bounds", message.bounds)
    if isinstance(message, Terms) and "period" in changes:
        first = first.with_period(changes.pop("period"))
    return replace(message, bounds=(replace(first, **changes), *others), **own)
