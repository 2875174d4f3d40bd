"""End on a signal: in one line, with an exit code for the signal, and after cleaning up."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Self, TypeVar

T = TypeVar("T")

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGHUP"):
    WORDS[signal.SIGHUP] = "hung up"  # the terminal was closed


class SignalledError(KeyboardInterrupt):
    """A signal came; raised in the main thread, at any point."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = signal.Signals(number)


@contextmanager
def raised() -> Iterator[None]:
    """Inside the `with` block SIGINT, SIGTERM and SIGHUP raise SignalledError, so that everything
    inside is closed. A signal that is ignored, such as SIGHUP by nohup, stays ignored. For the main
    thread."""

    def end(number: int, frame: FrameType | None) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)  # closing is not interrupted
        raise SignalledError(number)

    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {one: now for one in WORDS if (now := signal.getsignal(one)) in usual}
    try:
        for one in before:
            signal.signal(one, end)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class Endings:
    """Inside the `with` block SIGINT, SIGTERM and SIGHUP raise, so that everything inside is
    closed; then print one line on stderr, and exit with 128 and the signal's number.

    `says` follows the signal's word: "interrupted: everything was stopped". For the main thread.

    >>> with Endings("nothing was begun"):
    ...     pass
    """

    def __init__(self, says: str) -> None:
        self._says = says
        self._postpones = False
        self._came: int | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in WORDS}
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        ended = isinstance(error, SignalledError)
        for number, before in self._before.items():
            # An impatient user should not see tracebacks of an interpreter that ends.
            signal.signal(number, signal.SIG_IGN if ended else before)
        if isinstance(error, SignalledError):
            with suppress(OSError):  # the terminal may be gone
                sys.stderr.write(f"{WORDS[error.number]}: {self._says}\n")
                sys.stderr.flush()
            raise SystemExit(128 + error.number) from None

    @contextmanager
    def wholly_closed(self, resource: AbstractContextManager[T]) -> Iterator[T]:
        """Return `resource`, whose closing is not interrupted: signals during it are raised after
        it."""
        with self._postponing_after(), resource as entered:
            try:
                yield entered
            finally:
                self._postpones = True

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Signals during its `with` block are raised at its end: for a step that must not be
        interrupted, such as the start of a process that has to be ended."""
        with self._postponing_after():
            self._postpones = True
            yield

    @contextmanager
    def _postponing_after(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._postpones = False
            if self._came is not None:
                raise SignalledError(self._came)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._came = number
        if not self._postpones:
            raise SignalledError(number)
