"""Sets the clocks of this process wrong by CLOCK_OFFSET seconds, the monotonic one too, as those of
two machines are. To be imported before everything else: a clock that jumps later is none there is.
"""

from __future__ import annotations

import os
import time

right_time = time.time
_offset = float(os.environ.get("CLOCK_OFFSET", 0))


def righted(monotonic: float) -> float:
    """Convert a time of this process's monotonic clock to the machine's."""
    return monotonic - _offset


if _offset:
    _right_monotonic, _right_gettime = time.monotonic, time.clock_gettime
    time.time = lambda: right_time() + _offset
    time.monotonic = lambda: _right_monotonic() + _offset
    time.clock_gettime = lambda clock: _right_gettime(clock) + _offset  # the library's, on Linux
