"""The operations that one `enqueue_many` publishes, and the parts that the engine takes. See
`buffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatcher.operation import Claim, Operation

if TYPE_CHECKING:
    from dispatcher._core.queues.buffer import Buffer


class Chunk(Claim):
    """The operations that one `enqueue_many` publishes. The engine takes them from the front, part
    by part; the caller may shorten the chunk at the end."""

    __slots__ = ("buffer", "end", "operations", "plain", "taken")

    _where = None
    """A single operation in the inbox has a claim here: one test distinguishes it from a chunk."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.operations: list[Operation] = []
        self.plain = True
        """Whether all are batchable, of one watcher, and without key and priority."""
        self.taken = 0
        self.end = 0

    def holds(self, operation: Operation) -> bool:
        """Whether `operation` was published, and has not been taken or withdrawn yet."""
        if not self.buffer.has(self):
            return False
        return any(one is operation for one in self.operations[self.taken : self.end])

    def take(self, most: int) -> ChunkRun:
        """Take at most `most` of the operations that are left. For the engine."""
        start = self.taken
        end = start + most
        if end > self.end:  # one step with the next line: the caller may shorten it meanwhile
            end = self.end
        self.taken = end
        whole = end - start == len(self.operations)
        return ChunkRun(self, self.operations if whole else self.operations[start:end], self.plain)

    def shorten(self, end: int) -> int:
        """Withdraw the operations behind `end` that were not taken. Return how many are
        accepted."""
        if end < self.taken:
            end = self.taken
        if end < self.end:
            self.end = end
        self._let_go(self.end)
        return self.end

    def recall(self) -> bool:
        """Withdraw all operations and return True, unless the engine has taken some."""
        if not self.taken:
            self.end = 0
        if self.end:
            return False
        self._let_go(0)
        return True

    def _let_go(self, start: int) -> None:
        for operation in self.operations[start:]:
            # Objects that were not checked may be of any kind.
            if getattr(operation, "_where", None) is self:
                operation._where = None


class ChunkRun:
    """Operations with the same claim, which the engine takes one after the other. It has to check
    each claim: the caller may withdraw one at this very moment, and if two calls enqueue the same
    operation, only one of them has it."""

    __slots__ = ("claim", "operations", "plain")

    def __init__(self, claim: Claim, operations: list[Operation], plain: bool) -> None:
        self.claim = claim
        self.operations = operations
        self.plain = plain
        """Whether all are batchable, of one watcher, and without key and priority."""
