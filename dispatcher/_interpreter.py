"""Check that the interpreter has the properties that this package relies on.

Callers hand operations to the engine without a lock (see `buffer`). That is safe because of three
properties of CPython with its global interpreter lock:

* a call into C that runs no Python code, such as `deque.append`, is one step;
* threads are switched, and signal handlers run, only after a call, at a jump back, or on entering a
  function: code between two of these is one step, such as a test of an attribute followed by an
  assignment;
* what one thread has written, every other one reads from then on.

A trace or profile function that is written in Python and set for several threads (`sys.settrace`, a
debugger that steps through this package) runs in the middle of such steps, so they are steps no
more.

A free-threaded interpreter gives the first for single operations of a deque only, and the others
not at all. There each claim on an operation (`_where`), each piece taken of a chunk and each change
of the room would have to be an atomic compare-and-set, and the inbox a queue of its own with them;
or every producer would have to take a lock, with signals kept out while it is held.
"""

from __future__ import annotations

import sys


def check() -> None:
    """Raise RuntimeError on an interpreter that cannot run this safely."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    if enabled is not None and not enabled():
        raise RuntimeError(
            "dispatcher needs CPython's global interpreter lock, which is off in this process: "
            "start Python with PYTHON_GIL=1, or use a build that is not free-threaded"
        )
