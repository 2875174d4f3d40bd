"""A time-out fails its test and no other.

pytest-timeout's method "thread" ends the whole process, with the servers and the Spark that other
tests share. Its method "signal" raises in the test, but once: a test that catches everything, or a
fixture that hangs while it ends, would hang the run. Here the signal comes again and again until
the test has ended, and is ignored while pytest itself works; only a test that no signal interrupts
ends its process.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Generator
from types import FrameType

import pytest
from pytest_timeout import Settings

AGAIN = 0.25
"""The time between two signals, as a share of the time-out."""

LEAST = 15.0
"""Seconds from the time-out until the process ends, at least; else as long as the time-out."""


class Timeouts:
    """A plugin: interrupts the test's own code, again and again."""

    def __init__(self) -> None:
        self._interruptible = False

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(self, settings: Settings) -> Generator[None, object, object]:
        """Let the signal come again, and stop waiting for it in the end."""
        done = yield
        if settings.method == "signal":
            fail = signal.getsignal(signal.SIGALRM)
            assert callable(fail)

            def interrupt(number: int, frame: FrameType | None) -> None:
                if self._interruptible:
                    fail(number, frame)

            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, settings.timeout, settings.timeout * AGAIN)
            last = settings.timeout + max(settings.timeout, LEAST)
            faulthandler.dump_traceback_later(last, exit=True, file=sys.__stderr__ or sys.stderr)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_cancel_timer(self) -> Generator[None, object, object]:
        """The test has ended."""
        faulthandler.cancel_dump_traceback_later()
        return (yield)

    def _in_a_phase(self) -> Generator[None, object, object]:
        self._interruptible = True
        try:
            return (yield)
        finally:
            self._interruptible = False

    # The last wrappers, next to the test: those around them capture what it prints, for example.
    pytest_runtest_setup = pytest.hookimpl(wrapper=True, trylast=True)(_in_a_phase)
    pytest_runtest_call = pytest.hookimpl(wrapper=True, trylast=True)(_in_a_phase)
    pytest_runtest_teardown = pytest.hookimpl(wrapper=True, trylast=True)(_in_a_phase)


def pytest_configure(config: pytest.Config) -> None:
    """Register it, also where this module is named by `-p`."""
    config.pluginmanager.register(Timeouts())
