"""Logs failed batches and operations: one line for each, but only a limited number of lines."""

from __future__ import annotations

import logging

from dispatcher.operation import Operation
from dispatcher.watcher import WatcherTerms
from limiters._support.rate_limited_log import RateLimitedLog


class FailureLog:
    def __init__(self) -> None:
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.batcher.failures"))

    def batch_failed(
        self,
        now: float,
        watcher: str,
        error: BaseException | None,
        text: str,
        *,
        operations: int,
        again: int,
        failed: int,
        expected: bool,
    ) -> None:
        """Log that a callback raised. `expected`: it raised to decide what happens to its batch."""
        level = logging.ERROR if failed else logging.WARNING
        self._damped.log(
            logging.INFO if expected else level,
            "%s",
            text,
            exc_info=None if expected else error,
            extra={
                "happening": "batch-failed",
                "watcher": watcher,
                "operations": operations,
                "again": again,
                "failed": failed,
                "error": type(error).__name__,
            },
            now=now,
        )

    def batch_abandoned(
        self, now: float, terms: WatcherTerms, error: BaseException, operations: list[Operation]
    ) -> None:
        """Log that a callback took too long."""
        self._damped.log(
            logging.ERROR,
            "%s is abandoned: %s",
            *(terms.described(operations), error),
            extra={
                "happening": "batch-abandoned",
                "watcher": terms.name,
                "operations": len(operations),
            },
            now=now,
        )

    def refused(
        self, now: float, terms: WatcherTerms, error: BaseException, operations: list[Operation]
    ) -> None:
        """Log that operations failed without being raised."""
        count = len(operations)
        what = f"{count} operation{'s' * (count != 1)} of {terms.name}"
        self._damped.log(
            logging.ERROR,
            "%s failed: %s",
            *(what if terms.describe is None else terms.described(operations), error),
            extra={
                "happening": "operations-refused",
                "watcher": terms.name,
                "operations": count,
                "error": type(error).__name__,
            },
            now=now,
        )

    def on_failure_hangs(self, now: float, watcher: str) -> None:
        """Log that a failure callback took too long."""
        self._damped.log(
            logging.ERROR,
            "on_failure of %s does not return",
            watcher,
            extra={"happening": "on-failure-hangs", "watcher": watcher},
            now=now,
        )

    def on_failure_raised(self, now: float, watcher: str, error: BaseException) -> None:
        """Log that a failure callback raised."""
        self._damped.log(
            logging.ERROR,
            "on_failure of %s raised",
            watcher,
            exc_info=error,
            extra={
                "happening": "on-failure-raised",
                "watcher": watcher,
                "error": type(error).__name__,
            },
            now=now,
        )
