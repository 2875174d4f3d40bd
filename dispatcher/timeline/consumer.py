"""Consumer: leases due messages, and does what only the holder of a lease may do."""

from __future__ import annotations

import functools
import logging
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.times import Moment, lease_ms
from dispatcher.timeline._leasing.holding import HeldLeases, as_deeds, as_leases, ends_at, leases_of
from dispatcher.timeline._leasing.serving import Serving
from dispatcher.timeline._leasing.settling import Bury, Delete, Ending, ReleaseLease
from dispatcher.timeline._leasing.subscription import Subscription
from dispatcher.timeline._leasing.wake_signal import ConsumerSignal
from dispatcher.timeline._server.server import ACTIVE
from dispatcher.timeline._server.topic import AT_ONCE, Topic
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.message import Lease, Leases
from dispatcher.timeline.outcomes import MessageOutcome
from limiters._support.callables import check_plain
from limiters._support.validation import Seconds, count
from limiters.errors import ImproperOrderError

logger = logging.getLogger("dispatcher.timeline")

_END = struct.Struct("<d")


class Consumer:
    """One consumer of a topic. Its id is its own: a process that returns under the same id gets its
    leases back by `active()`, and shuts out another process that uses it.

    The consumers of a topic divide the buckets among themselves. Methods can be called from several
    threads; `lease`, `active` and `subscribe` take turns, `extend`, `release` and `delete` do not
    wait for them. Like a Producer's, every call returns an outcome for each message.

    >>> from dispatcher.timeline import Message, Timeline
    >>> from limiters.embedded import EmbeddedRedis
    >>> with EmbeddedRedis() as server:
    ...     timeline = Timeline(server.url, "mails")
    ...     _ = timeline.producer("signup").create([Message({"user": 7}, id="user-7")])
    ...     with timeline.consumer("worker-1") as consumer:
    ...         leases = consumer.lease(100, for_=30)
    ...         outcomes = consumer.delete(leases)
    >>> leases[0].body, outcomes
    ({'user': 7}, [Deleted(id='user-7')])
    """

    def __init__(self, topic: Topic, consumer_id: str) -> None:
        self._topic = topic
        self.id = consumer_id
        self._written = ids.as_bytes(consumer_id)
        self._holding = HeldLeases(topic)
        self._serving = Serving(topic, consumer_id, self._holding)
        self._lock = threading.Lock()
        self._bell = ConsumerSignal()
        self._subscribed = threading.Lock()
        self.closed = False
        """Whether it was closed."""
        self.reachable: bool | None = None
        """Whether Redis answered the last request of `subscribe`; None before the first."""

    def __repr__(self) -> str:
        return f"Consumer({self.id!r}, of {self._topic.name!r})"

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def buckets(self) -> list[int]:
        """The buckets that are the consumer's own at present."""
        with self._lock:
            self._serving.keep_membership()
            return list(self._serving.buckets)

    @property
    def due(self) -> int:
        """Number of messages due in its buckets, by the times it has read. Makes no call."""
        with self._lock:
            return self._serving.due

    def lease(self, limit: int, for_: Seconds) -> Leases:
        """Lease at most `limit` messages that are due now, for `for_` seconds, in order of time.
        Those of its own buckets come first, then those of others that have been left there for a
        moment.

        Never waits, and returns no lease that has ended: it returns fewer than `limit` before the
        first leases would end. A message that was leased `max_attempts` times and is due again is
        dead instead. Messages leased by a call whose answer was lost are due again when those
        leases end, or are returned by `active()`.
        """
        limit, length_ms = count("limit", limit), lease_ms(for_)
        with self._lock:
            return self._serving.lease(limit, length_ms)

    def extend(self, leases: Iterable[Lease] | Lease, for_: Seconds) -> list[MessageOutcome]:
        """Extend leases until `for_` seconds from now; none is shortened.

        Return Extended, NotFound, LeaseLost or LeaseExpired for each; the Lease objects change too.
        """
        return self._holding.extend(as_leases(leases), lease_ms(for_))

    def release(
        self,
        leases: Iterable[Lease] | Lease,
        *,
        at: Moment | None = None,
        delay: Seconds | None = None,
        attempted: bool = True,
    ) -> list[MessageOutcome]:
        """Give messages back, to be due `at` a time from now on or after a `delay`. Unless
        `attempted` is False, the lease counts as an attempt.

        Return Released, TimeInPast, NotFound, LeaseLost or LeaseExpired for each.
        """
        return self._settle_alike(leases, ReleaseLease(at, delay, attempted))

    def bury(self, leases: Iterable[Lease] | Lease, reason: str) -> list[MessageOutcome]:
        """Move messages to the dead letters. `Timeline.dead` returns the first thousand bytes of
        the reason.

        Return `Buried`, NotFound, LeaseLost or LeaseExpired for each.
        """
        return self._settle_alike(leases, Bury(reason))

    def delete(self, leases: Iterable[Lease] | Lease) -> list[MessageOutcome]:
        """Delete messages: they are done.

        Return Deleted, AlreadyGone, LeaseLost or LeaseExpired for each.
        """
        return self._settle_alike(leases, Delete())

    def settle(self, endings: Iterable[tuple[Lease, Ending]]) -> list[MessageOutcome]:
        """End each lease in its own way: `Delete()`, `ReleaseLease(delay=60)` or
        `Bury("malformed")`. Makes as many calls to Redis as deleting all of them.

        The outcomes are those of `delete`, `release` and `bury`.
        """
        leases, deeds = as_deeds(endings)
        return self._holding.settle(leases, deeds)

    def _settle_alike(
        self, leases: Iterable[Lease] | Lease, ending: Ending
    ) -> list[MessageOutcome]:
        held, deed = as_leases(leases), ending.deed()
        return self._holding.settle(held, [deed] * len(held))

    def active(self) -> list[Lease]:
        """Return this consumer's live leases, with new tokens; the old tokens are LeaseLost. For a
        process that has restarted."""
        with self._lock:
            found: list[Lease] = []
            left = [(bucket, b"") for bucket in range(self._topic.buckets)]
            while left:
                asked, server = time.monotonic(), self._topic.server
                calls = [
                    (self._topic.layout.keys(bucket), [self._written, after, AT_ONCE])
                    for bucket, after in left
                ]
                further = []
                for (bucket, _), answer in zip(left, server.run_each(ACTIVE, calls), strict=True):
                    if isinstance(answer, TimelineError):
                        raise answer
                    now_us, last, ends, blob = answer
                    untils = [int(until) for (until,) in _END.iter_unpack(ends)]
                    lasts_ms = [until - now_us / 1000 for until in untils]
                    ends_here = [ends_at(asked, it) for it in lasts_ms]
                    mine = list(leases_of(bucket, blob, untils, ends_here))
                    found += self._serving.readable(mine)
                    if last:
                        further.append((bucket, last))
                left = further
            return found

    def subscribe(
        self,
        fn: Callable[[Leases], Any],
        *,
        limit: int | Callable[[], int] = 100,
        for_: Seconds = 30.0,
    ) -> None:
        """Call `fn` with messages when they are due, until `close()` is called.

        Runs on the caller's thread and sleeps in between: until the next message is due, or an
        earlier one is created. `fn` deletes, extends or releases the leases it receives; the others
        are due again when they end. An error that `fn` raises is logged, and nothing else changes.
        While Redis is away it retries, and logs this once.

        `limit` may be a function. It is called before each lease; after it has returned 0, when
        `look_again` is called, and once a second. While it returns 0, or `fn` runs, other consumers
        serve its buckets. Raise ImproperOrderError if it is subscribed already.
        """
        check_plain("fn", fn)
        length_ms = lease_ms(for_)
        most = limit if callable(limit) else functools.partial(int, count("limit", limit))
        if not self._subscribed.acquire(blocking=False):
            raise ImproperOrderError(
                f"the consumer {self.id!r} is subscribed already; make another one, with another id"
            )
        try:
            Subscription(self._topic, self, self._serving, self._lock, self._bell, length_ms).run(
                fn, most
            )
        finally:
            self._subscribed.release()
            if self.closed:  # and leaves the list: it may have registered meanwhile
                self._leave()

    def look_again(self) -> None:
        """Make `subscribe` ask for its limit now. From any thread."""
        self._bell.wake()

    def close(self) -> None:
        """End `subscribe`, on any thread, and leave the buckets to others. Its leases last until
        they end. Idempotent; may be called from a signal handler."""
        if self.closed:
            return
        self.closed = True
        self._bell.ring(None)
        self._leave()

    def _leave(self) -> None:
        try:
            self._serving.leave()
        except TimelineError as error:  # others notice a moment later in any case
            facts = {
                "happening": "leave-untold",
                "topic": self._topic.name,
                "error": type(error).__name__,
            }
            logger.debug("%r could not announce that it leaves: %s", self, error, extra=facts)
