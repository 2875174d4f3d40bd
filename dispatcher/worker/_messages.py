"""What a worker holds: which messages wait, run, are being settled; whose lease to extend, when.

    WAITING --begin--> RUNNING --end--> SETTLING --settled--> GONE
    WAITING <--refused-- RUNNING --overdue--> OVERDUE --end--> SETTLING
    WAITING --closed, abandoned, refused--> SETTLING
    WAITING --lost, expired--> GONE

All but OVERDUE and GONE have their leases extended, so that a handler that never ends does not
hold its messages for ever. It reads no clock and talks to nobody. Thread-safe.
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
    """See the module."""

    WAITING = 1
    RUNNING = 2
    OVERDUE = 3
    SETTLING = 4
    GONE = 5


class Held:
    """A message that was leased."""

    __slots__ = ("abandoned", "lease", "lost", "lot", "state")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.state = MessageState.WAITING
        self.lost = False
        """Whether the server said that the lease is not ours any more."""
        self.abandoned = False
        """Whether it is not to begin any more: the Batcher has given it up, or we have."""
        self.lot: set[Held] = set()
        """With which others it is extended. What is gone leaves it, and so leaves no memory."""


class HandlerRun:
    """One call of the handler."""

    __slots__ = ("began", "held", "overdue")

    def __init__(self, held: list[Held], began: float) -> None:
        self.held = held
        self.began = began
        self.overdue = False


class Holds:
    """See the module. `lease_time` is how long leases are extended for, at a third of it;
    `longest` how long a handler may take."""

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
        """How many messages are leased and have not begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many calls of the handler run, those that are overdue left out."""
        return len(self._runs) - self._overdue

    @property
    def overdue(self) -> int:
        """How many calls of the handler take longer than they may."""
        return self._overdue

    @property
    def settling(self) -> int:
        """How many messages are to be deleted, buried or given back, and are not yet."""
        return self._settling

    @property
    def stuck(self) -> bool:
        """Whether a call of the handler was abandoned before it began, and none has begun or ended
        since."""
        return self._stuck

    @property
    def closed(self) -> bool:
        """Whether nothing begins any more."""
        return self._closed

    def admit(self, leases: Iterable[Lease], now: float) -> list[Held]:
        """Takes in what was leased; none once it is closed."""
        held = [Held(lease) for lease in leases]
        with self._change:
            if self._closed:
                return []
            self._waiting.update(held)
            self._put(held, now + self._lease_time / 3)
        return held

    def begin(self, held: Sequence[Held], now: float, margin: float) -> HandlerRun | None:
        """A call of the handler begins with those whose lease lives for at least `margin`. The
        others are left: somebody else has them, or will."""
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
        """The handler returned. Those that were `refused` wait again, or are told if they may
        not, since it is closed or they are abandoned: those are to be given back. All but those
        that wait are being settled. None: all were given back meanwhile, and are nothing of
        ours."""
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
        """Those of `held` that waited, taken out, to be settled: they do not begin any more."""
        with self._change:
            mine = [one for one in held if one.state is MessageState.WAITING]
            self._waiting.difference_update(mine)
            self._to_settle(mine)
            return mine

    def abandon(self, held: Sequence[Held]) -> list[Held]:
        """The Batcher waits for their call no longer, and will not raise them again: whatever
        still waited would do so for ever. Those whose call has not even begun, taken out."""
        with self._change:
            for one in held:
                one.abandoned = True
            waited = self.leave(held)
            self._stuck = self._stuck or bool(waited)
            return waited

    def settled(self, held: Iterable[Held]) -> None:
        """They are deleted or released, or it was given up."""
        with self._change:
            for one in held:
                if one.state is MessageState.SETTLING:
                    self._settling -= 1
                self._go(one)

    def lost(self, held: Iterable[Held]) -> None:
        """The server says that their leases are gone."""
        for one in held:
            one.lost = True

    def overrun(self, now: float) -> list[HandlerRun]:
        """The calls that have become overdue; their leases are not extended any more."""
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
        """Those whose leases are to be extended now. `extended` says when it was done."""
        with self._change:
            found: list[Held] = []
            while self._lots and self._lots[0][0] <= now:
                _, _, lot = heapq.heappop(self._lots)
                found += [one for one in lot if self._is_kept(one)]
            return found

    def extended(self, held: Iterable[Held], now: float, *, answered: bool = True) -> None:
        """They were extended, at `now`; or there was no answer, and they are tried again soon."""
        wait = self._lease_time / 3 if answered else min(1.0, self._lease_time / 10)
        with self._change:
            self._put([one for one in held if self._is_kept(one)], now + wait)

    def next_look(self) -> float:
        """When there is something to extend or to find overdue."""
        with self._change:
            extend = self._lots[0][0] if self._lots else math.inf
            began = min((run.began for run in self._runs if not run.overdue), default=math.inf)
            return min(extend, began + self._longest)

    def withdraw(self) -> list[Held]:
        """All that waited, taken out."""
        with self._change:
            waited = self.leave(list(self._waiting))
            for one in waited:
                one.abandoned = True
            return waited

    def close(self) -> list[Held]:
        """Nothing begins any more. What waited, to be given back."""
        with self._change:
            self._closed = True
            return self.withdraw()

    def await_ended(self, timeout: float) -> list[Held]:
        """Waits until no call of the handler runs that is not overdue, and for so long at most.
        What has not ended is not ours any more, and is to be given back."""
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
