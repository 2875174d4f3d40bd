"""Record which process holds which share of a limit, for the report."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Self

from limiters.errors import LeaseManagerError
from limiters.leases import LeaseManager

EVERY = 0.05


class LeaseWatcher:
    """Reads the limit repeatedly on its thread, inside its `with` block. `names`: the process ID of
    each process."""

    def __init__(self, leases: LeaseManager, names: Mapping[int, str]) -> None:
        self.holdings: list[tuple[float, dict[str, float]]] = []
        self._leases = leases
        self._names = names
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                view = self._leases.look()
            except LeaseManagerError:
                continue  # what is not seen is not drawn
            if view is not None:
                held = {
                    self._names.get(int(one.label.rpartition(":")[2]), one.label): one.held
                    for one in view.instances
                    if one.held
                }
                self.holdings.append((time.monotonic(), held))
