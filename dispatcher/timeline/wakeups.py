"""Hears, on a thread of its own, that something earlier was put onto the timeline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from limiters.leases.connection import Connection

logger = logging.getLogger(__name__)

_AGAIN = 0.5


class Wakeups:
    """Subscribes to `channel` and calls `hear(bucket, due)` for each message, and `miss()` when
    it has begun to listen, for what it may have missed. Messages can get lost: whoever sleeps
    also looks by himself now and then."""

    def __init__(
        self,
        connection: Connection,
        channel: bytes,
        topic: str,
        hear: Callable[[int, float], None],
        miss: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._topic = topic
        self._hear = hear
        self._miss = miss
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="timeline-wakeups", daemon=True)
        self._complained = False

    def start(self) -> None:
        """Begins to listen; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it, within a moment."""
        self._stopped.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self._connection.client().pubsub() as channel:
                    self._listen(channel)
            except Exception as error:  # Redis is away; the sleeper says so
                if not self._complained:
                    self._complained = True
                    facts = {
                        "happening": "no-wake-ups",
                        "topic": self._topic,
                        "error": type(error).__name__,
                    }
                    logger.debug("no wake-ups for now: %s", error, extra=facts)
                self._stopped.wait(_AGAIN)

    def _listen(self, channel: Any) -> None:
        channel.subscribe(self._channel)
        while not self._stopped.is_set():
            message = channel.get_message(timeout=0.2)
            if message is None:
                continue
            if message["type"] == "subscribe":
                self._complained = False
                self._miss()
            elif message["type"] == "message":
                self._heard(message["data"])

    def _heard(self, data: bytes | str) -> None:
        text = data.decode() if isinstance(data, bytes) else data
        bucket, _, due = text.partition(" ")
        try:
            self._hear(int(bucket), float(due))
        except ValueError:  # somebody else's
            self._miss()
