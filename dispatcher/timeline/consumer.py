"""Consumer: leases what is due, and does with it what only the holder of a lease may do."""

from __future__ import annotations

import functools
import itertools
import logging
import queue
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from dispatcher.timeline import ids
from dispatcher.timeline.agenda import Agenda
from dispatcher.timeline.errors import TimelineError, TimelineUnavailableError
from dispatcher.timeline.holding import Holding, as_leases, ends_at, leases_of
from dispatcher.timeline.looking import look
from dispatcher.timeline.members import Membership
from dispatcher.timeline.message import Lease, Leases
from dispatcher.timeline.outcomes import Outcome
from dispatcher.timeline.server import ACTIVE, LEASE
from dispatcher.timeline.times import Moment, lease_ms, when
from dispatcher.timeline.topic import AT_ONCE, Topic
from dispatcher.timeline.wakeups import Wakeups
from limiters.arguments import Seconds, count
from limiters.callables import check_plain, keep_last_raise, result_of
from limiters.damped_log import DampedLog

logger = logging.getLogger(__name__)

LOOK_AGAIN = 1.0
"""Seconds after which a sleeper looks by itself, however well it was told."""

MOST_UNHEARD = 1_000
"""How many wake-ups are kept for one who is busy; it looks by itself if there were more."""

_HEADS = struct.Struct("<ddd")
_END = struct.Struct("<d")

_LIMIT_CHANGED = (-1, 0.0)
"""Heard of no bucket at all."""


class Consumer:
    """One consumer of a topic. Its id is its own: a process that comes back under it gets its
    leases back by `active()`, and shuts out whoever else uses it.

    The consumers of a topic divide the buckets among themselves. Calls can be made from several
    threads; `lease`, `active` and `subscribe` take turns, `extend`, `release` and `delete` do
    not wait for them. Every call answers for each message, like a Producer's.

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
        self._holding = Holding(topic)
        self._members = Membership(topic, consumer_id)
        self._lock = threading.Lock()
        self._made_agenda: Agenda | None = None
        self._bell: queue.SimpleQueue[tuple[int, float] | None] = queue.SimpleQueue()
        self._closed = False
        self._damped = DampedLog(logger)
        self._buckets: list[int] = []
        self.reachable: bool | None = None
        """Whether Redis answered `subscribe` when it was asked last; None before."""

    def __repr__(self) -> str:
        return f"Consumer({self.id!r}, of {self._topic.name!r})"

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def buckets(self) -> list[int]:
        """The buckets that are its own at present."""
        with self._lock:
            self._keep_membership()
            return list(self._buckets)

    def lease(self, limit: int, for_: Seconds) -> Leases:
        """At most `limit` messages that are due now, for `for_` seconds; its own buckets first.

        Never waits. A message that was leased `max_attempts` times and is due again is dead
        instead. What was leased by a call whose answer was lost is due again when that ends, or
        `active()` brings it."""
        limit, length_ms = count("limit", limit), lease_ms(for_)
        with self._lock:
            leases = self._lease(limit, length_ms)
            if len(leases) < limit:
                self._look()
                leases += self._lease(limit - len(leases), length_ms)
            leases.more = self._agenda.has_more(self._topic.server.clock.now_ms())
            return leases

    def extend(self, leases: Iterable[Lease] | Lease, for_: Seconds) -> list[Outcome]:
        """Lets leases last until `for_` seconds from now, and never shorter than before.

        Extended, NotFound, LeaseLost or LeaseExpired for each; the leases are changed too."""
        return self._holding.extend(as_leases(leases), lease_ms(for_))

    def release(
        self,
        leases: Iterable[Lease] | Lease,
        *,
        at: Moment | None = None,
        delay: Seconds | None = None,
        attempted: bool = True,
    ) -> list[Outcome]:
        """Gives messages back, to be due `at` a time from now on or after a `delay`. Unless they
        were not `attempted`, the lease counts as an attempt.

        Released, TimeInPast, NotFound, LeaseLost or LeaseExpired for each."""
        return self._holding.release(as_leases(leases), *when(at, delay), attempted=attempted)

    def bury(self, leases: Iterable[Lease] | Lease, reason: str) -> list[Outcome]:
        """Gives messages up: they are dead, and `Timeline.dead` tells the first thousand bytes of
        the reason. Buried, NotFound, LeaseLost or LeaseExpired for each."""
        if not isinstance(reason, str):
            raise ValueError(f"reason must be a text, not {reason!r}")
        return self._holding.bury(as_leases(leases), reason)

    def delete(self, leases: Iterable[Lease] | Lease) -> list[Outcome]:
        """Deletes messages: they are done. Deleted, AlreadyGone, LeaseLost or LeaseExpired for
        each."""
        return self._holding.delete(as_leases(leases))

    def active(self) -> list[Lease]:
        """The leases that it has and that live, with new tokens, so that those told before are
        lost: for a process that has come back."""
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
                    found += leases_of(blob, untils, [ends_at(asked, it) for it in lasts_ms])
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
        """Calls `fn` with what is due, when it is due, until `close()` is called.

        It runs on the caller's thread and sleeps in between: until the next message is due, or
        an earlier one is created. `fn` deletes, extends or releases what it is given; what it
        leaves comes again when the lease ends. If `fn` raises, that is logged, and nothing else
        changes. While Redis is away it tries again, without a flood.

        `limit` may be a function that is asked each time. After it said 0 it is asked again when
        `look_again` is called, and once a second."""
        check_plain("fn", fn)
        length_ms = lease_ms(for_)
        most = limit if callable(limit) else functools.partial(int, count("limit", limit))
        patience = min(LOOK_AGAIN, length_ms / 2000)
        wakeups = Wakeups(
            self._topic.server.connection,
            self._topic.layout.channel,
            lambda bucket, due: self._ring((bucket, due)),
            lambda: self._ring(None),
        )
        wakeups.start()
        try:
            self._loop(fn, most, length_ms, patience)
        finally:
            wakeups.stop()
            if self._closed:  # and shows itself no more: it may have done so meanwhile
                self._leave()

    def look_again(self) -> None:
        """Lets `subscribe` ask for its limit now. From any thread."""
        if self._bell.empty():  # else it will, in a moment
            self._bell.put(_LIMIT_CHANGED)

    def close(self) -> None:
        """Ends `subscribe`, wherever that runs, and leaves the others its buckets. Leases that it
        has last until they end. May be called again, and from a signal handler's thread."""
        if self._closed:
            return
        self._closed = True
        self._bell.put(None)
        self._leave()

    def _leave(self) -> None:
        if self._members.members:
            try:
                self._members.leave()
            except TimelineError as error:  # it is missed a moment later all the same
                facts = {"happening": "leave-untold", "topic": self._topic.name}
                logger.debug("%r could not say that it leaves: %s", self, error, extra=facts)

    def _loop(
        self,
        fn: Callable[[Leases], Any],
        most: Callable[[], int],
        length_ms: int,
        patience: float,
    ) -> None:
        looked = float("-inf")
        while not self._closed:
            limit = most()
            if limit < 1:
                looked = float("-inf") if self._sleep(patience) else looked
                continue
            try:
                with self._lock:
                    if time.monotonic() - looked >= patience:
                        self._look()
                        looked = time.monotonic()
                    leases = self._lease(limit, length_ms)
                    leases.more = self._agenda.has_more(self._topic.server.clock.now_ms())
                if self.reachable is False:
                    facts = {"happening": "redis-back", "topic": self._topic.name}
                    logger.warning("%r goes on", self, extra=facts)
                self.reachable = True
            except TimelineUnavailableError as error:
                if self.reachable is not False:
                    facts = {"happening": "redis-away", "topic": self._topic.name}
                    logger.warning("%r has to wait: %s", self, error, extra=facts)
                self.reachable = False
                self._sleep(patience)
                continue
            if leases:
                try:
                    result_of(fn, leases)
                except Exception as error:
                    keep_last_raise(error)
                    self._complain(error, len(leases))
                continue
            clock = self._topic.server.clock
            until_next = (self._agenda.next() - clock.now_ms()) / 1000
            until_look = looked + patience - time.monotonic()
            if self._sleep(min(until_next, until_look)):
                looked = float("-inf")

    def _complain(self, error: Exception, messages: int) -> None:
        self._damped.log(
            logging.ERROR,
            "%r: %d messages are left to be leased again",
            *(self, messages),
            exc_info=error,
            extra={
                "happening": "subscriber-raised",
                "topic": self._topic.name,
                "messages": messages,
                "error": type(error).__name__,
            },
        )

    def _ring(self, heard: tuple[int, float] | None) -> None:
        """Keeps what was heard of, for one who sleeps or is busy. None: it has to look."""
        waiting = self._bell.qsize()
        if waiting < MOST_UNHEARD:
            self._bell.put(heard)
        elif waiting == MOST_UNHEARD:
            self._bell.put(None)

    def _sleep(self, seconds: float) -> bool:
        """Until then, or something is heard of; whether it has to look by itself."""
        look_again = False
        try:
            heard = self._bell.get(timeout=seconds) if seconds > 0 else self._bell.get_nowait()
            while True:
                if heard is None:
                    look_again = True
                elif self._made_agenda is not None:  # nor is it made here: that asks the server
                    with self._lock:
                        self._made_agenda.hear(*heard)
                heard = self._bell.get_nowait()
        except queue.Empty:
            return look_again

    @property
    def _agenda(self) -> Agenda:
        if self._made_agenda is None:
            self._made_agenda = Agenda(self._topic.buckets)
        return self._made_agenda

    def _keep_membership(self) -> None:
        if not self._closed and self._topic.server.clock.now_ms() >= self._members.next_ms:
            own = self._members.refresh()
            if own != self._buckets:
                self._buckets = own
                self._agenda.assign(own)

    def _look(self) -> None:
        for bucket, seen in look(self._topic):
            if seen is None:
                self._put_off(bucket)
            else:
                self._agenda.learn(bucket, *seen)

    def _put_off(self, bucket: int) -> None:
        now_ms = self._topic.server.clock.now_ms()
        self._agenda.put_off(bucket, now_ms + LOOK_AGAIN * 1000)

    def _lease(self, limit: int, length_ms: int) -> Leases:
        """What is due in the buckets whose turn it is, as far as is known."""
        self._keep_membership()
        server, layout, leases = self._topic.server, self._topic.layout, Leases()
        most_attempts = self._topic.settings.most_attempts
        while len(leases) < limit:
            wave = self._agenda.choose(server.clock.now_ms(), limit - len(leases))
            if not wave:
                break
            calls = [
                (
                    layout.keys(bucket),
                    [self._written, min(portion, AT_ONCE), length_ms, most_attempts],
                )
                for bucket, portion in wave
            ]
            asked = time.monotonic()
            answers = server.run_each(LEASE, calls)
            refused = self._take(leases, wave, answers, ends_at(asked, length_ms))
            if refused is not None and not leases:
                raise refused
        return leases

    def _take(
        self, leases: Leases, wave: list[tuple[int, int]], answers: list[Any], ends: float
    ) -> TimelineError | None:
        """Takes in what was leased; the error, if there was none but errors."""
        refused = None
        for (bucket, _), answer in zip(wave, answers, strict=True):
            if isinstance(answer, TimelineError):
                refused = answer
                self._put_off(bucket)
                continue
            now_us, heads, more, blob, given_up = answer
            until, waiting, leased = _HEADS.unpack(heads)
            self._agenda.learn(bucket, waiting, leased, more)
            found = list(leases_of(blob, itertools.repeat(int(until)), itertools.repeat(ends)))
            leases += found
            if self._topic.watch_lateness and found:
                self._topic.tell_lateness(now_us, (lease.due for lease in found))
            if given_up:
                self._damped.log(
                    logging.WARNING,
                    "%s: %d messages were leased too often and are dead now",
                    *(self._topic.name, given_up),
                    extra={
                        "happening": "messages-dead",
                        "topic": self._topic.name,
                        "messages": given_up,
                    },
                )
        return refused
