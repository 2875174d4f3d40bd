"""Functions that a child process calls after a fork; without forks there is nothing to do."""

from __future__ import annotations

import os
from collections.abc import Callable


def begin_in_child(begin: Callable[[], object]) -> None:
    """Call `begin` in each child process that is forked off."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)
