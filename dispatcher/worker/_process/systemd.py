"""Report the state of this process to its supervisor, by systemd's protocol: plain datagrams."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping

LINE = "DISPATCHER_WORKER_LINE"
"""The environment variable with the socket that was inherited from a supervisor of this library."""

READY, STOPPING, WATCHDOG = "READY=1", "STOPPING=1", "WATCHDOG=1"


class Notifier:
    """Sends to the socket that LINE or NOTIFY_SOCKET names; without one it does nothing.

    >>> Notifier({}).watchdog_interval is None
    True
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        # Removed: in programs that a handler starts, that number is another file, or a socket to
        # Redis.
        self._inherited = int(environment.pop(LINE, -1))
        place = environment.get("NOTIFY_SOCKET", "")
        self._place = "\0" + place[1:] if place.startswith("@") else place
        self.watchdog_interval = _interval(environment)
        """How often WATCHDOG=1 is to be sent, in seconds; None if it is not expected."""

    def send(self, *words: str) -> None:
        """Send without waiting. A missing receiver is no error: work goes on."""
        said = "\n".join(words).encode()
        with contextlib.suppress(OSError):
            if self._inherited >= 0:
                with socket.fromfd(self._inherited, socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                    line.send(said, socket.MSG_DONTWAIT)
            elif self._place:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
                    line.sendto(said, socket.MSG_DONTWAIT, self._place)


def _interval(environment: Mapping[str, str]) -> float | None:
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        microseconds = int(environment.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    # Half of it: one that comes late is not yet missed.
    return microseconds / 2e6 if microseconds > 0 else None
