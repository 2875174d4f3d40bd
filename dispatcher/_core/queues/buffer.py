"""The bounded buffer: how operations get in, and which callers wait outside.

A caller prepares in private and then publishes by one step: `inbox.append`. Before that step
nothing has happened; after it the engine owns the operation, whatever becomes of the caller.
Only the engine takes operations out of the inbox, oldest first and at most as many as there is
`room` for. What is published beyond the room is outside, in order of arrival: its caller
waits until the engine has taken it, or withdraws it.

Callers take no lock here, neither on the fast way in nor when they wait. (A lock there costs a
producer more than all the rest. An exception that a signal handler raises could leave the lock
held, and a handler that calls stop() would wait for a thread that waits for the lock.) In its
place each side relies on CPython's interpreter lock: a single call into C is one step, and
CPython switches threads and runs signal handlers only after a call, at a jump back or on entering
a function, so a test and the assignment that follows it are one step as well. See
`_interpreter.py`. What several threads change is copied by `list`, which is one step. (`tuple` is
not: it allocates after it has made its iterator, so that the garbage collector may run finalizers
in between, and with them other threads.)

A *claim* says where an operation is before the engine has taken it: `operation._where` is the
Buffer, or the Chunk, through which it came. The engine takes each claim once. A claim that was
made by a call that did not publish is void, and the next `enqueue` finds that out (`holds`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Set

from dispatcher._core.changing import Changing
from dispatcher._core.queues.chunk import Chunk, ChunkRun
from dispatcher.errors import BatcherStoppedError, BufferFullError
from dispatcher.operation import Claim, Operation, cost_of
from limiters._costs import AnyCost
from limiters._support.float_error import ALL_BUT_ERROR

NEVER = -1
"""A threshold or a cost below all others: it sends every caller the slow way."""


class WaitingCaller:
    """A caller whose operations are outside."""

    __slots__ = ("admitted", "inside", "item", "refused", "wake")

    def __init__(self, item: Operation | Chunk, inside: object, wake: Callable[[], object]) -> None:
        self.item = item
        self.inside = inside
        """The callback that made the call, a value of CURRENT."""
        self.wake = wake
        self.admitted = False
        """Whether the engine has let all of its operations in."""
        self.refused = False
        """Whether the engine found that this caller would wait for itself."""


class Buffer(Claim):
    """The bounded inbox. Any thread may call the methods up to `adopt`; `take` and those below it
    are for the engine's thread."""

    def __init__(self, size: int, ring: Callable[[], None]) -> None:
        self.size = size
        self.ring = ring
        """This function wakes the engine."""
        self.inbox: deque[Operation | Chunk] = deque()
        self.room = size
        """How many operations of the inbox the engine may take. It is fixed once the buffer is
        closed."""
        self.ring_at: float = 0
        """The length of the inbox from which a producer goes the slow way: to wake the engine, or
        to wait. NEVER once the buffer is closed, and while the engine changes the room."""
        self.ceiling = math.inf
        """Operations that cost more are checked before they come in: they may cost too much to be
        sent. Costs in dimensions are more than any number. NEVER once the buffer is closed."""
        self.closed = False
        self.ended = False
        """Whether no operation will be taken any more."""
        self.left_behind = False
        """Whether this is a copy in a forked child."""
        self.adopted = False
        """Whether a watcher was registered since the engine last looked."""
        self.line: dict[int, WaitingCaller] = {}
        """The callers outside, in order of arrival."""
        self._wake_at: float = 0
        """How many operations in the inbox wake the engine."""
        self._quiet_at: float = 0
        """The value of `ring_at` after the engine was woken: then only callers that have to wait go
        the slow way."""
        self._chunks = False
        """Whether there may be chunks in the inbox, which count for more than one."""
        self._debt = 0
        """Operations that came back although others had been given their places."""
        self.changing = Changing()
        """Marks changes of the inbox and the room together."""

    # Methods for callers.

    def has(self, item: Operation | Chunk) -> bool:
        """Whether `item` is in the inbox, for the engine to take."""
        return not self.ended and any(one is item for one in list(self.inbox))

    def holds(self, operation: Operation) -> bool:
        """Whether `operation`, which has a claim on this buffer, was published."""
        return self.has(operation)

    def announce(self) -> None:
        """Note that a chunk will be published."""
        self._chunks = True

    def settle(
        self, item: Operation | Chunk, timeout: float | None, inside: object, *, full: bool
    ) -> None:
        """Handle `item`, which was just published: wake the engine if necessary, and wait while it
        is outside. `full`: it is a full batch by itself."""
        self.notice(item, full=full)
        if self.beyond(item):
            self.wait(item, timeout, inside)

    def interrupted(self, item: Operation | Chunk) -> int:
        """Handle an exception that may have come before `item` was published, before the engine was
        woken, or while `item` was outside. Withdraw it, unless it is accepted. Return how many
        operations of a chunk are accepted."""
        self.ring()
        if not isinstance(item, Chunk):
            self.withdraw(item)
            published = self.has(item)
            if item._where is self and not published:
                item._where = None
            return 0
        if not self.has(item):
            return item.shorten(item.taken)
        self.withdraw(item)
        return item.end

    def notice(self, item: Operation | Chunk, *, full: bool) -> None:
        """Wake the engine, if `item` is a reason to."""
        if isinstance(item, Chunk):
            self._chunks = True
            more = len(item.operations) - 1
            self.ring_at -= more
            self._quiet_at -= more
        if full or len(self.inbox) + self._surplus() >= self._wake_at:
            # In this order: the engine may set these at the same time, and sets them again after it
            # was woken.
            self._wake_at = math.inf
            self.ring_at = self._quiet_at
            self.ring()

    def beyond(self, item: Operation | Chunk) -> int:
        """Return how many operations of `item` are outside."""
        version = self.changing.version
        fits = not self._chunks and len(self.inbox) <= self.room
        if fits and version == self.changing.version and not version & 1:
            return 0
        return self.changing.look(lambda: self._beyond(item))

    def _beyond(self, item: Operation | Chunk) -> int:
        """Count from the end of the inbox, where the items of waiting callers are. Operations that
        were withdrawn and are still in the inbox count until the engine clears them away."""
        items = list(self.inbox)
        up_to = len(items) + self._surplus()
        for one in reversed(items):
            if one is item:
                return max(0, min(self._count(item), up_to - self.room))
            up_to -= self._count(one) if isinstance(one, Chunk) else 1
        return 0

    def wait(self, item: Operation | Chunk, timeout: float | None, inside: object) -> None:
        """Block until all of `item` is inside. If the buffer closes or the time runs out, withdraw
        what is outside and raise an error."""
        gate: queue.SimpleQueue[None] = queue.SimpleQueue()
        waiting = WaitingCaller(item, inside, lambda: gate.put(None))
        deadline = None if timeout is None else time.monotonic() + timeout
        withdrawn = 0
        try:
            self._line_up(waiting)
            while self._outside(waiting):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                with contextlib.suppress(queue.Empty):
                    gate.get(timeout=left and min(left, threading.TIMEOUT_MAX))
        finally:
            withdrawn = self._leave_line(waiting)
        self._judge(item, withdrawn)

    async def wait_async(
        self, item: Operation | Chunk, timeout: float | None, inside: object
    ) -> None:
        """Wait like `wait`, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        gate = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nothing waits there
                loop.call_soon_threadsafe(gate.set)

        waiting = WaitingCaller(item, inside, wake)
        withdrawn = 0
        try:
            self._line_up(waiting)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while self._outside(waiting):
                        await gate.wait()
                        gate.clear()
        finally:
            withdrawn = self._leave_line(waiting)
        self._judge(item, withdrawn)

    def close(self) -> None:
        """Let no more operations in, and wake all callers that wait. Idempotent."""
        self.closed = True
        self.ceiling = self._quiet_at = self.ring_at = NEVER
        for waiting in list(self.line.values()):
            waiting.wake()

    def _line_up(self, waiting: WaitingCaller) -> None:
        self.line[id(waiting)] = waiting
        self.ring()

    def _outside(self, waiting: WaitingCaller) -> bool:
        if waiting.admitted or waiting.refused or self.closed:
            return False
        return bool(self.beyond(waiting.item))

    def _leave_line(self, waiting: WaitingCaller) -> int:
        """Withdraw the operations that are outside, and return their number."""
        try:
            return 0 if waiting.admitted else self.withdraw(waiting.item)
        finally:
            self.line.pop(id(waiting), None)

    def withdraw(self, item: Operation | Chunk) -> int:
        """Withdraw the operations of `item` that are outside, and return their number."""
        outside = self.beyond(item)
        if not outside:
            return 0
        if isinstance(item, Chunk):
            whole = len(item.operations)
            outside = whole - item.shorten(item.end - outside)
            if outside < whole:
                return outside
        elif item._where is self:
            item._where = None
        else:
            return 0
        self._clear_away(item)
        return outside

    def recall(self, chunk: Chunk) -> bool:
        """Withdraw all of `chunk` and return True, unless the engine has taken some of it."""
        if not chunk.recall():
            return False
        self._clear_away(chunk)
        return True

    def _clear_away(self, item: Operation | Chunk) -> None:
        inbox = self.inbox
        if inbox and inbox[-1] is item:
            inbox.pop()
        else:
            self.ring()  # the engine clears it away

    def _judge(self, item: Operation | Chunk, withdrawn: int) -> None:
        if not withdrawn:
            return
        accepted = item.end if isinstance(item, Chunk) else 0
        if self.closed:
            raise BatcherStoppedError(accepted)
        raise BufferFullError(self.size, accepted)

    def _count(self, item: Operation | Chunk) -> int:
        if isinstance(item, Chunk):
            return item.end - item.taken
        return 1 if item._where is self else 0

    def _surplus(self) -> int:
        """Return how many more operations than items are in the inbox."""
        if not self._chunks:
            return 0
        return sum(self._count(one) - 1 for one in list(self.inbox) if isinstance(one, Chunk))

    def arrived(self) -> tuple[AnyCost, int]:
        """Return the cost and the number of the accepted operations in the inbox."""
        return self.changing.look(self._arrived)

    def _arrived(self) -> tuple[AnyCost, int]:
        room = self.room
        cost: AnyCost = 0
        count = 0
        for one in list(self.inbox):
            if count >= room:
                break
            if isinstance(one, Chunk):
                piece = one.operations[one.taken : min(one.end, one.taken + room - count)]
                cost += cost_of(piece)
                count += len(piece)
            elif one._where is self:
                cost += one._cost
                count += 1
        return cost, count

    def adopt(self, full: float) -> None:
        """Note that a watcher was registered whose batches are full with `full` operations."""
        wake_at = len(self.inbox) + self._surplus() + full
        self.adopted = True  # first: the engine reads it after it has set the other two
        if wake_at < self._wake_at:
            self._wake_at = wake_at
        if wake_at < self.ring_at:
            self.ring_at = wake_at

    # Methods for the engine.

    def take(self) -> list[ChunkRun]:
        """Take out the operations that came in, in order, as far as there is room."""
        inbox = self.inbox
        runs: list[ChunkRun] = []
        if inbox:
            self._begin_change()
            try:
                popleft = inbox.popleft
                chunks, self._chunks = self._chunks, False
                items = [popleft() for _ in range(len(inbox))]
                chunks = chunks or self._chunks  # it is announced before it is published
                if chunks:
                    runs = self._within_room(items)
                else:
                    room = max(0, self.room)
                    if len(items) > room:
                        self._put_back(items[room:])
                        del items[room:]
                    self.room -= len(items)
                    runs = [ChunkRun(self, items, plain=False)]  # type: ignore[arg-type]  # no Chunk
            finally:
                self._end_change()
        if self.line:
            self._let_in()
        return runs

    def leave(self, count: int) -> None:
        """Note that `count` operations have left: as many others may come in."""
        if self.closed:
            return
        paid = min(self._debt, count)
        self._debt -= paid
        self.room += count - paid
        self._aim()
        if self.line:
            self._let_in()

    def come_back(self, count: int) -> None:
        """Note that `count` operations are back to be raised again. They are not refused, and
        neither are those accepted in their place."""
        if self.closed:
            return
        self._begin_change()
        accepted = len(self.inbox) + self._surplus()
        free = max(0, self.room - accepted)
        self._debt += max(0, count - free)
        self.room -= min(count, free)
        self._end_change()

    def look_at(self, missing: float) -> bool:
        """Ask to be woken by the `missing`-th operation to come, or by the one that takes the last
        place.

        Return False if that operation has come already, or if a watcher was registered meanwhile.
        """
        if self.closed:
            return True
        if self.line and self.room > 0:
            return False
        self._wake_at = min(missing, self.room) if self.room > 0 else math.inf
        self._aim()
        # Operations that came before these lines did not wake the engine; later ones will.
        adopted, self.adopted = self.adopted, False
        return not adopted and len(self.inbox) + self._surplus() < self._wake_at

    @property
    def holds_more(self) -> bool:
        """Whether there is something to take, now or later."""
        return bool(self.inbox) and not (self.closed and self.room <= 0)

    def callbacks_outside(self) -> set[object]:
        """Return the callbacks, as values of CURRENT, that are waiting in the line."""
        return {waiting.inside for waiting in list(self.line.values())}

    def refuse(self, callbacks: Set[object]) -> None:
        """Refuse those in the line whose call was made by one of `callbacks`."""
        for waiting in list(self.line.values()):
            if waiting.inside in callbacks:
                waiting.refused = True
                waiting.wake()

    def admit_up_to(self, cost: float) -> None:
        """Let operations in without a closer look up to this cost; the float error of sums is
        tolerated."""
        if not self.closed:
            self.ceiling = cost / ALL_BUT_ERROR

    def end(self) -> None:
        """Note that no operation will be taken any more."""
        self.close()
        self.ended = True

    def leave_behind(self) -> None:
        """Note that this is a copy in a forked child: its engine is in the parent."""
        self.left_behind = True
        self.end()

    def _within_room(self, items: list[Operation | Chunk]) -> list[ChunkRun]:
        runs: list[ChunkRun] = []
        single: list[Operation] = []
        for index, one in enumerate(items):
            if not self._count(one):
                continue  # withdrawn
            if self.room <= 0:
                self._put_back(items[index:])
                break
            if isinstance(one, Chunk):
                run = one.take(self.room)
                runs.append(run)
                self.room -= len(run.operations)
                if one.taken < one.end:
                    self._put_back(items[index:])
                    break
                single = []
            else:
                if not single:
                    runs.append(ChunkRun(self, single, plain=False))
                single.append(one)
                self.room -= 1
        return runs

    def _put_back(self, items: list[Operation | Chunk]) -> None:
        left = [one for one in items if self._count(one)]
        self.inbox.extendleft(reversed(left))
        self._chunks = self._chunks or any(isinstance(one, Chunk) for one in left)

    def _let_in(self) -> None:
        """Wake the callers in the line whose operations are all inside now."""
        line = list(self.line.values())
        items = list(self.inbox)  # in this order: a caller publishes before it lines up
        up_to = len(items) + self._surplus()
        outside = set()
        for one in reversed(items):
            if up_to <= self.room:
                break
            outside.add(id(one))
            up_to -= self._count(one) if isinstance(one, Chunk) else 1
        for waiting in line:
            if id(waiting.item) not in outside:
                waiting.admitted = True
                self.line.pop(id(waiting), None)
                waiting.wake()

    def _begin_change(self) -> None:
        self.changing.__enter__()
        self._quiet_at = self.ring_at = NEVER

    def _end_change(self) -> None:
        self.changing.__exit__()
        self._aim()

    def _aim(self) -> None:
        """Set the lengths of the inbox from which producers go the slow way."""
        while not self.closed:
            surplus = self._surplus()
            self._quiet_at = self.room + 1 - surplus
            self.ring_at = min(self._wake_at, self.room + 1) - surplus
            if surplus == self._surplus():  # otherwise a chunk has come meanwhile
                return
