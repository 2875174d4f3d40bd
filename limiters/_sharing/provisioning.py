"""Waits for the first answer of a lease manager."""

from __future__ import annotations

import threading

from limiters.errors import LeaseManagerError, LimiterStoppedError


class Provisioning:
    """The wait of one SharedResource. Thread-safe."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._seconds: float | None = None
        self._error: BaseException | None = None

    def answered(self, seconds: float) -> None:
        """Note an answer: something can be granted in `seconds`."""
        self._seconds = seconds
        self._over.set()

    def failed(self, error: BaseException) -> None:
        """Note that a request was refused or not answered. It is sent again."""
        self._error = error

    def end(self) -> None:
        """End the wait, since there will be no answer."""
        self._over.set()

    def wait(self, timeout: float) -> float:
        """Wait for an answer, and return the seconds until something can be granted."""
        self._over.wait(min(timeout, threading.TIMEOUT_MAX))
        if self._seconds is not None:
            return self._seconds
        if self._error is not None:
            raise LeaseManagerError(str(self._error) or repr(self._error)) from self._error
        if self._over.is_set():
            raise LimiterStoppedError("the limiter was stopped before its lease manager answered")
        raise LeaseManagerError(f"the lease manager has not answered within {timeout} seconds")
