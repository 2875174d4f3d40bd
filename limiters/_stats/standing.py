"""Standing: holdings, wants and spending of a limiter at one moment. Plain values, for metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from limiters._costs import AnyCost
from limiters._stats.histogram import SECONDS, Histogram


@dataclass(frozen=True, slots=True)
class BoundStanding:
    """Standing of one bound of a limit: of a window of a rate, or of a number of calls in flight.
    Amounts are costs for one period of the bound; of slots, numbers of calls."""

    dimension: str
    """Its name, such as `tokens`, or `requests/1s` for a further window of requests."""
    shared: float
    """The part of the shared capacity that is held."""
    reserved: float
    max: float
    """The most that could be had."""
    demand: float
    """The cost that waits to be spent."""
    spent_shared: float = 0.0
    """In all, of callbacks that have begun, as estimated."""
    spent_reserved: float = 0.0
    refunded_shared: float = 0.0
    """In all, by how much calls that were settled and have ended cost less than estimated."""
    refunded_reserved: float = 0.0
    excess_shared: float = 0.0
    """In all, by how much they cost more."""
    excess_reserved: float = 0.0
    partitions_held: float = 0.0
    partitions_wanted: float = 0.0
    fair_share: float = 0.0
    """In partitions, like those before."""
    slots_busy: float | None = None
    """How many calls run now; None of a rate."""
    slots_idle: float | None = None
    """How many more may begin, of what is held and reserved; None of a rate."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Values are costs by default: numbers if the limit has one dimension, Costs otherwise.
    Counters never go back while the limiter lives."""

    name: str
    """The name of the limit."""
    shared: AnyCost
    """The part of the shared capacity that is held, for one period."""
    reserved: AnyCost
    max: AnyCost
    """The most that could be had in one period."""
    demand: AnyCost
    """The cost that waits to be spent."""
    bounds: tuple[BoundStanding, ...]
    """Standing of each window and each number of calls in flight."""
    member: str = ""
    """Its host and process, as others see it; "" if nothing is shared."""
    spent_shared: AnyCost = 0.0
    """In all, of callbacks that have begun, as estimated."""
    spent_reserved: AnyCost = 0.0
    partitions_held: float = 0.0
    partitions_wanted: float = 0.0
    fair_share: float = 0.0
    """In partitions, like those before; of several bounds, those of the largest number."""
    permits: int = 0
    """How many permits it was granted."""
    permit_wait: float = 0.0
    """For how many seconds it has waited for a permit; 0 if it does not."""
    turn: int = 0
    """Its place among those who wait for a permit; 0 if it does not."""
    uncertain: float = 0.0
    """For how many seconds nothing is granted yet, by the last reply."""
    uncertain_cause: str = ""
    clock_skew: float = 0.0
    """Seconds of the lease manager's clock that do not count, since no instance confirmed them."""
    refused: bool = False
    """Whether it has another lease time, or other windows or dimensions, than the limit, and so
    gets nothing shared."""
    connected: bool | None = None
    """Whether the lease manager answers; None if that is not known: it was not asked yet, or it did
    not answer and is asked nothing more, or there is none."""
    trouble: str = ""
    """The reason why the last request was not answered; "" if it was."""
    sync_failures: int = 0
    """Requests that were not answered."""
    sync_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """How long those took that were."""
