"""Log lines about calls of the handler, rate-limited."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dispatcher.worker._log_words import MOST_NAMED, counted, some_of
from limiters._support.rate_limited_log import RateLimitedLog


class CallLog:
    """The log of one worker."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.worker.failures"))
        self._sparse = RateLimitedLog(logging.getLogger("dispatcher.worker.failures"), most=1)

    def failed(
        self,
        handler: str,
        error: BaseException | None,
        *,
        messages: int,
        again: Sequence[str],
        dead: Sequence[str],
    ) -> None:
        """Log a call that has failed, for all of its messages or for some; with their ids."""
        self._damped.log(
            logging.ERROR if dead else logging.WARNING,
            "%s failed for %d of %s in topic %s: %d to be tried again, %d dead (%s)",
            *(handler, len(again) + len(dead), counted(messages), self._topic),
            *(len(again), len(dead), some_of([*again, *dead])),
            exc_info=error,
            extra={
                "happening": "handler-failed",
                "topic": self._topic,
                "messages": messages,
                "again": len(again),
                "dead": len(dead),
                "ids": [*again, *dead][:MOST_NAMED],
                "error": type(error).__name__,
            },
        )

    def dead(self, ids: Sequence[str], reason: str) -> None:
        """Log messages that are dead."""
        self._damped.log(
            logging.WARNING,
            "%s of topic %s given up (%s): %s",
            *(counted(len(ids)), self._topic, some_of(ids), reason),
            extra={
                "happening": "messages-dead",
                "topic": self._topic,
                "messages": len(ids),
            },
        )

    def no_cost(self, id_: str, error: BaseException) -> None:
        """Log a message whose cost could not be found, or could never be spent."""
        self._sparse.log(
            logging.WARNING,
            "message %r of topic %s was not handled, for its cost: %s",
            *(id_, self._topic, error),
            extra={
                "happening": "cost-unknown",
                "topic": self._topic,
                "ids": [id_],
                "error": type(error).__name__,
            },
        )

    def too_late(self, messages: int) -> None:
        """Log leases that have ended before the handler was called."""
        self._damped.log(
            logging.WARNING,
            "the leases of %s of topic %s ended before the handler was called; is lease_time too "
            "short?",
            *(counted(messages), self._topic),
            extra={"happening": "leases-lost", "topic": self._topic, "messages": messages},
        )

    def never_began(self, messages: int) -> None:
        """Log a call that was raised and not begun."""
        self._damped.log(
            logging.ERROR,
            "a call of the handler could not begin within max_operation_time; %s of topic %s "
            "given back. Does a coroutine block the event loop?",
            *(counted(messages), self._topic),
            extra={"happening": "handler-stuck", "topic": self._topic, "messages": messages},
        )

    def retry_raised(self, error: BaseException) -> None:
        """Log an error of the user's retry strategy."""
        self._damped.log(
            logging.ERROR,
            "retry raised; the messages are due again after a second",
            exc_info=error,
            extra={"happening": "retry-raised", "error": type(error).__name__},
        )
