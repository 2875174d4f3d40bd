"""Announce to the other consumers of a topic when one is busy for a while, and when it has room
again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MOMENT = 0.002
"""Seconds for which a consumer may be busy before it is announced: most calls are shorter."""

SAY_AGAIN = 1.0
"""Seconds after which it is announced again, for consumers that joined later or missed it."""


class Availability:
    """Calls `tell(True)` on its own thread when the consumer has been busy for a moment, and
    `tell(False)` when it has room again; while it is busy, repeatedly. `tell` must not raise.

    `set_busy` may be called from one thread, as often as it likes.
    """

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell = tell
        self._changed = threading.Condition()
        self._busy_since: float | None = None
        self._told = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="timeline-busy", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=5.0)

    def set_busy(self, is_busy: bool) -> None:
        """Set whether the consumer has no room."""
        if is_busy == (self._busy_since is not None):
            return
        with self._changed:
            self._busy_since = time.monotonic() if is_busy else None
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._stopped:
                wanted, patience = self._what_to_tell()
                if wanted is None:
                    self._changed.wait(patience)
                    continue
                self._told = wanted
                self._changed.release()
                try:
                    self._tell(wanted)
                finally:
                    self._changed.acquire()
                if wanted:
                    self._changed.wait_for(
                        lambda: self._stopped or self._busy_since is None, SAY_AGAIN
                    )

    def _what_to_tell(self) -> tuple[bool | None, float | None]:
        """Return what to announce now, or how long to wait for it."""
        if self._busy_since is None:
            return (False if self._told else None), None
        left = self._busy_since + MOMENT - time.monotonic()
        return (True, None) if left <= 0 else (None, left)
