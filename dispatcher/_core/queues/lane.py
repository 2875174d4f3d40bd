"""A Lane: the waiting operations of one watcher, in the order in which they have to be sent.

Law B1 is kept here: operations of one key leave in the order in which they came, and none leaves
while a batch with its key is in flight, or rests before it is retried. Only the first waiting
operation of a key is ever ready; the others wait in the key's `Line`.

A key is the user's object, and `==` of two keys is the user's code. It runs in one place,
`_line_for`, before anything is changed: a key that cannot be compared keeps its own operation out
and no other. After that an operation is identified by its line.

Not thread-safe: one engine owns it.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from dispatcher._core.queues.batch import OperationBatch
from dispatcher.operation import Operation, Order, cost_of, one_cost, ticket_of
from dispatcher.watcher import Watcher
from limiters._costs import AnyCost

Rank = tuple[int, int]
"""The order of sending: the negative priority, then the ticket."""

_ties = itertools.count()


class _Entry:
    """A place in the lane's heap. An entry whose operation was taken away is skipped."""

    __slots__ = ("operation", "rank", "tie")

    def __init__(self, operation: Operation) -> None:
        self.operation: Operation | None = operation
        self.rank = rank_of(operation)
        self.tie = next(_ties)

    def __lt__(self, other: _Entry) -> bool:
        return (self.rank, self.tie) < (other.rank, other.tie)


class Line:
    """The operations of one key: the batch that holds it, its ready head, and those behind."""

    __slots__ = ("entry", "followers", "hash", "holder", "key", "other")

    def __init__(self, order: Order) -> None:
        self.key = order.key
        self.hash = order.hash
        self.other: Line | None = None
        """The next line whose key has the same hash."""
        self.holder: OperationBatch | None = None
        self.entry: _Entry | None = None
        self.followers: deque[Operation] | None = None

    def follow(self, operation: Operation) -> None:
        if self.followers is None:
            self.followers = deque()
        self.followers.append(operation)

    def follow_first(self, operation: Operation) -> None:
        if self.followers is None:
            self.followers = deque()
        self.followers.appendleft(operation)


def rank_of(operation: Operation) -> Rank:
    """Return the rank that `operation` has by its own priority and ticket."""
    order = operation._order
    return -order.priority if order else 0, ticket_of(operation)


def line_of(operation: Operation) -> Line | None:
    """Return the line of the operation's key, if it has one and was admitted."""
    return operation._order.line if operation._order else None


def _chain(line: Line | None) -> Iterator[Line]:
    """Iterate over `line` and the others whose keys have the same hash."""
    while line is not None:
        yield line
        line = line.other


class Lane:
    """Three sources: `plain` (batchable, no key, no priority), `singles` (no key, no priority,
    alone in their batch) and a heap of all other operations that are ready. The first two make the
    common case fast; the order is by rank over all three."""

    def __init__(self, watcher: Watcher, batch_cost: AnyCost = 0, *, free: bool = False) -> None:
        self.watcher = watcher
        self.batch_cost = batch_cost
        """The cost of a batch in addition to its operations, in the form of the limiter."""
        self.terms = watcher._terms
        self.on_loop = self.terms.on_batch.on_loop
        """Whether its batches are raised on the event loop, rather than on threads."""
        self.free = free
        """Whether it holds operations that cost nothing and so need no budget."""
        self.full = self.terms.max_batch_size or math.inf
        self.plain: deque[Operation] = deque()
        self.singles: deque[Operation] = deque()
        self.open: OperationBatch | None = None
        """The batch the planner is filling; None outside of planning."""
        self.queued: tuple[Rank, int, Lane] | None = None
        """Its place in a LaneQueue."""
        self.away = 0
        """Operations raised, resting before a retry, or being handed over as failed."""
        self._heap: list[_Entry] = []
        self._ready = 0
        self._batchable = 0
        """How many of the ready operations in the heap may share a batch."""
        self._lines: dict[int, Line] = {}
        """The lines, by the hash of their keys."""
        self._followers = 0
        self._promoted: list[Line] = []

    def __len__(self) -> int:
        return len(self.plain) + len(self.singles) + self._ready + self._followers

    @property
    def missing(self) -> float:
        """How many more batchable operations make a full batch."""
        return self.full - len(self.plain) - self._batchable

    @property
    def batches(self) -> float:
        """How many batches the waiting operations would make, if all could be sent and each batch
        were full."""
        alone = len(self.singles) + self._ready - self._batchable
        return alone - (-(len(self) - alone) // self.full)

    @property
    def idle(self) -> bool:
        """Whether all of its accepted operations have ended."""
        return not self.away and not len(self)

    @property
    def forgettable(self) -> bool:
        """Whether there is nothing to remember: no batch, not even an abandoned one, still holds
        keys."""
        return not (self.away or len(self) or self._lines)

    def admit(self, operation: Operation) -> None:
        """Give a newly enqueued operation its place."""
        order = operation._order
        if order is None:
            (self.plain if operation._batchable else self.singles).append(operation)
        elif order.key is None:
            self._push(operation)
        else:
            order.line = self._line_for(order)
            self._line_up(order.line, operation)

    def put_back(self, operations: list[Operation]) -> None:
        """Let operations that were raised wait again, at the front of their key."""
        for operation in operations:
            if line_of(operation) is None:
                self._push(operation)
        lines: dict[Line, None] = {}
        for operation in reversed(operations):
            if (line := line_of(operation)) is not None:
                lines[line] = None
                line.follow_first(operation)
                self._followers += 1
        for line in lines:
            self._let_go(line)

    def release(self, lines: Iterable[Line]) -> None:
        """Release the keys of a batch that is over: the next operation of each is ready."""
        for line in lines:
            self._let_go(line)

    def head(self, *, batchable: bool = True, single: bool = True) -> Operation | None:
        """Return the operation that is next among those of the requested kinds."""
        best = self.plain[0] if batchable and self.plain else None
        if single and self.singles and (best is None or rank_of(self.singles[0]) < rank_of(best)):
            best = self.singles[0]
        heap = self._heap
        while heap and heap[0].operation is None:
            heapq.heappop(heap)
        if heap:
            first = heap[0].operation
            assert first is not None
            wanted = batchable if first._batchable else single
            if wanted and (best is None or heap[0].rank < rank_of(best)):
                best = first
        return best

    def ripe(self, due: float) -> bool:
        """Whether a batch may be cut: it is full, or an operation at its front is due."""
        if self.missing <= 0 or (self.plain and ticket_of(self.plain[0]) <= due):
            return True
        head = self.head(single=False)
        return head is not None and ticket_of(head) <= due

    def next_costs(self) -> Iterator[AnyCost]:
        """Return the costs, one by one, of the operations that wait already for the next batch."""
        room = int(min(self.full, len(self.plain) + len(self._heap)))
        ready = (entry.operation for entry in self._heap[:room] if entry.operation)
        entries = (operation._cost for operation in ready if operation._batchable)
        costs = itertools.chain(map(one_cost, itertools.islice(self.plain, room)), entries)
        return itertools.islice(costs, room)

    def take(self, operation: Operation, batch: OperationBatch) -> None:
        """Move the head, as returned by `head`, into `batch`."""
        batch.operations.append(operation)
        batch.cost += operation._cost
        batch.sequence = min(batch.sequence, ticket_of(operation))
        for source in (self.plain, self.singles):
            if source and source[0] is operation:
                source.popleft()
                return
        entry = heapq.heappop(self._heap)
        assert entry.operation is operation
        self._count_ready(operation, -1)
        line = line_of(operation)
        if line is None:
            return
        line.entry = None
        if line.holder is not batch:
            line.holder = batch
            batch.lines.append(line)
        if batch is self.open and line.followers and line.followers[0]._batchable:
            # The next operation of the key may join the same batch, and no other.
            self._promote(line)
            self._promoted.append(line)

    @property
    def only_plain(self) -> bool:
        """Whether the next operations all come from `plain`."""
        return not self._heap and not self.singles

    def close(self) -> None:
        """Close the open batch; followers that it made ready wait again."""
        self.open = None
        for line in self._promoted:
            if line.entry is not None and line.entry.operation is not None:
                line.follow_first(line.entry.operation)
                self._followers += 1
                self._count_ready(line.entry.operation, -1)
                line.entry.operation = None
                line.entry = None
        self._promoted.clear()

    def stuck_cost(self) -> AnyCost:
        """Return the cost of operations behind held keys, which could not be raised with any
        budget."""
        held = (line for line in self._all_lines() if line.holder and line.followers)
        return cost_of(one for line in held for one in line.followers or ())

    def withdraw(self, keep: Callable[[Operation], bool] | None = None) -> list[Operation]:
        """Take out, in no order, all waiting operations except those to be kept."""
        entries = [e.operation for e in self._heap if e.operation]
        behind = [o for line in self._all_lines() for o in line.followers or ()]
        waiting = [*self.plain, *self.singles, *entries, *behind]
        kept = [] if keep is None else [one for one in waiting if keep(one)]
        if len(kept) == len(waiting):
            return []
        self._keep(kept)
        keeps = set(map(id, kept))
        return [one for one in waiting if id(one) not in keeps]

    def _keep(self, operations: list[Operation]) -> None:
        self.plain.clear()
        self.singles.clear()
        self._heap.clear()
        self._ready = self._batchable = self._followers = 0
        for line in list(self._all_lines()):
            line.entry = line.followers = None
        for operation in sorted(operations, key=ticket_of):
            if (own := line_of(operation)) is None:
                self.admit(operation)
            else:
                self._line_up(own, operation)
        for line in list(self._all_lines()):
            if line.entry is None and line.holder is None:
                self._forget(line)

    def _line_for(self, order: Order) -> Line:
        """Return the line of the key of `order`, a new one if there is none. Raise what `==`
        raises."""
        first = self._lines.get(order.hash)
        line = first
        while line is not None:
            if line.key is order.key or line.key == order.key:
                return line
            line = line.other
        new = self._lines[order.hash] = Line(order)
        new.other = first
        return new

    def _line_up(self, line: Line, operation: Operation) -> None:
        if line.entry is None and line.holder is None:
            line.entry = self._push(operation)
        else:
            line.follow(operation)
            self._followers += 1

    def _all_lines(self) -> Iterator[Line]:
        for first in self._lines.values():
            yield from _chain(first)

    def _let_go(self, line: Line) -> None:
        line.holder = None
        if line.followers:
            self._promote(line)
        elif line.entry is None:
            self._forget(line)

    def _forget(self, line: Line) -> None:
        first = self._lines[line.hash]
        if first is not line:
            before = next(one for one in _chain(first) if one.other is line)
            before.other = line.other
        elif line.other is not None:
            self._lines[line.hash] = line.other
        else:
            del self._lines[line.hash]

    def _promote(self, line: Line) -> None:
        assert line.followers
        self._followers -= 1
        line.entry = self._push(line.followers.popleft())

    def _push(self, operation: Operation) -> _Entry:
        entry = _Entry(operation)
        heapq.heappush(self._heap, entry)
        self._count_ready(operation, 1)
        return entry

    def _count_ready(self, operation: Operation, change: int) -> None:
        self._ready += change
        if operation._batchable:
            self._batchable += change
