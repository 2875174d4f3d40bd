"""Repair buckets of which something was evicted, deleted or damaged in Redis, in small steps."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Sequence

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.layout import PARTS
from dispatcher.timeline._reading.looking import groups_of
from dispatcher.timeline._server.server import FIT, MEND
from dispatcher.timeline._server.topic import Topic
from dispatcher.timeline.errors import TimelineError
from limiters._support.rate_limited_log import RateLimitedLog

AT_ONCE = 32
"""Approximate number of messages that one script examines."""

CHECKED_AT_ONCE = 16
"""Number of buckets that one script checks."""

STEPS = 10
"""Number of scripts that are run in a row for a bucket."""

CHECK_AGAIN = 10.0
"""Seconds between two checks of whether the parts of a bucket fit together."""

_BEGIN = (b"", b"0")


class Mending:
    """Runs mend.lua, which describes the repair, bucket by bucket. Not thread-safe."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._places: dict[int, tuple[bytes, bytes]] = {}
        """For each bucket under repair, how far it has been examined."""
        self._checked = -math.inf
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.timeline"))

    def go_on(self, buckets: Sequence[int]) -> None:
        """Run some steps for those of these buckets that are damaged."""
        if not self._places and time.monotonic() - self._checked >= CHECK_AGAIN:
            self._checked = time.monotonic()
            self._begin(it for it, error in self.damaged(buckets) if error is None)
        for _ in range(STEPS):
            if not self._step():
                return

    def finish(self) -> None:
        """Repair all buckets completely."""
        damaged = self.damaged(range(self._topic.buckets))
        for _, error in damaged:
            if error is not None:
                raise error
        self._begin(bucket for bucket, _ in damaged)
        while self._step():
            pass

    def damaged(self, buckets: Sequence[int]) -> list[tuple[int, TimelineError | None]]:
        """Return the buckets whose parts do not fit together, and those that cannot be examined,
        with the reason."""
        server, layout = self._topic.server, self._topic.layout
        groups = groups_of(self._topic, CHECKED_AT_ONCE, buckets)
        calls = [(layout.some(group, *PARTS), ()) for group in groups]
        found: list[tuple[int, TimelineError | None]] = []
        for group, answer in zip(groups, server.run_each(FIT, calls), strict=True):
            if isinstance(answer, TimelineError):
                found += [(bucket, answer) for bucket in group]
                continue
            for bucket, said in zip(group, answer[1], strict=True):
                if isinstance(said, bytes):
                    found.append((bucket, server.of_another_type(said)))
                elif not said:
                    found.append((bucket, None))
        return found

    def _begin(self, buckets: Iterable[int]) -> None:
        for bucket in buckets:
            self._places[bucket] = _BEGIN
            self._damped.log(
                logging.WARNING,
                "%s: bucket %d was damaged in Redis, and is being repaired",
                *(self._topic.name, bucket),
                extra={
                    "happening": "bucket-damaged",
                    "topic": self._topic.name,
                    "bucket": bucket,
                },
            )

    def _step(self) -> bool:
        """Run one script for each bucket under repair. Return whether something is left."""
        server, layout = self._topic.server, self._topic.layout
        places = list(self._places.items())
        answers = server.run_each(
            MEND, [(layout.keys(bucket), (*place, AT_ONCE)) for bucket, place in places]
        )
        for (bucket, _), answer in zip(places, answers, strict=True):
            if isinstance(answer, TimelineError):
                raise answer
            _, part, cursor, died, why = answer
            if died:
                tell_dead(self._damped, self._topic.name, died, ids.as_text(why))
            self._places[bucket] = part, cursor
            if not part:
                del self._places[bucket]
        return bool(self._places)


def tell_dead(log: RateLimitedLog, topic: str, messages: int, why: str) -> None:
    """Log that messages were moved to the dead letters."""
    log.log(
        logging.WARNING,
        "%s: %d %s dead: %s",
        *(topic, messages, "message is" if messages == 1 else "messages are", why),
        extra={"happening": "messages-dead", "topic": topic, "messages": messages},
    )
