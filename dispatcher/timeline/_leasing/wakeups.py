"""Receive the notifications of other programs on a separate thread: an earlier message was created,
or a consumer is busy or has room again."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Any

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._leasing.wake_signal import Heard
from dispatcher.timeline._server.topic import Topic

logger = logging.getLogger("dispatcher.timeline")

_AGAIN = 0.5

_BUSY, _FREE = b"busy", b"free"


def busy(consumer: bytes) -> bytes:
    """The notification that a consumer is busy."""
    return _BUSY + b" " + consumer


def free(consumer: bytes) -> bytes:
    """The notification that a consumer has room again."""
    return _FREE + b" " + consumer


def heard_in(data: bytes) -> Heard | None:
    """Decode a notification; None if it is of an unknown kind. Pure.

    >>> heard_in(b"3 1800000000000"), heard_in(busy(b"worker 1")), heard_in(b"nonsense")
    ((3, 1800000000000.0), ('worker 1', True), None)
    """
    subject, _, fact = data.partition(b" ")
    if subject in (_BUSY, _FREE):
        return ids.as_text(fact), subject == _BUSY
    try:
        bucket, due = int(subject), float(fact)
    except ValueError:
        return None
    return (bucket, due) if math.isfinite(due) else None


class Wakeups:
    """Subscribes to the channel of `topic` and calls `hear` with each notification; with None when
    the subscription begins, since some may have been missed before. Notifications can get lost: a
    sleeping consumer also polls now and then."""

    def __init__(
        self,
        topic: Topic,
        hear: Callable[[Heard | None], None],
    ) -> None:
        self._topic = topic
        self._hear = hear
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="timeline-wakeups", daemon=True)
        self._complained = False

    def start(self) -> None:
        """Start the thread, without waiting for the subscription."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, within a moment."""
        self._stopped.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self._topic.server.connection.client().pubsub() as channel:
                    self._listen(channel)
            except Exception as error:  # Redis is away; the sleeping consumer logs it
                if not self._complained:
                    self._complained = True
                    facts = {
                        "happening": "no-wake-ups",
                        "topic": self._topic.name,
                        "error": type(error).__name__,
                    }
                    logger.debug("wake-ups are not received at present: %s", error, extra=facts)
                self._stopped.wait(_AGAIN)

    def _listen(self, channel: Any) -> None:
        channel.subscribe(self._topic.layout.channel)
        while not self._stopped.is_set():
            message = channel.get_message(timeout=0.2)
            if message is None:
                continue
            if message["type"] == "subscribe":
                self._complained = False
                self._hear(None)
            elif message["type"] == "message":
                data = message["data"]
                self._hear(heard_in(ids.as_bytes(data) if isinstance(data, str) else data))
