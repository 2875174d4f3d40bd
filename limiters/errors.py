"""The root of all errors of the project, and the errors of the limiters.

The root stands here, below `dispatcher`, so that `except DispatcherError` catches all of them and
`except LimiterError` those of the limiters alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

from limiters._plain_numbers import plain

if TYPE_CHECKING:
    from limiters._costs import AnyCost


class Sendable(Exception):  # noqa: N818 - it says what errors can do, and is none itself
    """An exception that can be sent to other processes, whatever its arguments are.

    By default, pickle makes a new one by calling its class with the message alone.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (type(self), self.args), self.__dict__


def _received(kind: type[Sendable], args: tuple[Any, ...]) -> Sendable:
    error = kind.__new__(kind)
    error.args = args
    return error


class DispatcherError(Sendable):
    """The root of every error that this project raises on purpose, except ArgumentError, which is a
    ValueError."""


class LimiterError(DispatcherError):
    """An error of a rate limiter."""


class NothingRunError(DispatcherError, TypeError):
    """A user's function returned something that is yet to be run, awaited or finished."""

    def __init__(self, function: str, result: str) -> None:
        self.function = function
        self.result = result
        """The class of the object that it returned."""
        super().__init__(
            f"{function} returned an object of class {result}, whose work is yet to be done: "
            "declare it with async def if it awaits, iterate inside it over what is lazy, and "
            "wait inside it for the result() of a Future"
        )


class ExceedsCapacityError(LimiterError):
    """The cost can never be granted: it is more than the limiter's maximum."""

    def __init__(
        self,
        cost: AnyCost,
        max_capacity: AnyCost,
        batch_cost: AnyCost = 0,
        windows: Mapping[str, str] | None = None,
    ) -> None:
        """`windows`: names of the shorter windows that allow least, by dimension."""
        self.cost = cost
        self.max_capacity = max_capacity
        self.batch_cost = batch_cost
        """The own cost of its batch, in addition to `cost`."""
        self.dimension = ""
        """The dimension in which it costs too much; "" if the limit has only one."""
        too_much, most, extra = cost, max_capacity, batch_cost
        if isinstance(cost, Mapping) and isinstance(max_capacity, Mapping):
            both: Mapping[str, float] = batch_cost + cost  # type: ignore[assignment,operator]
            beyond = (name for name, one in both.items() if one > max_capacity.get(name, 0))
            self.dimension = next(beyond, "")
            too_much, most = cost.get(self.dimension, 0), max_capacity.get(self.dimension, 0)
            extra = batch_cost.get(self.dimension, 0) if isinstance(batch_cost, Mapping) else 0
        of = f" of {self.dimension}" if self.dimension else ""
        windows = windows or {}
        (only,) = windows.values() if len(windows) == 1 else ("",)
        self.window = windows.get(self.dimension, "") if self.dimension else only
        """The shorter window that allows less than that; "" if it is the longest."""
        of_most = f" of {self.window}" if self.window else of
        batch = f" and its batch {plain(extra)}{of} in addition" if extra else ""
        if too_much or not extra:
            what, advice = f"the operation costs {plain(too_much)}{of}{batch}", "split it"
        else:
            what, advice = f"its batch costs {plain(extra)}{of}", "lower the batch_cost"
        super().__init__(
            f"{what}, more than the limiter's max_capacity of {plain(most)}{of_most}; {advice}, or "
            "raise the capacity"
        )


class ReserveTimeoutError(LimiterError, TimeoutError):
    """A reservation was not granted in time. Nothing was charged."""

    def __init__(self, cost: AnyCost, timeout: float) -> None:
        self.cost = cost
        self.timeout = timeout
        """The time-out in seconds."""
        shown = dict(cost) if isinstance(cost, Mapping) else plain(cost)
        super().__init__(
            f"a reservation of {shown} was not granted within {plain(timeout)} s, as the limit had "
            "no room for it; wait longer, or ask for less"
        )


class ServerNotFoundError(LimiterError):
    """There is no Redis server on this machine that could be started."""


class ServerStartError(LimiterError):
    """A Redis server was started and never became ready; `log` has its output."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class ImproperOrderError(DispatcherError):
    """A call does not fit the state: started twice, or stopped before it was started."""


class SettlementError(DispatcherError):
    """An actual cost was given where there is nothing to settle. Nothing has changed."""


class LimiterStoppedError(LimiterError):
    """The limiter was stopped while a caller waited for it."""


class LeaseManagerError(LimiterError):
    """The store of the leases gave no answer, or refused: only reserved capacity can be used."""


class DamagedLimitError(LeaseManagerError):
    """The data of a limit in Redis has been damaged. The limit starts over with the next request of
    an instance, which finds the damage as well, or when it is deleted."""

    def __init__(self, name: str, where: str, damage: str) -> None:
        self.name = name
        """The name of the limit."""
        self.where = where
        """The address of its Redis."""
        super().__init__(
            f"{damage}. It is the limit {name!r} in Redis at {where}; it starts over as soon as an "
            f"instance asks, or by: dispatcher limit delete {quote(name)}"
        )


class RedisNotInstalledError(LimiterError, ImportError):
    """The package `redis` is needed and is not installed."""


class SharedCapacityNotProvisionedError(LimiterError):
    """Shared capacity was requested from a limiter without a lease manager."""
