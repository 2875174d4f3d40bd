"""What the log says of calls of the handler: one line each, but no flood of them."""

from __future__ import annotations

import logging

from limiters.damper import Damper, and_before

logger = logging.getLogger(__name__)


class CallLog:
    """One per worker. A kind is what happened, and the class of its error."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._damper = Damper()

    def failed(
        self, handler: str, error: BaseException | None, *, messages: int, again: int, dead: int
    ) -> None:
        """A call has failed, for all of its messages or for some."""
        left_out = self._damper.left_out(("handler-failed", type(error)))
        if left_out is not None:
            logger.log(
                logging.ERROR if dead else logging.WARNING,
                "%s failed: %d messages, to be tried again: %d, dead: %d%s",
                *(handler, messages, again, dead, and_before(left_out)),
                exc_info=error,
                extra={
                    "happening": "handler-failed",
                    "topic": self._topic,
                    "messages": messages,
                    "again": again,
                    "dead": dead,
                    "error": type(error).__name__,
                    "left_out": left_out,
                },
            )

    def dead(self, messages: int, reason: str) -> None:
        """Messages are given up."""
        left_out = self._damper.left_out("messages-dead")
        if left_out is not None:
            facts = {
                "happening": "messages-dead",
                "topic": self._topic,
                "messages": messages,
                "left_out": left_out,
            }
            text = "%d messages are dead: %s%s"
            logger.warning(text, messages, reason, and_before(left_out), extra=facts)

    def too_late(self, messages: int) -> None:
        """Leases have ended before the handler was called."""
        left_out = self._damper.left_out("leases-lost")
        if left_out is not None:
            facts = {
                "happening": "leases-lost",
                "topic": self._topic,
                "messages": messages,
                "left_out": left_out,
            }
            text = "%d leases ended before their messages began%s"
            logger.warning(text, messages, and_before(left_out), extra=facts)

    def retry_raised(self, error: BaseException) -> None:
        """The user's strategy did."""
        left_out = self._damper.left_out(("retry-raised", type(error)))
        if left_out is not None:
            facts = {
                "happening": "retry-raised",
                "error": type(error).__name__,
                "left_out": left_out,
            }
            text = "retry raised; the messages are due again after a second%s"
            logger.error(text, and_before(left_out), exc_info=error, extra=facts)
