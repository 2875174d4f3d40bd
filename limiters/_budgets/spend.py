"""The charge of one batch, from its beginning until it no longer counts. Pure.

The ledger that made an entry reads it, while other threads note when the batch began and ended: so
each step here is one assignment.
"""

from __future__ import annotations

import contextlib
import enum
import math
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from limiters._budgets.settlements import Stay


class Tenure:
    """How long capacity is held. Its holder renews it in time; once it has ended, what was charged
    under it and has not begun may not begin any more."""

    __slots__ = ("until",)

    def __init__(self, until: float) -> None:
        self.until = until


class CallState(enum.Enum):
    """How far a call is. One assignment changes it: what another thread settles at that moment
    counts either as before it or as after it."""

    OPEN = enum.auto()
    """It waits for its start, or runs: it may be settled once it runs."""
    ENDED = enum.auto()
    ABANDONED = enum.auto()


OPEN, ENDED, ABANDONED = CallState


class Spend(ABC):
    """The charge of one batch. It counts in full until the batch begins, and for a period more.

    The caller that runs the batch calls `started` and `ended`, or `cancel`. Thread-safe.
    """

    __slots__ = ("started_at",)

    started_at: float | None
    """When the callback began; None if it has not."""

    @abstractmethod
    def may_start(self, now: float) -> bool:
        """Whether the capacity is still held."""

    @abstractmethod
    def started(self, now: float) -> bool:
        """The callback begins now, unless this returns False: then it must not, and costs
        nothing."""

    @abstractmethod
    def settle(self, actual: Any) -> bool:
        """The call costs `actual` in all, as far as is known: in the form in which its limit adds
        costs up, and in each dimension. The last one counts when the call has ended; until then it
        counts for no less than was charged.

        False, and without effect: its callback has not begun, has ended or was abandoned.
        """

    @abstractmethod
    def ended(self, now: float) -> None:
        """The callback has returned. Idempotent."""

    @abstractmethod
    def abandoned(self, now: float) -> None:
        """The batch was abandoned; its callback still runs, and `ended` follows. It counts for no
        less than was charged. Idempotent."""

    @abstractmethod
    def cancel(self) -> None:
        """The batch was never started: it stops counting. Idempotent."""


def nothing(*_: object) -> None:
    """Do nothing: a call for events that have no listener."""


class BudgetEntry(Spend):
    """The charge of a batch in one ledger."""

    __slots__ = (
        "_settled",
        "accounted",
        "actual",
        "charged_at",
        "cost",
        "entered",
        "estimated",
        "noted",
        "paced",
        "place",
        "reported",
        "stamp",
        "state",
        "tenure",
    )

    # Not set before they matter: most entries are never settled.
    paced: float
    """The cost that its ledger expected when it paced what follows."""
    entered: float
    """The cost that its ledger has entered, once it has a place: as if all of it had stayed."""
    noted: float
    """The cost that it counted for when its ledger looked at it last, once it has a place."""
    reported: bool
    """Once it was settled: whether it is among those that its ledger has to look at."""
    accounted: bool
    """Whether its ledger has counted it among those that are settled for good."""

    def __init__(
        self,
        cost: float,
        charged_at: float,
        tenure: Tenure | None = None,
        settled: Callable[[BudgetEntry], object] = nothing,
    ) -> None:
        """`settled`: called with it whenever it was settled, and when it ends after that."""
        self.cost = self.estimated = cost
        self.charged_at = charged_at
        self.started_at: float | None = None
        self.stamp: float | None = None
        """From when on its period is counted; None as long as that is not known."""
        self.tenure = tenure
        self._settled = settled
        self.actual: float | None = None
        """The actual cost, as far as it was given."""
        self.state = OPEN
        self.place: tuple[Stay, float] | None = None
        """Once its ledger has entered it in a slice of time: which part of all entries had stayed
        at that moment."""

    @property
    def counts(self) -> float:
        """Return what it counts for now: no less than was charged, unless its call has ended."""
        if self.actual is None:
            return self.estimated
        return self.actual if self.state is ENDED else max(self.estimated, self.actual)

    def may_start(self, now: float) -> bool:
        """Whether the capacity is still held."""
        return self.tenure is None or now < self.tenure.until

    def started(self, now: float) -> bool:
        """The callback begins now, unless this returns False."""
        if not self.may_start(now):
            self.cancel()
            return False
        self.started_at = self.stamp = now
        return True

    def settle(self, actual: float) -> bool:
        """The call costs `actual`, as far as is known."""
        if self.state is not OPEN or self.started_at is None:
            return False
        if self.actual is None:
            self.reported = self.accounted = False
        self.actual = actual
        self._settled(self)
        return True

    def ended(self, now: float) -> None:
        """The callback has returned: what was settled counts. Idempotent."""
        if self.state is OPEN:
            self.state = ENDED
            if self.actual is not None:
                self._settled(self)

    def abandoned(self, now: float) -> None:
        """The batch was abandoned: it counts for what was charged, or more. Idempotent."""
        if self.state is OPEN:
            self.state = ABANDONED
            if self.actual is not None:
                self._settled(self)

    def cancel(self) -> None:
        """The batch was never started: it stops counting."""
        self.cost = self.estimated = 0
        self.state = ENDED
        self.started_at = self.stamp = self.charged_at


class CallEntry(BudgetEntry):
    """A charge that counts as long as its call lasts: a slot, or a window that counts from the end.

    * `freed`: called after it has ended or was cancelled, by the thread that says so, and without
      a lock.
    * `lax`: whether it ends when its batch is abandoned.
    """

    __slots__ = ("_ends", "_freed", "_lax", "_owner")

    def __init__(
        self,
        cost: float,
        charged_at: float,
        tenure: Tenure | None,
        settled: Callable[[BudgetEntry], object] = nothing,
        *,
        ends: CallEnds,
        freed: Callable[[], object] = nothing,
        lax: bool = False,
    ) -> None:
        super().__init__(cost, charged_at, tenure, settled)
        self._ends = ends
        self._freed = freed
        self._lax = lax
        self._owner: Lost | None = None

    def owned_by(self, owner: object) -> None:
        """It also ends when `owner` exists no more: an interrupt may come before all else that a
        caller can do to end it."""
        self._owner = Lost(owner, self, self._ends)

    def started(self, now: float) -> bool:
        """The callback begins now, unless this returns False."""
        if not self.may_start(now):
            self.cancel()
            return False
        self.started_at = now
        return True

    def ended(self, now: float) -> None:
        """The callback has returned. Idempotent."""
        if self.stamp is None:
            self._ends.report(self)  # first: an interrupt before the next line costs no slot
            self.stamp = now
            self._owner = None
            super().ended(now)
            self._freed()

    def abandoned(self, now: float) -> None:
        """The batch was abandoned; its callback still runs."""
        super().abandoned(now)
        if self._lax:
            self.ended(now)

    def cancel(self) -> None:
        """The batch was never started: it stops counting. Idempotent."""
        if self.stamp is None:
            self.cost = self.estimated = 0
            self.state = ENDED
            self.started_at = self.charged_at
            self.ended(self.charged_at)


class Lost(weakref.ref[object]):
    """Reports an entry once its owner exists no more. No Python code runs for that, so nothing can
    interrupt it."""

    __slots__ = ("entry",)

    def __new__(cls, owner: object, entry: CallEntry, ends: CallEnds) -> Lost:
        return super().__new__(cls, owner, ends.report)

    def __init__(self, owner: object, entry: CallEntry, ends: CallEnds) -> None:
        super().__init__(owner, ends.report)  # type: ignore[call-arg]  # as typeshed has it
        self.entry = entry


class CallEnds:
    """The calls that have ended, or lost their owner, since a ledger looked last. Any thread may
    report, and one that looks may be interrupted: then it finds them again."""

    def __init__(self) -> None:
        self._reported: deque[CallEntry | Lost] = deque()
        self.report: Callable[[CallEntry | Lost], None] = self._reported.append

    def each(self) -> Iterator[CallEntry]:
        """Each of them, as long as it was not dealt with: that is when the next one is asked
        for."""
        for one in tuple(self._reported):
            yield one.entry if isinstance(one, Lost) else one
            with contextlib.suppress(ValueError):  # a signal handler has done it meanwhile
                self._reported.remove(one)


class SpendOfSeveral(Spend):
    """One batch, charged to several budgets. How a settlement is divided among them is for those
    who know what they are."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterable[Spend]) -> None:
        self._parts = tuple(parts)
        self.started_at = self._parts[0].started_at if self._parts else None

    def may_start(self, now: float) -> bool:
        """Whether the capacity of all is still held."""
        return all(part.may_start(now) for part in self._parts)

    def started(self, now: float) -> bool:
        """The callback begins now, unless this returns False."""
        if not self.may_start(now):
            self.cancel()
            return False
        for part in self._parts:
            part.started(now)
        self.started_at = now
        return True

    def ended(self, now: float) -> None:
        """The callback has returned. Idempotent."""
        for part in self._parts:
            part.ended(now)

    def abandoned(self, now: float) -> None:
        """The batch was abandoned; its callback still runs."""
        for part in self._parts:
            part.abandoned(now)

    def cancel(self) -> None:
        """The batch was never started: it stops counting."""
        for part in self._parts:
            part.cancel()


class SpendOfPayers(SpendOfSeveral):
    """One batch, paid by several budgets of one bound. `estimated` is what each of them was
    charged, in the order in which a refund goes to them; an excess is charged to the first one.

    >>> share, reserved = BudgetEntry(6, 0.0), BudgetEntry(4, 0.0)
    >>> spend = SpendOfPayers([(share, 6), (reserved, 4)])
    >>> spend.started(0.0), spend.settle(3)
    (True, True)
    >>> share.actual, reserved.actual
    (0, 3.0)
    """

    __slots__ = ("_estimated",)

    def __init__(self, estimated: Sequence[tuple[Spend, float]]) -> None:
        super().__init__(part for part, _ in estimated)
        self._estimated = tuple(amount for _, amount in estimated)

    def settle(self, actual: float) -> bool:
        """The call costs `actual`, as far as is known."""
        more = actual - math.fsum(self._estimated)
        settled = False
        for part, estimated in zip(self._parts, self._estimated, strict=True):
            change = max(more, -estimated)
            more = min(0.0, more - change)
            settled = part.settle(estimated + change) or settled
        return settled


class Payer(Protocol):
    """A ledger, or a permit: what an entry can be entered in."""

    def enter(self, entry: BudgetEntry) -> None:
        """Counts it from now on, by one step."""

    def withdraw(self, entry: BudgetEntry, now: float) -> None:
        """Counts nothing of it any more, whether it was entered or not: its call is not made."""


class Payment:
    """A batch that has begun and is about to be charged, to one or several ledgers.

    For callers that may be interrupted at any point: as long as nothing is entered it has no
    effect, and `withdraw` undoes what was entered, also if that is only a part.
    """

    __slots__ = ("entries", "spend")

    def __init__(self, entries: Iterable[tuple[Payer, BudgetEntry]], spend: Spend) -> None:
        self.entries = tuple(entries)
        self.spend = spend

    @classmethod
    def by(cls, payer: Payer, entry: BudgetEntry) -> Payment:
        """Return a payment to one ledger."""
        return cls([(payer, entry)], entry)

    @classmethod
    def of(cls, payments: Iterable[Payment], spend: Spend) -> Payment:
        """Several, which are one `spend`."""
        return cls((one for payment in payments for one in payment.entries), spend)

    def enter(self) -> None:
        """Counts it in each of its ledgers."""
        for payer, entry in self.entries:
            payer.enter(entry)

    def withdraw(self, now: float) -> None:
        """Undoes it: its call is not made."""
        for payer, entry in self.entries:
            payer.withdraw(entry, now)
