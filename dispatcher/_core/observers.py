"""Those who watch a Batcher at work: they are told of batches, and can neither break nor slow it.

Nothing is told of single operations: making and moving one takes about a microsecond, so that
even reading a clock for each would be felt. What can be known of them follows from their batch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dispatcher._core.queues.batch import OperationBatch

_log = logging.getLogger("dispatcher.batcher")


class Observer(Protocol):
    """Called on the engine's thread, so: briefly. One that raises is not called again."""

    def came_in(self, newest: int, waited: bool, now: float) -> None:
        """Operations with tickets up to `newest` are in. `waited`: others did before them, so
        that these may have come at any time since the last call."""
        ...

    def raised(self, batch: OperationBatch, now: float) -> None:
        """`batch` is about to start; its operations still have their tickets."""
        ...

    def returned(self, batch: OperationBatch, seconds: float) -> None:
        """The callback of `batch` has ended after so long; it may have been abandoned before."""
        ...


class Observed:
    """Tells observers. One per engine."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()

    def add(self, observer: Observer) -> None:
        """Tells `observer` from now on. From any thread."""
        self.observers += (observer,)

    def came_in(self, newest: int, waited: bool, now: float) -> None:
        """See Observer; and so for the others."""
        for one in self.observers:
            try:
                one.came_in(newest, waited, now)
            except BaseException:
                self._forget(one)

    def raised(self, batch: OperationBatch, now: float) -> None:
        for one in self.observers:
            try:
                one.raised(batch, now)
            except BaseException:
                self._forget(one)

    def returned(self, batch: OperationBatch, seconds: float) -> None:
        for one in self.observers:
            try:
                one.returned(batch, seconds)
            except BaseException:
                self._forget(one)

    def _forget(self, observer: Observer) -> None:
        facts = {"happening": "observer-raised"}
        kind = type(observer).__qualname__  # its `repr` may raise as well
        _log.exception("an observer raised, and is not called again: a %s", kind, extra=facts)
        self.observers = tuple(one for one in self.observers if one is not observer)
