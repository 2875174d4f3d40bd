"""What a Batcher asks of a rate limiter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from limiters._budgets.window import Spend
from limiters._stats.tally import Publication, Source
from limiters.events import Event, Listener


class Grant(Protocol):
    """One deal: up to `amount` may be spent now; what was not goes back when it is closed."""

    @property
    def amount(self) -> float:
        """What was granted."""
        ...

    def spend(self, cost: float) -> Spend:
        """Charges `cost` of it for a batch that is about to start."""
        ...

    def close(self) -> None:
        """Gives back what was not spent."""
        ...


@runtime_checkable
class RateLimiter(Protocol):
    """Who may spend how much, now. Implementations are thread-safe: Batchers may share one."""

    @property
    def max_capacity(self) -> float:
        """The most that could ever be had in one period; what costs more is refused."""
        ...

    @property
    def capacity(self) -> float:
        """What is held at present, for one period."""
        ...

    @property
    def burst(self) -> float:
        """What may go at once after a rest: dearer amounts have to gather first."""
        ...

    def give_me(self, target: float, claimant: object = None) -> None:
        """Says how much waits to be spent. May lead to a larger capacity, later.

        Several who share a limiter are told apart as claimants; their targets add up.
        """
        ...

    def grant(self, up_to: float, at_least: float = 0.0, claimant: object = None) -> Grant:
        """Sets aside up to `up_to` of what may be spent now, possibly nothing.

        `at_least` is an amount that has to come together in one piece. A `claimant` that is
        granted less waits for its turn: while it waits, those behind it are granted nothing.
        """
        ...

    def ready_at(self, cost: float) -> float:
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

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Calls `fn(event)` for the events named, or for all of them."""
        ...


@runtime_checkable
class Publisher(Protocol):
    """A limiter that tells others what its users count, as SharedResource does."""

    def publish(self, source: Source) -> Publication:
        """Tells what `source()` says, from now on."""
        ...
