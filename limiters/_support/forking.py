"""What a child process begins anew after a fork; where there is no fork, nothing."""

from __future__ import annotations

import os
from collections.abc import Callable


def begin_in_child(begin: Callable[[], object]) -> None:
    """Call `begin` in each child process that is forked off."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)
