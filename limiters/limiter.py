"""What a Batcher asks of a rate limiter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from limiters._budgets.spend import Spend
from limiters._costs import AnyCost
from limiters._stats.tally import Source
from limiters._support.clock import Clock
from limiters.events import Event, Listener
from limiters.leases._learned_costs import LearnedCost
from limiters.limits import Limits

LearnedSource = Callable[[], Sequence[LearnedCost]]
"""Returns what was learned of costs: a bounded number, the one settled most often first."""


class Grant(Protocol):
    """One deal: up to `amount` may be spent now; what was not goes back when it is closed."""

    @property
    def amount(self) -> AnyCost:
        """What was granted."""
        ...

    def fits(self, cost: AnyCost) -> bool:
        """Whether all of `cost` was granted."""
        ...

    def spend(self, cost: AnyCost) -> Spend:
        """Charges `cost` of it for a batch that is about to start: in all dimensions at one
        instant.

        Whoever runs the batch calls `started(now)` of what it returns as the callback begins, which
        says whether it may, and `ended(now)` when it has returned; `cancel()` if it was not run
        after all. A batch that is given up while its callback runs is `abandoned(now)` first.
        """
        ...

    def close(self) -> None:
        """Gives back what was not spent."""
        ...


class Ending(Protocol):
    """Something that was begun, and goes on until `end` is called."""

    def end(self) -> None:
        """Ends it. Idempotent."""
        ...


@runtime_checkable
class RateLimiter(Protocol):
    """Who may spend how much, now. Implementations are thread-safe: Batchers may share one.

    This is all that a Batcher and a Worker need of a limiter. One that is a ShowsLearnedCosts too
    is given what they learn of costs.

    Costs and capacities are numbers if the limit has one dimension (`limits.is_scalar`), and
    `Costs` by dimension if it has several.
    """

    @property
    def limits(self) -> Limits:
        """What it allows, by dimension, and each of its bounds."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock by which `ready_at` tells times."""
        ...

    @property
    def period(self) -> float:
        """The seconds in which `capacity` may be spent once; of several windows, the longest."""
        ...

    @property
    def evicted(self) -> bool:
        """Whether an operator has shut it out: it gets no shared capacity any more."""
        ...

    @property
    def broken(self) -> Exception | None:
        """What keeps it for good from getting more capacity; None if nothing does."""
        ...

    @property
    def max_capacity(self) -> AnyCost:
        """The most that could ever be had in one period; what costs more is refused. Of several
        windows of a dimension, the one that allows least counts, here and in what follows."""
        ...

    @property
    def capacity(self) -> AnyCost:
        """What is held at present, for one period."""
        ...

    @property
    def burst(self) -> AnyCost:
        """What may go at once after a rest: dearer amounts have to gather first."""
        ...

    def give_me(self, target: AnyCost, claimant: object = None) -> None:
        """Says how much waits to be spent. May lead to a larger capacity, later.

        Several who share a limiter are told apart as claimants; their targets add up.
        """
        ...

    def grant(self, up_to: AnyCost, at_least: AnyCost = 0.0, claimant: object = None) -> Grant:
        """Sets aside up to `up_to` of what may be spent now, possibly nothing.

        `at_least` is an amount that has to come together in one piece. A `claimant` that is
        granted less waits for its turn: while it waits, those behind it are granted nothing. Of
        each dimension that is granted which is there; nothing is kept of one for the next grant
        because another is lacking.
        """
        ...

    def ready_at(self, cost: AnyCost) -> float:
        """When, by the limiter's clock, it is worth asking again for `cost`."""
        ...

    @property
    def started(self) -> bool:
        """Whether `start` was called, and `stop` was not."""
        ...

    def start(self) -> None:
        """Begins to hold capacity."""
        ...

    def stop(self) -> None:
        """Gives back whatever it holds."""
        ...

    def add_wake_up(self, call: Callable[[], object]) -> Ending:
        """Has `call()` called whenever it holds more, or less, or is stopped: at once, by any
        thread, and never left out. `call` returns immediately."""
        ...

    def publish(self, source: Source) -> Ending:
        """Tells others what `source()` counts, from now on, if it tells others anything."""
        ...

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Calls `fn(event)` for the events named, or for all of them: for users, who may miss some
        if they are slow."""
        ...


@runtime_checkable
class ShowsLearnedCosts(Protocol):
    """A limiter that shows people what was learned of the costs that it is charged. Optional."""

    def show_learned_costs(self, source: LearnedSource) -> Ending:
        """Shows what `source()` returns, from now on. It is called now and then, in any thread."""
        ...
