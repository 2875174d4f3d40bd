"""Observers are notified of the batches of a Batcher, and can neither break nor slow it.

They are not notified of single operations: making and moving one takes about a microsecond, so that
even reading a clock for each would cost too much. The times of operations follow from their batch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dispatcher._core.queues.batch import OperationBatch

_log = logging.getLogger("dispatcher.batcher")


class Observer(Protocol):
    """Its methods run on the engine's thread and have to be quick. One that raises is not called
    again."""

    def came_in(self, newest: int, waited: bool, now: float) -> None:
        """Operations with tickets up to `newest` have come in. `waited`: others waited before them,
        so that these may have come at any time since the last call."""
        ...

    def raised(self, batch: OperationBatch, now: float) -> None:
        """`batch` is about to start; its operations still have their tickets."""
        ...

    def returned(self, batch: OperationBatch, seconds: float) -> None:
        """The callback of `batch` has ended after `seconds`; the batch may have been abandoned
        before."""
        ...


class Observed:
    """The observers of one engine."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()

    def add(self, observer: Observer) -> None:
        """Call `observer` from now on. Thread-safe."""
        self.observers += (observer,)

    def came_in(self, newest: int, waited: bool, now: float) -> None:
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
