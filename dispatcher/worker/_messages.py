"""State of a worker's messages: which wait, run or are being settled, and which leases to extend
when.

WAITING --begin--> RUNNING --end--> SETTLING --settled--> GONE
WAITING <--refused-- RUNNING --overdue--> OVERDUE --end--> SETTLING
WAITING --closed, abandoned, refused--> SETTLING
WAITING --lost, expired--> GONE

Leases are extended in all states but OVERDUE and GONE, so that a handler that hangs does not keep
its messages without end. Reads no clock and makes no calls. Thread-safe.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import math
import threading
from collections.abc import Iterable, Sequence

from dispatcher.timeline import Lease


class MessageState(enum.Enum):
    """The states in the diagram of this module."""

    WAITING = 1
    RUNNING = 2
    OVERDUE = 3
    SETTLING = 4
    GONE = 5


class Held:
    """A leased message and its state."""

    __slots__ = ("abandoned", "lease", "lost", "lot", "state")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.state = MessageState.WAITING
        self.lost = False
        """Whether the server has reported that the lease is lost."""
        self.abandoned = False
        """Whether it is not to begin any more: the Batcher or the worker has given it up."""
        self.lot: set[Held] = set()
        """The group with which it is extended. A message that is gone leaves it, so that no memory
        is leaked."""


class HandlerRun:
    """A call of the handler."""

    __slots__ = ("began", "held", "overdue")

    def __init__(self, held: list[Held], began: float) -> None:
        self.held = held
        self.began = began
        self.overdue = False


class Holds:
    """The messages of one worker. Leases are extended for `lease_time` seconds, after a third of
    it; a call of the handler may take `longest` seconds."""

    def __init__(self, lease_time: float, longest: float) -> None:
        self._lease_time = lease_time
        self._longest = longest
        self._change = threading.Condition()
        self._waiting: set[Held] = set()
        self._runs: set[HandlerRun] = set()
        self._overdue = 0
        self._settling = 0
        self._lots: list[tuple[float, int, set[Held]]] = []
        self._tie = itertools.count()
        self._stuck = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of messages that are leased and have not begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Number of running calls of the handler, without those that are overdue."""
        return len(self._runs) - self._overdue

    @property
    def overdue(self) -> int:
        """Number of calls of the handler that take longer than they may."""
        return self._overdue

    @property
    def settling(self) -> int:
        """Number of messages that are still to be deleted, given up or given back."""
        return self._settling

    @property
    def stuck(self) -> bool:
        """Whether a call of the handler was abandoned before it began, and none has begun or ended
        since."""
        return self._stuck

    @property
    def closed(self) -> bool:
        """Whether no call begins any more."""
        return self._closed

    def admit(self, leases: Iterable[Lease], now: float) -> list[Held]:
        """Add leased messages; none once it is closed."""
        held = [Held(lease) for lease in leases]
        with self._change:
            if self._closed:
                return []
            self._waiting.update(held)
            self._put(held, now + self._lease_time / 3)
        return held

    def begin(self, held: Sequence[Held], now: float, margin: float) -> HandlerRun | None:
        """Begin a call with the messages whose lease lives for at least `margin` seconds. The
        others are left: another worker has them, or will have them."""
        with self._change:
            self._stuck = False
            mine = [one for one in held if one.state is MessageState.WAITING]
            self._waiting.difference_update(mine)
            live = []
            for one in mine:
                if one.lost or one.lease.remaining <= margin:
                    self._go(one)
                else:
                    one.state = MessageState.RUNNING
                    live.append(one)
            if not live:
                return None
            run = HandlerRun(live, now)
            self._runs.add(run)
            return run

    def end(self, run: HandlerRun, refused: Iterable[Held] = ()) -> list[Held] | None:
        """End a call. Messages that were `refused` wait again. If they may not, since the worker is
        closed or they are abandoned, they are returned, to be given back. All other messages are to
        be settled. None if all were given back meanwhile: the result does not count any more."""
        with self._change:
            self._stuck = False
            if run not in self._runs:
                return None
            self._runs.remove(run)
            self._overdue -= run.overdue
            again = list(refused)
            barred = [one for one in again if self._closed or one.abandoned]
            wait = set(again).difference(barred)
            for one in wait:
                one.state = MessageState.WAITING
            self._waiting |= wait
            self._to_settle(one for one in run.held if one not in wait)
            self._change.notify_all()
            return barred

    def leave(self, held: Iterable[Held]) -> list[Held]:
        """Remove those of `held` that wait, to be settled: they do not begin any more."""
        with self._change:
            mine = [one for one in held if one.state is MessageState.WAITING]
            self._waiting.difference_update(mine)
            self._to_settle(mine)
            return mine

    def abandon(self, held: Sequence[Held]) -> list[Held]:
        """Note that the Batcher has abandoned a call, and will not raise its messages again:
        otherwise they would wait without end. Remove and return those whose call has not begun."""
        with self._change:
            for one in held:
                one.abandoned = True
            waited = self.leave(held)
            self._stuck = self._stuck or bool(waited)
            return waited

    def settled(self, held: Iterable[Held]) -> None:
        """Remove messages that are deleted or released, or whose settling was given up."""
        with self._change:
            for one in held:
                if one.state is MessageState.SETTLING:
                    self._settling -= 1
                self._go(one)

    def lost(self, held: Iterable[Held]) -> None:
        """Remove messages whose leases are lost, as the server has reported."""
        for one in held:
            one.lost = True

    def overrun(self, now: float) -> list[HandlerRun]:
        """Return the calls that have become overdue; their leases are not extended any more."""
        with self._change:
            found = [
                run for run in self._runs if not run.overdue and run.began + self._longest <= now
            ]
            for run in found:
                run.overdue = True
                self._overdue += 1
                for one in run.held:
                    one.state = MessageState.OVERDUE
            if found:
                self._change.notify_all()
            return found

    def to_extend(self, now: float) -> list[Held]:
        """Return the messages whose leases are to be extended now. Call `extended` afterwards."""
        with self._change:
            found: list[Held] = []
            while self._lots and self._lots[0][0] <= now:
                _, _, lot = heapq.heappop(self._lots)
                found += [one for one in lot if self._is_kept(one)]
            return found

    def extended(self, held: Iterable[Held], now: float, *, answered: bool = True) -> None:
        """Note that leases were extended at `now`; without an answer, that it is to be tried again
        soon."""
        wait = self._lease_time / 3 if answered else min(1.0, self._lease_time / 10)
        with self._change:
            self._put([one for one in held if self._is_kept(one)], now + wait)

    def next_look(self) -> float:
        """When there is a lease to extend or a call to find overdue."""
        with self._change:
            extend = self._lots[0][0] if self._lots else math.inf
            began = min((run.began for run in self._runs if not run.overdue), default=math.inf)
            return min(extend, began + self._longest)

    def withdraw(self) -> list[Held]:
        """Remove and return all waiting messages."""
        with self._change:
            waited = self.leave(list(self._waiting))
            for one in waited:
                one.abandoned = True
            return waited

    def close(self) -> list[Held]:
        """Let no call begin any more. Return the waiting messages, to be given back."""
        with self._change:
            self._closed = True
            return self.withdraw()

    def await_ended(self, timeout: float) -> list[Held]:
        """Wait until no call runs that is not overdue, for at most `timeout` seconds. Return the
        messages of the others, to be given back."""
        with self._change:
            self._change.wait_for(lambda: not self.running, timeout)
            left = [one for run in self._runs for one in run.held]
            self._runs.clear()
            self._overdue = 0
            self._to_settle(left)
            return left

    def _to_settle(self, held: Iterable[Held]) -> None:
        for one in held:
            one.state = MessageState.SETTLING
            self._settling += 1

    def _put(self, held: list[Held], at: float) -> None:
        if held:
            lot = set(held)
            for one in held:
                one.lot = lot
            heapq.heappush(self._lots, (at, next(self._tie), lot))

    @staticmethod
    def _go(one: Held) -> None:
        one.state = MessageState.GONE
        one.lot.discard(one)

    @staticmethod
    def _is_kept(one: Held) -> bool:
        return one.state not in (MessageState.OVERDUE, MessageState.GONE) and not one.lost
