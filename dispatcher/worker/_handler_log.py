"""What the log says of calls of the handler: one line each, but no flood of them."""

from __future__ import annotations

import logging

from limiters._support.rate_limited_log import RateLimitedLog


class CallLog:
    """One per worker."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.worker.failures"))

    def failed(
        self, handler: str, error: BaseException | None, *, messages: int, again: int, dead: int
    ) -> None:
        """A call has failed, for all of its messages or for some."""
        self._damped.log(
            logging.ERROR if dead else logging.WARNING,
            "%s failed: %d messages, to be tried again: %d, dead: %d",
            *(handler, messages, again, dead),
            exc_info=error,
            extra={
                "happening": "handler-failed",
                "topic": self._topic,
                "messages": messages,
                "again": again,
                "dead": dead,
                "error": type(error).__name__,
            },
        )

    def dead(self, messages: int, reason: str) -> None:
        """Messages are given up."""
        self._damped.log(
            logging.WARNING,
            "%d %s dead: %s",
            *(messages, "message is" if messages == 1 else "messages are", reason),
            extra={"happening": "messages-dead", "topic": self._topic, "messages": messages},
        )

    def too_late(self, messages: int) -> None:
        """Leases have ended before the handler was called."""
        self._damped.log(
            logging.WARNING,
            "%d leases ended before their messages began",
            messages,
            extra={"happening": "leases-lost", "topic": self._topic, "messages": messages},
        )

    def never_began(self, messages: int) -> None:
        """A call was raised, and nobody has run it."""
        self._damped.log(
            logging.ERROR,
            "a call of the handler could not begin within max_operation_time; its %d messages "
            "are given back. Does a coroutine block the event loop?",
            messages,
            extra={"happening": "handler-stuck", "topic": self._topic, "messages": messages},
        )

    def retry_raised(self, error: BaseException) -> None:
        """The user's strategy did."""
        self._damped.log(
            logging.ERROR,
            "retry raised; the messages are due again after a second",
            exc_info=error,
            extra={"happening": "retry-raised", "error": type(error).__name__},
        )
