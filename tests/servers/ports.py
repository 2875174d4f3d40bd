"""Ports that are chosen before anything listens on them, and that no other test takes."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from functools import cache
from pathlib import Path
from random import SystemRandom

from limiters.embedded import HOST

# Apart from those that servers of other programs choose, and from those of outgoing connections.
_PORTS = range(5_000, 10_000)
_mine: set[int] = set()


def own_port(following: int = 0) -> int:
    """Return a port without a listener, or the first of several. No other test gets it while this
    process lives."""
    chances = _PORTS[: len(_PORTS) - following]
    for first in SystemRandom().sample(chances, len(chances)):
        some = range(first, first + 1 + following)
        if all(_is_claimed(port) and _is_free(port) for port in some):
            return first
    raise AssertionError("all ports are taken")


def _is_claimed(port: int) -> bool:
    if port in _mine:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _mine.add(port)
    return True


@cache
def _claims() -> int:
    """A file whose bytes stand for ports: who has one locked has claimed it. The lock ends with
    the process, however that ends."""
    name = f"dispatcher-test-ports-{os.getuid()}"
    return os.open(Path(tempfile.gettempdir(), name), os.O_WRONLY | os.O_CREAT)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
