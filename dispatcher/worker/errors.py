"""Errors of a Worker."""

from __future__ import annotations

from limiters.errors import DispatcherError


class WorkerFailedError(DispatcherError):
    """The worker's own code failed, and it has ended; `__cause__` is the error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(
            f"the worker has failed and ended ({type(error).__name__}: {error}); "
            "its messages are given out again when their leases end"
        )
