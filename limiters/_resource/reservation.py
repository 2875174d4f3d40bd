"""A reservation: the cost of one call, charged from before it begins until it has ended.

A caller may be interrupted at any point. Before the `with` block begins, nothing stays charged. In
the block, the block ends the reservation. In the first step of the end itself, the reservation is
freed as soon as nothing refers to it, after the exception was handled, and that frees its slots.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from limiters._budgets.spend import Payment
from limiters._costs import AnyCost, plain_cost, replaced
from limiters._support.clock import Clock
from limiters.errors import ImproperOrderError, ReserveTimeoutError, SettlementError
from limiters.limits import Limits


class Receipt:
    """The charge of a caller, which lasts as long as this object. The wait for it sets
    `payment`."""

    __slots__ = ("__weakref__", "payment")

    def __init__(self) -> None:
        self.payment: Payment | None = None


_NONE = Receipt()
"""Stands in place of a receipt that is no longer needed."""


class WaitingLine(Protocol):
    """The queue in which a reservation waits, which is that of `acquire`."""

    left_behind: bool
    """Whether this is a copy in a forked child."""

    @property
    def limits(self) -> Limits:
        """The limits of its limiter."""

    def take(self, cost: AnyCost, timeout: float | None, receipt: Receipt) -> bool:
        """Wait until `cost` is granted, and charge it; False if that takes longer than
        `timeout`."""

    async def take_async(self, cost: AnyCost, timeout: float | None, receipt: Receipt) -> bool:
        """Wait and charge as `take` does, for coroutines."""

    def withdraw(self, receipt: Receipt) -> None:
        """Undo the charge of `receipt`, whose call is not made. Idempotent."""


class Reservation:
    """The cost of one call, charged when a `with` block begins, until it ends. See `reserve` of a
    limiter.

    It is for one block, `with` or `async with`, in one thread or task.
    """

    __slots__ = (
        "_actual",
        "_clock",
        "_receipt",
        "_settling",
        "_timeout",
        "_used",
        "_waiting",
        "cost",
    )

    def __init__(
        self, cost: AnyCost, timeout: float | None, waiting: WaitingLine, clock: Clock
    ) -> None:
        self.cost = cost
        """The cost that is charged."""
        self._timeout = timeout
        self._waiting = waiting
        self._clock = clock
        self._receipt = Receipt()
        self._used = False
        self._actual = cost
        """The actual cost, as far as it was given."""
        self._settling = threading.RLock()  # a signal handler may settle, too

    def __enter__(self) -> Reservation:
        self._begin()
        try:
            self._granted(self._waiting.take(self.cost, self._timeout, self._receipt))
            return self
        except BaseException:
            self._waiting.withdraw(self._receipt)
            raise

    def __exit__(self, *error: object) -> None:
        self._end()

    async def __aenter__(self) -> Reservation:
        self._begin()
        try:
            self._granted(await self._waiting.take_async(self.cost, self._timeout, self._receipt))
            return self
        except BaseException:
            self._waiting.withdraw(self._receipt)
            raise

    async def __aexit__(self, *error: object) -> None:
        self._end()

    def settle(self, actual: float | Mapping[str, float]) -> None:
        """Give the actual cost of the call, in its block: once it is known, or several times while
        an answer streams. The last one counts when the block ends; until then the call counts at
        least as much as was reserved. Dimensions that were never named cost what was reserved.

        Raises ArgumentError for a cost that is not possible, and SettlementError outside of the
        block, or if nothing was reserved. Thread-safe.
        """
        if self._waiting.left_behind:
            raise SettlementError(
                "this process was forked after the block began; settle it in the parent process, "
                "where it is charged"
            )
        amounts = self._waiting.limits.amounts_of("actual", actual)
        if not self.cost and replaced(0, amounts):
            raise SettlementError(
                "nothing was charged, since the reserved cost is zero; reserve the most that the "
                "call may cost"
            )
        with self._settling:
            cost, payment = replaced(self._actual, amounts), self._receipt.payment
            is_settled = payment is not None and payment.spend.settle(cost)
            if is_settled:
                self._actual = cost
        if not is_settled:
            raise SettlementError(
                "a reservation can only be settled in its block, while its cost is charged; "
                "outside of the block it counts as reserved, or as settled before"
            )

    def __repr__(self) -> str:
        if self._receipt is _NONE:
            state = "ended"
        elif self._receipt.payment is not None:
            state = "granted"
        else:
            state = "waits" if self._used else "new"
        return f"Reservation({plain_cost(self.cost)}, {state})"

    def _begin(self) -> None:
        if self._used:
            raise ImproperOrderError("this reservation was used; call reserve() for another one")
        if self._waiting.left_behind:
            raise ImproperOrderError(
                "this reservation was made before this process was forked; call reserve() in the "
                "child for another one"
            )
        self._used = True

    def _granted(self, granted: bool) -> None:
        if not granted:
            assert self._timeout is not None
            raise ReserveTimeoutError(self.cost, self._timeout)

    def _end(self) -> None:
        try:
            if self._receipt.payment is not None:
                self._receipt.payment.spend.ended(self._clock.now())
        finally:
            self._receipt = _NONE  # a receipt without an owner ends by itself
