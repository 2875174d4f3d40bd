"""The clock of a limiter: law C2 on a machine that is suspended."""

from __future__ import annotations

import time

import pytest

from limiters._support.clock import MonotonicClock

BOOT = getattr(time, "CLOCK_BOOTTIME", None)


@pytest.mark.skipif(BOOT is None, reason="this system has no clock that goes on while suspended")
def test_c2_time_goes_on_while_the_machine_is_suspended() -> None:
    assert BOOT is not None
    before = time.clock_gettime(BOOT)
    now = MonotonicClock().now()
    assert before <= now <= time.clock_gettime(BOOT)
