"""A reservation: what one call takes of a limit, from before it begins until it has ended.

A caller may be interrupted at any point: before it is granted, then nothing stays charged; in the
`with` block, which ends it; or in the first step of the end itself. Then nothing refers to the
reservation any more once the exception was dealt with, and that frees its slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from limiters._budgets.spend import Spend
from limiters._costs import AnyCost, plain_cost
from limiters._support.clock import Clock
from limiters.errors import ImproperOrderError, ReserveTimeoutError, SettlementError
from limiters.limits import Limits


class Receipt:
    """What a caller was charged, for as long as it exists. What waits for it fills it in."""

    __slots__ = ("__weakref__", "spend")

    def __init__(self) -> None:
        self.spend: Spend | None = None

    def cancel(self) -> None:
        """It was not of use: it stops counting."""
        if self.spend is not None:
            self.spend.cancel()


_NONE = Receipt()
"""In place of a receipt that is no longer needed."""


class WaitingLine(Protocol):
    """How a reservation waits: those who acquire wait in the same line."""

    @property
    def limits(self) -> Limits:
        """What its limiter allows, by dimension."""

    def take(self, cost: AnyCost, timeout: float | None, receipt: Receipt) -> bool:
        """Waits until `cost` is granted, and charges it; False if that took too long."""

    async def take_async(self, cost: AnyCost, timeout: float | None, receipt: Receipt) -> bool:
        """`take` for coroutines."""


class Reservation:
    """What `reserve` of a limiter returns: charged as a `with` block begins, ended as it ends.

    For one block, `with` or `async with`, in one thread or task.
    """

    __slots__ = ("_clock", "_receipt", "_timeout", "_used", "_waiting", "cost")

    def __init__(
        self, cost: AnyCost, timeout: float | None, waiting: WaitingLine, clock: Clock
    ) -> None:
        self.cost = cost
        """What it takes."""
        self._timeout = timeout
        self._waiting = waiting
        self._clock = clock
        self._receipt = Receipt()
        self._used = False

    def __enter__(self) -> Reservation:
        self._begin()
        try:
            self._granted(self._waiting.take(self.cost, self._timeout, self._receipt))
            return self
        except BaseException:
            self._receipt.cancel()
            raise

    def __exit__(self, *error: object) -> None:
        self._end()

    async def __aenter__(self) -> Reservation:
        self._begin()
        try:
            self._granted(await self._waiting.take_async(self.cost, self._timeout, self._receipt))
            return self
        except BaseException:
            self._receipt.cancel()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._end()

    def settle(self, actual: float | Mapping[str, float]) -> None:
        """Says what the call costs in truth, in its block: once it is known, or several times while
        an answer streams. The last one counts when the block ends, and until then it counts for no
        less than was reserved. In several dimensions, those that are not named cost what was
        reserved.

        Raises ArgumentError for a cost that is not possible, and SettlementError outside of the
        block, or if nothing was reserved. Thread-safe.
        """
        checked = self._waiting.limits.actual("actual", actual, self.cost)
        if checked and not self.cost:
            raise SettlementError(
                "this reservation is of nothing, and so was charged nothing; reserve what the call "
                "may cost at most"
            )
        spend = self._receipt.spend
        if spend is None or not spend.settle(checked):
            raise SettlementError(
                "this reservation is settled in its block alone, while what it took is charged; "
                "outside of it, it counts for what was reserved or settled before"
            )

    def __repr__(self) -> str:
        if self._receipt is _NONE:
            state = "ended"
        elif self._receipt.spend is not None:
            state = "granted"
        else:
            state = "waits" if self._used else "new"
        return f"Reservation({plain_cost(self.cost)}, {state})"

    def _begin(self) -> None:
        if self._used:
            raise ImproperOrderError("this reservation was used; call reserve() for another one")
        self._used = True

    def _granted(self, granted: bool) -> None:
        if not granted:
            assert self._timeout is not None
            raise ReserveTimeoutError(self.cost, self._timeout)

    def _end(self) -> None:
        try:
            if self._receipt.spend is not None:
                self._receipt.spend.ended(self._clock.now())
        finally:
            self._receipt = _NONE  # what has no owner has ended, also if that was interrupted
