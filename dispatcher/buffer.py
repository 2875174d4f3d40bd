"""The bounded waiting room's door: how operations get in, and who waits outside.

Every operation draws a *ticket*. Tickets below the `limit` are admitted; the limit grows by
one for every operation that leaves the buffer. So the bound is exact, whoever waits gets in
in the order of coming, and the ticket is at the same time the operation's age.

Producers take no lock on their way in: `next(tickets)` and `inbox.append` are single calls
into C. (A lock there costs a producer more than all the rest, and sixteen of them ten times
as much: each hand-over of a contended lock is a switch of threads.) The lock guards what
happens rarely: waiting, refusing, stopping.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence

from dispatcher.errors import BatcherStoppedError, BufferFullError
from dispatcher.operation import Operation, one_ticket, ticket_of
from dispatcher.watcher import Watcher

NEVER = -1
"""A limit and a threshold below every ticket: sends everybody through the slow door."""


class Chunk:
    """Plain operations of one watcher that came in together: they need no sorting."""

    __slots__ = ("_cost", "_watcher", "_where", "operations")

    _order = ()
    """Not None, so that one test tells a chunk from a plain operation."""

    def __init__(self, watcher: Watcher, operations: list[Operation], cost: float) -> None:
        self._watcher = watcher
        self.operations = operations
        self._cost = cost
        self._where = ticket_of(operations[-1])


class _Waiter:
    """Somebody outside. Once `admitted` is set the place is theirs."""

    __slots__ = ("admitted", "ticket", "wake")

    def __init__(self, ticket: int, wake: Callable[[], object]) -> None:
        self.ticket = ticket
        self.wake = wake
        self.admitted = False


class Buffer:
    """The door, and the inbox behind it. Thread-safe."""

    def __init__(self, size: int, ring: Callable[[], None]) -> None:
        self.size = size
        self.ring = ring
        """Wakes the engine."""
        self.tickets = itertools.count()
        self.limit = size
        """Tickets below it are admitted; NEVER once the buffer is closed."""
        self.ring_at: float = 0
        """The first ticket that must wake the engine; NEVER once the buffer is closed."""
        self.ceiling = math.inf
        """What costs more could never go out; it is refused at the door."""
        self.inbox: deque[Operation | Chunk] = deque()
        self.lock = threading.Lock()
        self.closed = False
        self.adopted = False
        """Whether a watcher became known since the engine looked last."""
        self._refused: set[int] = set()
        self._line: list[_Waiter] = []

    # What producers call, past the fast way in.

    def refuse(self, tickets: Sequence[int]) -> None:
        """Gives back tickets that were drawn and not used: they take no place."""
        with self.lock:
            if self.closed:
                return
            for ticket in tickets:
                if ticket < self.limit:
                    self._allow(1)
                else:
                    self._refused.add(ticket)
            self._let_in()

    def call(self) -> None:
        """Wakes the engine. Until it has looked, nobody else needs to."""
        with self.lock:
            if not self.closed:
                self.ring_at = math.inf
        self.ring()

    def wait_for_place(self, ticket: int, timeout: float | None) -> None:
        """Blocks until `ticket` is admitted. Raises if the buffer closes or time runs out."""
        gate = threading.Lock()
        gate.acquire()
        waiter = _Waiter(ticket, gate.release)
        if not self._line_up(waiter):
            return
        try:
            gate.acquire(timeout=-1 if timeout is None else timeout)
        finally:
            self._leave_line(waiter)
        self._check_admitted(waiter)

    async def wait_for_place_async(self, ticket: int, timeout: float | None) -> None:
        """The same, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        admitted = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(admitted.set)

        waiter = _Waiter(ticket, wake)
        if not self._line_up(waiter):
            return
        try:
            async with asyncio.timeout(timeout):
                await admitted.wait()
        except TimeoutError:
            pass
        finally:
            self._leave_line(waiter)
        self._check_admitted(waiter)

    def withdraw(self, items: Sequence[Operation | Chunk]) -> bool:
        """Takes `items`, put in together, out of a closed buffer, unless the engine took
        them before."""
        with self.lock:
            wanted = set(map(id, items))  # by identity: a class of the user's may define ==
            places = [at for at, one in enumerate(tuple(self.inbox)) if id(one) in wanted]
            for at in reversed(places):
                del self.inbox[at]
            return bool(places)

    # What the engine calls.

    def take_all(self) -> list[Operation | Chunk]:
        """What came in since the last time. The caller holds the lock."""
        next_ = self.inbox.popleft
        return [next_() for _ in range(len(self.inbox))]

    def arrived(self) -> tuple[float, int]:
        """The cost and the number of operations in the inbox. The caller holds the lock."""
        items = tuple(self.inbox)  # in one piece, while producers go on
        count = sum(len(i.operations) if isinstance(i, Chunk) else 1 for i in items)
        return sum(item._cost for item in items), count

    def leave(self, count: int) -> None:
        """`count` operations have left: as many others may come in."""
        with self.lock:
            if not self.closed:
                self._allow(count)
                self._let_in()

    def come_back(self, count: int) -> None:
        """`count` operations are back to be raised again; nobody refuses them."""
        with self.lock:
            if not self.closed:
                self.limit -= count

    def look_at(self, ticket: float) -> bool:
        """Asks to be woken by `ticket`, or when the last place is taken.

        False if that has come already, or a watcher the caller did not reckon with.
        """
        with self.lock:
            if self.adopted:
                self.adopted = False
                return False
            if self.closed:
                return True
            self.ring_at = min(ticket, self.limit - 1)
            # Whoever came before this line did not ring; whoever comes after it will.
            arrived = max(map(one_ticket, tuple(self.inbox)), default=NEVER)
            return arrived < self.ring_at

    def close(self) -> None:
        """Lets nobody in any more, and wakes all who wait."""
        with self.lock:
            self.closed = True
            self.limit = self.ring_at = NEVER
            line, self._line = self._line, []
        for waiter in line:
            waiter.wake()

    # The line outside.

    def _line_up(self, waiter: _Waiter) -> bool:
        with self.lock:
            if self.closed:
                raise BatcherStoppedError
            if waiter.ticket < self.limit:
                return False
            bisect.insort(self._line, waiter, key=lambda one: one.ticket)
        self.ring()
        return True

    def _leave_line(self, waiter: _Waiter) -> None:
        if waiter.admitted:
            return
        with self.lock:
            if waiter in self._line:
                self._line.remove(waiter)

    def _check_admitted(self, waiter: _Waiter) -> None:
        if waiter.admitted:
            return
        if self.closed:
            raise BatcherStoppedError
        raise BufferFullError(self.size)

    def _allow(self, count: int) -> None:
        if not self._refused:
            self.limit += count
            return
        for _ in range(count):
            self._skip_refused()
            self.limit += 1

    def _skip_refused(self) -> None:
        while self.limit in self._refused:
            self._refused.discard(self.limit)
            self.limit += 1

    def _let_in(self) -> None:
        self._skip_refused()
        while self._line and self._line[0].ticket < self.limit:
            waiter = self._line.pop(0)
            waiter.admitted = True
            waiter.wake()
