"""The context that a handler receives with its messages, if it has a second parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dispatcher.timeline import Lease
from limiters._costs import AnyCost
from limiters.errors import SettlementError

Settle = Callable[[AnyCost, Lease | None], None]
"""Takes a true cost, and the message whose it is; None for that of the whole call."""


def _without_call(actual: AnyCost, message: Lease | None) -> None:
    raise SettlementError(
        "this context belongs to no call of a handler: there is nothing to settle"
    )


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Second argument of a handler with two parameters."""

    topic: str
    consumer: str
    attempt: int
    """The largest attempt among the messages; each message also has its own."""
    _settle: Settle = field(default=_without_call, init=False, repr=False, compare=False)

    def settle(self, actual: float | Mapping[str, float], message: Lease | None = None) -> None:
        """Says what this call costs in truth, its batch cost included, or what one of its messages
        does: once that is known, or several times while an answer streams. The last one counts
        when the handler has returned; until then the call counts for no less than was charged.
        Dimensions that were never named count as estimated.

        Raises ArgumentError for a cost that is not possible, and SettlementError if the call has
        ended or the message is not of this call. Thread-safe.
        """
        self._settle(actual, message)

    def __reduce__(self) -> tuple[type[WorkerContext], tuple[str, str, int]]:
        # Another process has the facts, and not the call.
        return type(self), (self.topic, self.consumer, self.attempt)


def settled_by(context: WorkerContext, settle: Settle) -> WorkerContext:
    """`context` as that of a call that `settle(actual, message)` settles."""
    object.__setattr__(context, "_settle", settle)
    return context
