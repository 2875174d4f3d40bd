"""Standing: what a limiter has, wants and has spent, at one moment. Plain values, for metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from limiters._costs import AnyCost
from limiters._stats.histogram import SECONDS, Histogram


@dataclass(frozen=True, slots=True)
class BoundStanding:
    """The same of one bound of a limit: of a window of a rate, or of a number of calls in flight.
    Amounts are costs for one period of the bound; of slots, numbers of calls."""

    dimension: str
    """What it is called, such as `tokens`, or `requests/1s` for a further window of requests."""
    shared: float
    """What is held of what is shared."""
    reserved: float
    max: float
    """What could be had at most."""
    demand: float
    """What waits to be spent."""
    spent_shared: float = 0.0
    """In all, of callbacks that have begun."""
    spent_reserved: float = 0.0
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
    """Costs, unless said otherwise: numbers if the limit has one dimension, Costs otherwise. What
    counts up never goes back while the limiter lives."""

    name: str
    """The limit's."""
    shared: AnyCost
    """What is held of the shared capacity, for one period."""
    reserved: AnyCost
    max: AnyCost
    """What could be had at most in one period."""
    demand: AnyCost
    """What waits to be spent."""
    bounds: tuple[BoundStanding, ...]
    """The same of each window and each number of calls in flight."""
    member: str = ""
    """Its host and process, as others see it; "" if nothing is shared."""
    spent_shared: AnyCost = 0.0
    """In all, of callbacks that have begun."""
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
    """For how many seconds nothing is granted yet, as the last reply said."""
    uncertain_cause: str = ""
    clock_skew: float = 0.0
    """Seconds of the lease manager's clock that do not count, since no instance confirmed them."""
    refused: bool = False
    """Whether it has another lease time or period than the limit, and so gets nothing shared."""
    connected: bool | None = None
    """Whether the lease manager answers; None if that is not known: it was not asked yet, or it did
    not answer and is asked nothing more, or there is none."""
    trouble: str = ""
    """What was wrong with the last request, if it was not answered."""
    sync_failures: int = 0
    """Requests that were not answered."""
    sync_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """How long those took that were."""
