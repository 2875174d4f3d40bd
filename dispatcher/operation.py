"""An Operation: what is to be done, what it costs, and where it stands."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dispatcher.learned import KindOfCost, Learned
from limiters._costs import AnyCost, checked_cost, plain_cost
from limiters._support.validation import ArgumentError, flag, whole
from limiters.errors import ImproperOrderError, SettlementError

if TYPE_CHECKING:
    from dispatcher._core.queues.batch import OperationBatch
    from dispatcher._core.queues.lane import Line
    from dispatcher.watcher import Watcher

_TOO_LARGE = 2**100

_ZERO = 0
"""The usual priority. Any other object is checked, also one that merely counts as false."""


class Claim:
    """Where an operation is that was enqueued and that no engine has taken yet."""

    __slots__ = ()

    def holds(self, operation: Operation) -> bool:
        """Whether `operation`, which has this claim, was really published."""
        raise NotImplementedError


class Order:
    """What orders an operation among the others of its watcher, checked once."""

    __slots__ = ("hash", "key", "line", "priority")

    def __init__(self, key: Hashable, priority: object) -> None:
        try:
            self.hash = hash(key)
        except TypeError:
            raise ArgumentError("key", key, "be hashable") from None
        self.key = key
        self.priority = whole("priority", priority)
        self.line: Line | None = None
        """Its key's, while it waits or is in flight."""


class Operation:
    """Something to be done, raised to its watcher in a batch when its turn comes.

    * `watcher`: who is told. It and `batchable` may be set until the operation is enqueued, and
      again once it has ended.
    * `cost`: what it takes of the limiter's capacity; zero needs none. A number, or a mapping such
      as `{"tokens": 812}` for a limiter of several dimensions; or `Learned(...)`, if it is learned
      from those that were settled.
    * `payload`: yours; never looked at.
    * `batchable`: whether it may share a batch with others.
    * `key`: operations of one watcher and one key are raised in the order enqueued, one
      batch at a time. None: no order is asked for.
    * `priority`: higher goes first, but never within a key.

    Not thread-safe in itself: hand one operation to one Batcher from one thread.

    >>> from dispatcher import Operation, Watcher
    >>> watcher = Watcher(print)
    >>> operation = Operation(watcher, 10, {"id": 1}, batchable=True, key="meter-1")
    >>> operation.attempt
    0
    """

    # Slots without defaults that cost nothing to make: an operation is made, moved and
    # dropped a million times a second. `_order` is None for the plain case, so that one test
    # tells it from the others. `_where` is the whole of its state: None (nowhere), a Claim (on its
    # way in), its ticket (taken in by an engine), or the Batch that raised it last.
    #
    # The Batcher goes by these, never by the properties, and tells operations apart by identity:
    # a class of the user's may define `==`, `__hash__` or `key` as it likes.
    __slots__ = (
        "_attempts",
        "_batchable",
        "_cost",
        "_kind",
        "_order",
        "_watcher",
        "_where",
        "payload",
    )

    _attempts: int
    _batchable: bool
    _cost: AnyCost
    _kind: KindOfCost
    """Set only if its cost is learned."""
    _order: Order | None
    _watcher: Watcher | None
    _where: int | Claim | OperationBatch | None

    def __init__(
        self,
        watcher: Watcher | None,
        cost: float | Mapping[str, float] | Learned | KindOfCost,
        payload: Any,
        *,
        batchable: bool = False,
        key: Hashable = None,
        priority: int = 0,
    ) -> None:
        # An int is a float to the type checker, which so takes the second test for dead.
        if cost.__class__ is not int or not 0 <= cost < _TOO_LARGE:  # type: ignore[unreachable]
            if isinstance(cost, (Learned, KindOfCost)):
                self._kind = cost.of(payload) if isinstance(cost, Learned) else cost
                cost = self._kind.estimate
            cost = _checked(cost)
        self._watcher = watcher
        self.payload = payload
        self._batchable = batchable if batchable.__class__ is bool else flag("batchable", batchable)
        self._cost = cost
        self._attempts = 0
        self._where = None
        if key is None and priority is _ZERO:
            self._order = None
        else:
            self._order = Order(key, priority)

    @property
    def watcher(self) -> Watcher | None:
        """The Watcher that receives it."""
        return self._watcher

    @watcher.setter
    def watcher(self, watcher: Watcher | None) -> None:
        # Nothing is called between the test and the change; see Entrance.enqueue.
        if self._where is not None:
            self._check_free("watcher")
        self._watcher = watcher

    @property
    def batchable(self) -> bool:
        """Whether it may share a batch with others."""
        return self._batchable

    @batchable.setter
    def batchable(self, batchable: bool) -> None:
        batchable = flag("batchable", batchable)
        if self._where is not None:
            self._check_free("batchable")
        self._batchable = batchable

    @property
    def cost(self) -> AnyCost:
        """What it takes of the capacity. Once it was enqueued, a number if its limiter has one
        dimension, Costs if it has several."""
        return self._cost

    @property
    def key(self) -> Hashable:
        """What orders it among the others of its watcher, or None."""
        return self._order.key if self._order else None

    @property
    def priority(self) -> int:
        """Operations with a higher priority go first, but never within a key."""
        return self._order.priority if self._order else 0

    @property
    def attempt(self) -> int:
        """How often it has been raised: 0 before, 1 in its first batch."""
        return attempt_of(self)

    def settle(self, actual: float | Mapping[str, float]) -> None:
        """Says what it costs in truth, in its callback: once that is known, or several times while
        an answer streams. The last one counts when the callback has returned; until then it counts
        for no less than its `cost`. Dimensions that are not named count as estimated.

        Each attempt is charged, and settled, by itself; what is never settled counts as estimated.
        Raises ArgumentError for a cost that is not possible, and SettlementError if the operation
        is not in a batch that runs, or in another one than this callback's. Thread-safe.
        """
        batch_of(self).settle_one(self, actual)

    def _check_free(self, term: str) -> None:
        where = self._where
        if where is None:
            return
        if isinstance(where, Claim):
            free = not where.holds(self)
        else:
            free = not isinstance(where, int) and where.over
        if free:
            return
        raise ImproperOrderError(
            f"{term} cannot be changed while the operation waits or is in flight; change it "
            "before it is enqueued or after its batch has ended"
        )

    def __repr__(self) -> str:
        return f"Operation(cost={plain_cost(self._cost)}, key={self.key!r}, attempt={self.attempt})"


def batch_of(operation: Operation) -> OperationBatch:
    """The batch in which it was raised last. SettlementError if there is none."""
    where = operation._where
    if where is None or isinstance(where, (int, Claim)):
        state = (
            "waits for its next attempt" if operation._attempts else "did not reach its callback"
        )
        raise SettlementError(f"the operation {state}; settle it in its callback")
    return where


one_cost = attrgetter("_cost")


def is_learned(operation: Operation) -> bool:
    """Whether its cost is one that is learned."""
    return hasattr(operation, "_kind")


def learn(operation: Operation, actual: AnyCost) -> KindOfCost | None:
    """`operation` has cost `actual`: return its kind, if its cost is one that is learned."""
    kind: KindOfCost | None = getattr(operation, "_kind", None)
    if kind is not None:
        kind.learn(actual)
    return kind


def cost_of(operations: Iterable[Operation]) -> AnyCost:
    """What `operations`, of one limiter, cost together; 0 if there are none."""
    total: AnyCost = sum(map(one_cost, operations))
    return total


def ticket_of(operation: Operation) -> int:
    """The ticket of an operation that waits: its age among the others."""
    return operation._where  # type: ignore[return-value]  # what waits has a ticket there


def attempt_of(operation: Operation) -> int:
    """How often `operation` has been raised."""
    where = operation._where
    if where is None or where.__class__ is int or isinstance(where, Claim):
        return operation._attempts
    # The batch it is in, or was in last, is an attempt that was not added up yet.
    return operation._attempts + 1


def key_of(operation: Operation) -> Hashable:
    """Its key, as it was when the operation was made."""
    return operation._order.key if operation._order else None


def _checked(cost: object) -> AnyCost:
    checked = checked_cost("cost", cost)
    amounts = checked.values() if isinstance(checked, Mapping) else (checked,)
    if any(one >= _TOO_LARGE for one in amounts):
        raise ArgumentError("cost", cost, "be less than 2**100")
    return checked or 0  # so that Costs at the door are always more than a number
