"""An Operation: a piece of work with its cost and its state."""

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
"""The default priority. Any other object is checked, also one that is only false."""


class Claim:
    """The state of an operation that was enqueued and that no engine has taken yet."""

    __slots__ = ()

    def holds(self, operation: Operation) -> bool:
        """Whether `operation`, which has this claim, was published to an engine."""
        raise NotImplementedError


class Order:
    """The key and the priority of an operation, checked once."""

    __slots__ = ("hash", "key", "line", "priority")

    def __init__(self, key: Hashable, priority: object) -> None:
        try:
            self.hash = hash(key)
        except TypeError:
            raise ArgumentError("key", key, "be hashable") from None
        self.key = key
        self.priority = whole("priority", priority)
        self.line: Line | None = None
        """The line of its key, while it waits or is in flight."""


class Operation:
    """A piece of work, which is raised to its watcher in a batch when its turn comes.

    * `watcher`: the Watcher that receives it. It and `batchable` may be set until the operation is
      enqueued, and again once it has ended.
    * `cost`: the limiter's capacity that it uses; zero uses none. A number, or a mapping such as
      `{"tokens": 812}` for a limiter of several dimensions; or `Learned(...)`, if it is learned
      from operations that were settled.
    * `payload`: your data, which the Batcher never reads.
    * `batchable`: whether it may share a batch with others.
    * `key`: operations of one watcher and one key are raised in the order enqueued, one batch at a
      time. None: in any order.
    * `priority`: higher goes first, but never within a key.

    Not thread-safe: enqueue one operation in one Batcher from one thread.

    >>> from dispatcher import Operation, Watcher
    >>> watcher = Watcher(print)
    >>> operation = Operation(watcher, 10, {"id": 1}, batchable=True, key="meter-1")
    >>> operation.attempt
    0
    """

    # Slots without defaults are the fastest: a million operations may be made, moved and dropped in
    # a second. `_order` is None without key and priority, so that one test finds this case.
    # `_where` is the whole state: None (not enqueued), a Claim (enqueued), a ticket (taken by an
    # engine), or the OperationBatch that raised it last.
    # The Batcher reads these, never the properties, and compares operations by identity: a user's
    # subclass may define `==`, `__hash__` or `key` in any way.
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
    """The kind of cost; set only if the cost is learned."""
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
        # The type checker treats an int as a float, and so takes the second test for unreachable.
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
        # No function is called between the test and the change; see Batcher.enqueue.
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
        """The capacity that it uses. After enqueue it is a number if the limiter has one dimension,
        Costs if it has several."""
        return self._cost

    @property
    def key(self) -> Hashable:
        """Operations of one watcher and one key are raised in the order enqueued; None: in any
        order."""
        return self._order.key if self._order else None

    @property
    def priority(self) -> int:
        """Operations with a higher priority go first, but never within a key."""
        return self._order.priority if self._order else 0

    @property
    def attempt(self) -> int:
        """How often it has been raised: 0 before its first batch, 1 in it."""
        return attempt_of(self)

    def settle(self, actual: float | Mapping[str, float]) -> None:
        """Give the actual cost of the operation in its callback: once it is known, or several times
        while an answer streams. The last one counts when the callback has returned; until then the
        operation counts at least as much as its `cost`. Dimensions that were never named count as
        estimated.

        Each attempt is charged and settled by itself; an attempt that is not settled counts as
        estimated. Raises ArgumentError for a cost that is not possible, and SettlementError if the
        operation is not in a running batch, or not in the batch of this callback. Thread-safe.
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
    """Return the batch in which it was raised last. SettlementError if there is none."""
    where = operation._where
    if where is None or isinstance(where, (int, Claim)):
        state = (
            "waits for its next attempt" if operation._attempts else "did not reach its callback"
        )
        raise SettlementError(f"the operation {state}; settle it in its callback")
    return where


one_cost = attrgetter("_cost")


def has_learned_estimate(operation: Operation) -> bool:
    """Whether the cost of `operation` is an estimate that was learned, rather than given."""
    return is_learned(operation) and operation._kind.is_learned


def is_learned(operation: Operation) -> bool:
    """Whether the cost of `operation` is learned."""
    return hasattr(operation, "_kind")


def learn(operation: Operation, actual: AnyCost) -> KindOfCost | None:
    """Learn from the `actual` cost of `operation`, if its cost is learned: return its kind then."""
    kind: KindOfCost | None = getattr(operation, "_kind", None)
    if kind is not None:
        kind.learn(actual)
    return kind


def cost_of(operations: Iterable[Operation]) -> AnyCost:
    """Return the sum of the costs of `operations`, which have one limiter; 0 if there are none."""
    total: AnyCost = sum(map(one_cost, operations))
    return total


def ticket_of(operation: Operation) -> int:
    """Return the ticket of a waiting operation, which is its place in the order of arrival."""
    return operation._where  # type: ignore[return-value]  # a waiting operation has a ticket


def attempt_of(operation: Operation) -> int:
    """Return how often `operation` has been raised."""
    where = operation._where
    if where is None or where.__class__ is int or isinstance(where, Claim):
        return operation._attempts
    # Its last batch is an attempt that is not included in `_attempts` yet.
    return operation._attempts + 1


def key_of(operation: Operation) -> Hashable:
    """Return the key that the operation was made with."""
    return operation._order.key if operation._order else None


def _checked(cost: object) -> AnyCost:
    checked = checked_cost("cost", cost)
    amounts = checked.values() if isinstance(checked, Mapping) else (checked,)
    if any(one >= _TOO_LARGE for one in amounts):
        raise ArgumentError("cost", cost, "be less than 2**100")
    return checked or 0  # so that non-empty Costs are always oversized where numbers are expected
