"""Every error of the project, from its root down to those of the ground floor.

The root stands here, below `dispatcher`, so that `except DispatcherError` catches all of
them and `except LimiterError` those of the limiters alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from limiters._plain_numbers import plain

if TYPE_CHECKING:
    from limiters._costs import AnyCost


class Sendable(Exception):  # noqa: N818 - it says what errors can do, and is none itself
    """An exception that other processes can be sent, whatever it is made of.

    Left to itself, pickle makes one anew by calling its class with the message alone.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (type(self), self.args), self.__dict__


def _received(kind: type[Sendable], args: tuple[Any, ...]) -> Sendable:
    error = kind.__new__(kind)
    error.args = args
    return error


class DispatcherError(Sendable):
    """The root of every error this project raises on purpose, but for ArgumentError: that is a
    ValueError."""


class LimiterError(DispatcherError):
    """Something about a rate limiter."""


class NothingRunError(DispatcherError, TypeError):
    """A function of the user's returned something that is yet to be run, awaited or finished."""

    def __init__(self, function: str, result: str) -> None:
        self.function = function
        self.result = result
        """The class of what it returned."""
        super().__init__(
            f"{function} returned an object of class {result}, whose work is yet to be done: "
            "declare it with async def if it awaits, iterate inside it over what is lazy, and "
            "wait inside it for the result() of a Future"
        )


class ExceedsCapacityError(LimiterError):
    """It could never be had: it costs more than the limiter can ever grant."""

    def __init__(
        self,
        cost: AnyCost,
        max_capacity: AnyCost,
        batch_cost: AnyCost = 0,
        windows: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`windows`: names of the shorter windows that allow least, by dimension."""
        self.cost = cost
        self.max_capacity = max_capacity
        self.batch_cost = batch_cost
        """What its batch would cost besides."""
        self.dimension = ""
        """That in which it costs more; "" if the limit has one alone."""
        too_much, most, besides = cost, max_capacity, batch_cost
        if isinstance(cost, Mapping) and isinstance(max_capacity, Mapping):
            both: Mapping[str, float] = batch_cost + cost  # type: ignore[assignment,operator]
            beyond = (name for name, one in both.items() if one > max_capacity.get(name, 0))
            self.dimension = next(beyond, "")
            too_much, most = cost.get(self.dimension, 0), max_capacity.get(self.dimension, 0)
            besides = batch_cost.get(self.dimension, 0) if isinstance(batch_cost, Mapping) else 0
        of = f" of {self.dimension}" if self.dimension else ""
        (only,) = windows.values() if len(windows) == 1 else ("",)
        self.window = windows.get(self.dimension, "") if self.dimension else only
        """The shorter window that allows less than that; "" if it is the longest."""
        of_most = f" of {self.window}" if self.window else of
        batch = f" and its batch {plain(besides)}{of} besides" if besides else ""
        super().__init__(
            f"the operation costs {plain(too_much)}{of}{batch}, more than the limiter's "
            f"max_capacity of {plain(most)}{of_most}; split it, or raise the capacity"
        )


class ReserveTimeoutError(LimiterError, TimeoutError):
    """A reservation was not granted in time. Nothing was charged."""

    def __init__(self, cost: AnyCost, timeout: float) -> None:
        self.cost = cost
        self.timeout = timeout
        """Seconds."""
        shown = dict(cost) if isinstance(cost, Mapping) else plain(cost)
        super().__init__(
            f"{shown} was not granted within {plain(timeout)} s; wait longer, or ask for less"
        )


class ServerNotFoundError(LimiterError):
    """There is no Redis server on this machine that could be started."""


class ServerStartError(LimiterError):
    """A Redis server was started and never became ready; `log` is what it said."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class ImproperOrderError(DispatcherError):
    """A call that does not fit the state: started twice, stopped before it was started."""


class SettlementError(DispatcherError):
    """A true cost was given where there is nothing to settle. Nothing has changed."""


class LimiterStoppedError(LimiterError):
    """The limiter was stopped while somebody waited for it."""


class LeaseManagerError(LimiterError):
    """Whoever keeps the leases gave no answer, or refused: only what is reserved can be used."""


class DamagedLimitError(LeaseManagerError):
    """What Redis keeps of a limit is not as it was written. The next request of an instance finds
    that too, and the limit starts over; so it does when it is deleted."""

    def __init__(self, name: str, where: str, damage: str) -> None:
        self.name = name
        """What the limit is called."""
        self.where = where
        """Where its Redis is."""
        super().__init__(
            f"{damage}. It is the limit {name!r} in Redis at {where}; it starts over as soon as an "
            f"instance asks, or by: dispatcher limit delete {quote(name)}"
        )


class RedisNotInstalledError(LimiterError, ImportError):
    """Something needs the package `redis`, which is not there."""


class SharedCapacityNotProvisionedError(LimiterError):
    """Shared capacity was asked for, and there is nobody to share it with."""
