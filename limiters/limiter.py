"""The interface of a rate limiter that a Batcher uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from limiters._budgets.spend import Spend
from limiters._costs import AnyCost
from limiters._stats.tally import Source
from limiters._support.clock import Clock
from limiters._support.learned_cost import LearnedCost
from limiters.events import Event, Listener
from limiters.limits import Limits

LearnedSource = Callable[[], Sequence[LearnedCost]]
"""Returns what was learned of costs: a bounded number, the one settled most often first."""


class Grant(Protocol):
    """Capacity that was set aside: up to `amount` may be spent now; the rest is returned by
    `close`."""

    @property
    def amount(self) -> AnyCost:
        """The capacity that was granted."""
        ...

    def fits(self, cost: AnyCost) -> bool:
        """Whether all of `cost` was granted."""
        ...

    def spend(self, cost: AnyCost) -> Spend:
        """Charge `cost` of it for a batch that is about to start, in all dimensions at one instant.

        The caller calls `started(now)` of the returned Spend when the callback begins, which
        returns whether it may begin, and `ended(now)` when it has returned; `cancel()` if the
        callback was not run. For a batch that is given up while its callback runs, it calls
        `abandoned(now)` first.
        """
        ...

    def close(self) -> None:
        """Return the capacity that was not spent."""
        ...


class Ending(Protocol):
    """A registration that lasts until `end` is called."""

    def end(self) -> None:
        """End the registration. Idempotent."""
        ...


@runtime_checkable
class RateLimiter(Protocol):
    """Decides how much may be spent now. Implementations are thread-safe: Batchers may share one.

    A Batcher and a Worker use only these properties and methods of a limiter. If it is a
    ShowsLearnedCosts, they also give it what they learn of costs.

    Costs and capacities are numbers if the limit has one dimension (`limits.is_scalar`), and
    `Costs` by dimension if it has several.
    """

    @property
    def limits(self) -> Limits:
        """The limits by dimension, with all bounds."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of the times that `ready_at` returns."""
        ...

    @property
    def period(self) -> float:
        """The seconds in which `capacity` may be spent once; with several windows, of the
        longest."""
        ...

    @property
    def evicted(self) -> bool:
        """Whether an operator has evicted it: then it gets no shared capacity any more."""
        ...

    @property
    def broken(self) -> Exception | None:
        """The error because of which it will never get more capacity; None if there is none."""
        ...

    @property
    def max_capacity(self) -> AnyCost:
        """The most that may ever be spent in one period; operations that cost more are refused.
        With several windows of a dimension, the window that allows least counts, here and in the
        following."""
        ...

    @property
    def capacity(self) -> AnyCost:
        """The capacity that it holds now, for one period."""
        ...

    @property
    def burst(self) -> AnyCost:
        """The largest cost that may be spent immediately after a rest: for larger costs capacity
        has to gather first."""
        ...

    def give_me(self, target: AnyCost, claimant: object = None) -> None:
        """Set how much waits to be spent, which may lead to a larger capacity later.

        Users of one limiter are distinguished as claimants; their targets are added up.
        """
        ...

    def grant(self, up_to: AnyCost, at_least: AnyCost = 0.0, claimant: object = None) -> Grant:
        """Set aside up to `up_to` of the capacity that may be spent now, possibly nothing.

        `at_least` is a cost that is needed in one piece. A `claimant` that is granted less waits
        for its turn: while it waits, claimants behind it are granted nothing. Each dimension is
        granted as far as it has capacity; no capacity of one dimension is kept for the next grant
        because another one is short.
        """
        ...

    def ready_at(self, cost: AnyCost) -> float:
        """Return the time, by the limiter's clock, when a new request for `cost` may succeed."""
        ...

    @property
    def started(self) -> bool:
        """Whether `start` was called, and `stop` was not."""
        ...

    def start(self) -> None:
        """Begin to hold capacity."""
        ...

    def stop(self) -> None:
        """Return all capacity that it holds."""
        ...

    def add_wake_up(self, call: Callable[[], object]) -> Ending:
        """Register `call`, which is called each time the limiter holds more or less capacity, or is
        stopped: immediately, on any thread. `call` must return immediately."""
        ...

    def publish(self, source: Source) -> Ending:
        """Publish the counts that `source()` returns from now on, if the limiter publishes any."""
        ...

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Call `fn(event)` for the events named, or for all events. A slow listener may miss
        some."""
        ...


@runtime_checkable
class ShowsLearnedCosts(Protocol):
    """A limiter that shows people what was learned of the costs that it is charged. Optional."""

    def show_learned_costs(self, source: LearnedSource) -> Ending:
        """Shows what `source()` returns, from now on. It is called now and then, in any thread."""
        ...
