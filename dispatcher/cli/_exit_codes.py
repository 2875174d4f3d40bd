"""Exit codes for scripts: one for each kind of failure."""

from __future__ import annotations

from limiters.errors import DispatcherError

DONE, FAILED, MISUSED, NOT_THERE, NO_REDIS, PARTLY_DONE = range(6)

SIGNALLED = 128
"""The number of the signal is added."""


class NotThereError(DispatcherError):
    """There is no limit, topic, message or instance of that name."""


class PartlyDoneError(DispatcherError):
    """Some of many messages could not be processed."""


class CheckFailedError(DispatcherError):
    """A check has failed: `code` is the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: Exception) -> int | None:
    """Return the exit code; None for an unexpected error, which is shown with its traceback."""
    if isinstance(error, CheckFailedError):
        return error.code
    if not isinstance(error, DispatcherError):
        return MISUSED if isinstance(error, ValueError) else None
    if isinstance(error, NotThereError):
        return NOT_THERE
    if isinstance(error, PartlyDoneError):
        return PARTLY_DONE
    return NO_REDIS if _is_about_redis(error) else FAILED


def _is_about_redis(error: DispatcherError) -> bool:
    """Whether Redis gave no answer, or refused: the same command may work later."""
    from dispatcher.timeline.errors import TimelineUnavailableError
    from limiters.errors import DamagedLimitError, LeaseManagerError

    if isinstance(error, TimelineUnavailableError):
        return not error.key  # otherwise a key is of another type
    return isinstance(error, LeaseManagerError) and not isinstance(error, DamagedLimitError)
