"""What one `enqueue_many` publishes, and what the engine takes of it. See `buffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatcher.operation import Claim, Operation

if TYPE_CHECKING:
    from dispatcher._core.queues.buffer import Buffer


class Chunk(Claim):
    """What one `enqueue_many` publishes. The engine takes it from the front, piece by piece;
    the caller may shorten it at the end."""

    __slots__ = ("buffer", "end", "operations", "plain", "taken")

    _where = None
    """No operation's: one test tells a chunk from an operation that is published by itself."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.operations: list[Operation] = []
        self.plain = True
        """Whether all are batchable, of one watcher, and without key and priority."""
        self.taken = 0
        self.end = 0

    def holds(self, operation: Operation) -> bool:
        """Whether it was published, and not yet taken or withdrawn."""
        if not self.buffer.has(self):
            return False
        return any(one is operation for one in self.operations[self.taken : self.end])

    def take(self, most: int) -> ChunkRun:
        """For the engine: at most `most` of what is left."""
        start = self.taken
        end = start + most
        if end > self.end:  # one step with the next line: the caller may shorten it meanwhile
            end = self.end
        self.taken = end
        whole = end - start == len(self.operations)
        return ChunkRun(self, self.operations if whole else self.operations[start:end], self.plain)

    def shorten(self, end: int) -> int:
        """Withdraws what lies behind `end` and was not taken; how many are accepted."""
        if end < self.taken:
            end = self.taken
        if end < self.end:
            self.end = end
        self._let_go(self.end)
        return self.end

    def recall(self) -> bool:
        """Withdraws all of it, unless the engine has taken some."""
        if not self.taken:
            self.end = 0
        if self.end:
            return False
        self._let_go(0)
        return True

    def _let_go(self, start: int) -> None:
        for operation in self.operations[start:]:
            # Among those that were not checked there may be anything.
            if getattr(operation, "_where", None) is self:
                operation._where = None


class ChunkRun:
    """Operations with the same claim that the engine takes one after the other. It has to look at
    each claim: the caller may withdraw one in that very moment, and of two calls that enqueue one
    operation only one has it."""

    __slots__ = ("claim", "operations", "plain")

    def __init__(self, claim: Claim, operations: list[Operation], plain: bool) -> None:
        self.claim = claim
        self.operations = operations
        self.plain = plain
        """Whether all are batchable, of one watcher, and without key and priority."""
