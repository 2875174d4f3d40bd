"""Call a function with due messages, when they are due, until the consumer is closed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._leasing.availability import Availability
from dispatcher.timeline._leasing.serving import LOOK_AGAIN, Serving
from dispatcher.timeline._leasing.wake_signal import ConsumerSignal
from dispatcher.timeline._leasing.wakeups import Wakeups, busy, free
from dispatcher.timeline._server.topic import Topic
from dispatcher.timeline.errors import TimelineUnavailableError
from dispatcher.timeline.message import Leases
from limiters._redis.client import interruptible
from limiters._redis.outages import Outage
from limiters._support.callables import keep_last_raise, notify
from limiters._support.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from dispatcher.timeline.consumer import Consumer

logger = logging.getLogger("dispatcher.timeline")


class Subscription:
    """One run of `subscribe`. While `fn` runs, or there is no room, other consumers are notified
    that this one is busy, and serve its buckets."""

    def __init__(
        self,
        topic: Topic,
        consumer: Consumer,
        serving: Serving,
        lock: threading.Lock,
        bell: ConsumerSignal,
        length_ms: int,
    ) -> None:
        self._topic = topic
        self._consumer = consumer
        self._serving = serving
        self._lock = lock
        self._bell = bell
        self._length_ms = length_ms
        self._patience = min(LOOK_AGAIN, length_ms / 2000)
        self._damped = RateLimitedLog(logger)
        where, name = topic.server.connection.where, topic.name
        self._outage = Outage(logger, where, f"topic {name}", topic=name)
        self._wakeups = Wakeups(topic, bell.ring)
        self._availability = Availability(self._tell_availability)

    def run(self, fn: Callable[[Leases], Any], most: Callable[[], int]) -> None:
        """Run until the consumer is closed."""
        self._wakeups.start()
        self._availability.start()
        try:
            while not self._consumer.closed:
                self._step(fn, most)
        finally:
            self._availability.stop()
            self._wakeups.stop()

    def _step(self, fn: Callable[[Leases], Any], most: Callable[[], int]) -> None:
        self._listen(0)
        limit = most()
        if limit < 1:
            self._availability.set_busy(True)
            self._listen(self._patience)
            return
        leases = self._leased(limit)
        if leases:
            self._availability.set_busy(True)
            try:
                notify(fn, leases)
            except Exception as error:
                keep_last_raise(error)
                self._complain(error, len(leases))
        elif leases is not None:
            self._availability.set_busy(False)
            self._listen(self._serving.until_next(self._patience))

    def _leased(self, limit: int) -> Leases | None:
        """Lease due messages. Return None, after a pause, if Redis is away."""
        asked = time.monotonic()
        try:
            with self._lock:
                leases = self._serving.lease_known(limit, self._length_ms, self._patience)
        except TimelineUnavailableError as error:
            self._outage.began(error, asked, "%r waits for Redis: %s", self._consumer, error)
            self._consumer.reachable = False
            self._listen(self._patience)
            return None
        self._reached(asked)
        return leases

    def _reached(self, asked: float) -> None:
        if self._topic.server.answered < asked:
            return  # nothing was asked, since nothing was due
        self._outage.ended(asked, "%r goes on", self._consumer)
        self._consumer.reachable = True

    def _listen(self, seconds: float) -> None:
        heard, has_missed = self._bell.listen(seconds)
        if heard or has_missed:
            with self._lock:
                self._serving.hear(heard, has_missed)

    def _tell_availability(self, is_busy: bool) -> None:
        asked, name = time.monotonic(), ids.as_bytes(self._consumer.id)
        said = busy(name) if is_busy else free(name)
        try:
            if is_busy:  # the consumer's own thread asks nothing while there is no room
                self._serving.stay_listed()
            client = self._topic.server.connection.client()
            with interruptible(client):
                client.publish(self._topic.layout.channel, said)
            self._reached(asked)
        except TimelineUnavailableError as error:
            self._outage.began(error, asked, "%r waits for Redis: %s", self._consumer, error)
            self._consumer.reachable = False
        except Exception as error:  # the next heartbeat finds out whether Redis is away
            facts = {
                "happening": "busy-untold",
                "topic": self._topic.name,
                "error": type(error).__name__,
            }
            logger.debug(
                "%r could not announce that it is busy: %s", self._consumer, error, extra=facts
            )

    def _complain(self, error: Exception, messages: int) -> None:
        self._damped.log(
            logging.ERROR,
            "%r: %d messages are left to be leased again",
            *(self._consumer, messages),
            exc_info=error,
            extra={
                "happening": "subscriber-raised",
                "topic": self._topic.name,
                "messages": messages,
                "error": type(error).__name__,
            },
        )
