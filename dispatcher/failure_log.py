"""What the log says of batches and operations that fail: one line each, but no flood of them."""

from __future__ import annotations

import logging

from limiters.damper import Damper, and_before

_log = logging.getLogger(__name__)


class FailureLog:
    """One per engine. A kind is what happened, and the class of its error: there may be a watcher
    for each request, and all fail alike when a datastore is away."""

    def __init__(self) -> None:
        self._damper = Damper()

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
        left_out = self._damper.left_out(("batch-failed", type(error)), now)
        if left_out is not None:
            level = logging.ERROR if failed else logging.WARNING
            _log.log(
                logging.INFO if expected else level,
                "%s%s",
                text,
                and_before(left_out),
                exc_info=None if expected else error,
                extra={
                    "happening": "batch-failed",
                    "watcher": repr(watcher),
                    "operations": operations,
                    "again": again,
                    "failed": failed,
                    "error": type(error).__name__,
                    "left_out": left_out,
                },
            )

    def batch_abandoned(
        self, now: float, watcher: object, error: BaseException, operations: int
    ) -> None:
        """A callback took too long."""
        left_out = self._damper.left_out("batch-abandoned", now)
        if left_out is not None:
            _log.error(
                "a batch of %r is abandoned: %s%s",
                *(watcher, error, and_before(left_out)),
                extra={
                    "happening": "batch-abandoned",
                    "watcher": repr(watcher),
                    "operations": operations,
                    "left_out": left_out,
                },
            )

    def refused(self, now: float, watcher: object, error: BaseException, operations: int) -> None:
        """Operations failed without being raised."""
        left_out = self._damper.left_out(("operations-refused", type(error)), now)
        if left_out is not None:
            _log.error(
                "%d operations of %r failed: %s%s",
                *(operations, watcher, error, and_before(left_out)),
                extra={
                    "happening": "operations-refused",
                    "watcher": repr(watcher),
                    "operations": operations,
                    "error": type(error).__name__,
                    "left_out": left_out,
                },
            )

    def on_failure_hangs(self, now: float, watcher: object) -> None:
        """The failure callback took too long."""
        left_out = self._damper.left_out("on-failure-hangs", now)
        if left_out is not None:
            _log.error(
                "on_failure of %r does not return%s",
                *(watcher, and_before(left_out)),
                extra={
                    "happening": "on-failure-hangs",
                    "watcher": repr(watcher),
                    "left_out": left_out,
                },
            )

    def on_failure_raised(self, now: float, watcher: object, error: BaseException) -> None:
        """The failure callback raised."""
        left_out = self._damper.left_out(("on-failure-raised", type(error)), now)
        if left_out is not None:
            _log.error(
                "on_failure of %r raised%s",
                *(watcher, and_before(left_out)),
                exc_info=error,
                extra={
                    "happening": "on-failure-raised",
                    "watcher": repr(watcher),
                    "error": type(error).__name__,
                    "left_out": left_out,
                },
            )
