"""Callbacks that record their batches."""

from __future__ import annotations

import threading
from typing import Any

from dispatcher import Operation

PATIENCE = 60.0


class Seen:
    """A callback that remembers; it can be held until the test lets go."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[Any]] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        if not held:
            self.gate.set()

    def __call__(self, batch: list[Operation]) -> None:
        self.batches.append([operation.payload for operation in batch])
        self.entered.release()
        assert self.gate.wait(PATIENCE)

    @property
    def payloads(self) -> list[Any]:
        return [payload for batch in self.batches for payload in batch]
