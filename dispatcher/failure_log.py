"""What the log says of batches and operations that fail: one line each, but no flood of them."""

from __future__ import annotations

import logging

from limiters.damped_log import DampedLog


class FailureLog:
    """One per engine."""

    def __init__(self) -> None:
        self._damped = DampedLog(logging.getLogger(__name__))

    def batch_failed(
        self,
        now: float,
        watcher: object,
        error: BaseException | None,
        text: str,
        *,
        operations: int,
        again: int,
        failed: int,
        expected: bool,
    ) -> None:
        """A callback raised; `expected`: to say what is to happen."""
        if getattr(error, "is_logged", False):
            return
        level = logging.ERROR if failed else logging.WARNING
        self._damped.log(
            logging.INFO if expected else level,
            "%s",
            text,
            exc_info=None if expected else error,
            extra={
                "happening": "batch-failed",
                "watcher": repr(watcher),
                "operations": operations,
                "again": again,
                "failed": failed,
                "error": type(error).__name__,
            },
            now=now,
        )

    def batch_abandoned(
        self, now: float, watcher: object, error: BaseException, operations: int
    ) -> None:
        """A callback took too long."""
        self._damped.log(
            logging.ERROR,
            "a batch of %r is abandoned: %s",
            *(watcher, error),
            extra={
                "happening": "batch-abandoned",
                "watcher": repr(watcher),
                "operations": operations,
            },
            now=now,
        )

    def refused(self, now: float, watcher: object, error: BaseException, operations: int) -> None:
        """Operations failed without being raised."""
        self._damped.log(
            logging.ERROR,
            "%d operations of %r failed: %s",
            *(operations, watcher, error),
            extra={
                "happening": "operations-refused",
                "watcher": repr(watcher),
                "operations": operations,
                "error": type(error).__name__,
            },
            now=now,
        )

    def on_failure_hangs(self, now: float, watcher: object) -> None:
        """The failure callback took too long."""
        self._damped.log(
            logging.ERROR,
            "on_failure of %r does not return",
            watcher,
            extra={"happening": "on-failure-hangs", "watcher": repr(watcher)},
            now=now,
        )

    def on_failure_raised(self, now: float, watcher: object, error: BaseException) -> None:
        """The failure callback raised."""
        self._damped.log(
            logging.ERROR,
            "on_failure of %r raised",
            watcher,
            exc_info=error,
            extra={
                "happening": "on-failure-raised",
                "watcher": repr(watcher),
                "error": type(error).__name__,
            },
            now=now,
        )
