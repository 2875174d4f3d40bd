"""The ledger of one bound: what all kinds have in common, and which kind a bound has. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from limiters._budgets.debts import Debts, TakesExcess
from limiters._budgets.end_window import EndWindowLedger
from limiters._budgets.slots import SlotLedger
from limiters._budgets.spend import BudgetEntry, Payment, Spend, Tenure, nothing
from limiters._budgets.spending import Spending
from limiters._budgets.window import WindowLedger
from limiters.limits import Bound, BoundKind


class BoundLedger(Protocol):
    """How much of one bound may be spent now. Not thread-safe."""

    @property
    def capacity(self) -> float:
        """Return what no window, or no number of calls in flight, may exceed."""

    @property
    def period(self) -> float:
        """The seconds of its window; of slots, after which it is worth looking again."""

    def burst(self, now: float) -> float:
        """Return what may go without a pause after a rest."""

    def available(self, now: float, at_least: float = 0.0) -> float:
        """Return what may be charged now; amounts that are larger than a burst are given as
        `at_least`."""

    def outlook(self, now: float) -> Callable[[float, float], float]:
        """`available` for any time from `now` on, if nothing is spent until then."""

    def hold(self, amount: float) -> None:
        """Sets `amount` aside for charges to come."""

    def release(self, amount: float) -> None:
        """Gives back what was held and not charged."""

    def charge(self, cost: float, now: float, tenure: Tenure | None = None) -> Spend:
        """Turns `cost` of what is held into an entry that counts from now on."""

    def payment(self, cost: float, now: float, owner: object = None) -> Payment:
        """`cost` as begun now, to be entered without setting it aside before."""

    def enter(self, entry: BudgetEntry) -> None:
        """Counts it from now on, by one step."""

    def withdraw(self, entry: BudgetEntry, now: float) -> None:
        """Counts nothing of it any more, whether it was entered or not: its call is not made."""

    def ready_at(self, cost: float, now: float) -> float:
        """The earliest time at which `cost` may be available, as far as is known now."""

    def in_debt_until(self, now: float) -> float:
        """Until when batches that are to cost nothing here wait nevertheless; now, as a rule."""

    def pass_excess(self, to: TakesExcess, now: float) -> None:
        """Let `to`, the ledger of the share, count the excess that has no room here."""

    def take_excess(self, debts: Debts, now: float) -> None:
        """Count excess of reserved capacity here, or with all, if nothing is held."""

    def set_capacity(self, capacity: float) -> None:
        """Changes the capacity from now on; it may be zero."""

    def spent(self, now: float) -> float:
        """Return what counts now."""

    def total(self) -> float:
        """Return what has begun, since this ledger was made."""

    def spending(self, now: float) -> Spending:
        """Return what has begun, and what settlements have changed of it."""

    def charged(self) -> float:
        """Return what was charged, since this ledger was made, and not cancelled."""

    @property
    def starting(self) -> float:
        """Return what is charged and has no time stamp yet, as far as is known."""

    @property
    def pledged(self) -> float:
        """Return what is set aside, or charged and has no time stamp yet."""


def window_of(
    bound: Bound,
    capacity: float,
    *,
    shared: bool = False,
    reserved: bool = False,
    freed: Callable[[], object] = nothing,
) -> WindowLedger:
    """A ledger of a bound that is a window, for so much of its capacity. `freed` is called after a
    call ended that cost less than estimated, by the thread that ends it."""
    kind = EndWindowLedger if bound.at_end else WindowLedger
    burst = bound.burst / bound.capacity
    return kind(
        capacity,
        bound.period,
        burst=burst,
        shared=shared,
        reserved=reserved,
        freed=freed,
        whole=bound.capacity,
    )


def ledger_of(
    bound: Bound,
    capacity: float | None = None,
    *,
    reserved: bool = False,
    freed: Callable[[], object] = nothing,
) -> BoundLedger:
    """A ledger of `bound`, for all of it or for so much of its capacity. `reserved`: there is also
    a shared ledger.

    `freed` is called after a slot was freed, or a part of what a call was charged, by the thread
    that did it.
    """
    capacity = bound.capacity if capacity is None else capacity
    if bound.kind is BoundKind.SLOTS:
        return SlotLedger(capacity, strict=bound.strict, freed=freed)
    return window_of(bound, capacity, reserved=reserved, freed=freed)
