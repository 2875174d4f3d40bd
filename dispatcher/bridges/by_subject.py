"""Batches that share a subject one after the other, all others at once.

An operation has one key, a batch many subjects. So a batch is given to the Batcher only once
those before it that share a subject have ended. That they have is told by the Batcher itself:
each batch has a key of its own, and behind it, under that key, goes an operation that costs
nothing. By law B1 its turn comes when the batch is over for good, through every retry, and
not before its callback has returned.

One thread owns the order; callers and callbacks post to it. A callback must not enqueue what
it sets free: that may block, and it holds the slot that would make room.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections import deque
from typing import Any

from dispatcher import events
from dispatcher.batcher import Batcher
from dispatcher.bridges.in_order import InOrder
from dispatcher.bridges.placing import Placed, place
from dispatcher.builders import SubjectBatch
from dispatcher.errors import BatcherStoppedError, BufferFullError
from dispatcher.operation import Operation
from dispatcher.watcher import Watcher


class _Sent:
    """One batch on its way; the key of its operations."""

    __slots__ = ("batch",)

    def __init__(self, batch: SubjectBatch[Any]) -> None:
        self.batch = batch


class _Relay(Watcher):
    """Tells the user's watcher of batches, and us of their ends; on the user's terms."""

    def __init__(self, watcher: Watcher, over: queue.SimpleQueue[Any]) -> None:
        tell = watcher.on_batch

        @functools.wraps(tell, updated=())
        def on_batch(operations: list[Operation]) -> object:
            if not isinstance(operations[0].payload, _Sent):
                return tell(operations)
            over.put(operations[0].payload)
            return None

        @functools.wraps(tell, updated=())
        async def on_batch_async(operations: list[Operation]) -> None:
            result: Any = on_batch(operations)
            if result is not None:
                await result

        super().__init__(
            on_batch_async if watcher.runs_on_loop else on_batch,
            max_operation_time=watcher.max_operation_time,
            on_failure=watcher.on_failure,
            retry_abandoned=watcher.retry_abandoned,
        )
        self.policy = watcher.policy


class SentBySubject:
    """See the module. It owns a thread from its making until it is closed."""

    def __init__(self, batcher: Batcher, watcher: Watcher, max_waiting: int) -> None:
        self._batcher = batcher
        self._max_waiting = max_waiting
        self._posts: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """A list of batches to send, a _Sent that has ended, or None: close."""
        self._relay = _Relay(watcher, self._posts)
        self._order = InOrder[_Sent]()
        self._ready: deque[tuple[_Sent, list[Operation]]] = deque()
        """What may go, and what the Batcher did not accept of it yet."""
        self._changed = threading.Condition()
        self._waiting = 0
        """How many batches the Batcher was not given yet."""
        self._unended = 0
        self._closed = False
        self._unsent: list[SubjectBatch[Any]] = []
        self._listener = batcher.add_listener(lambda event: self._posts.put(None), events.SHUTDOWN)
        self._thread = threading.Thread(target=self._run, name="dispatcher-by-subject", daemon=True)
        self._thread.start()

    def send(self, batches: list[SubjectBatch[Any]], timeout: float | None) -> None:
        """See `Sending`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for sent, batch in enumerate(batches):
            with self._changed:
                while self._waiting >= self._max_waiting and not self._closed:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise BufferFullError(self._max_waiting, sent)
                    self._changed.wait(left)
                if self._closed:
                    raise BatcherStoppedError(sent)
                self._waiting += 1
                self._unended += 1
                self._posts.put([batch])  # under the lock, so that close() comes after it

    def wait(self, timeout: float | None) -> bool:
        """See `Sending`."""
        self._relay.wait(0)  # raises in a callback, which would wait for itself
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            if not self._changed.wait_for(lambda: not self._unended or self._closed, timeout):
                return False
        # The last of them may have failed, and be on its way to the failure callback.
        return self._relay.wait(None if deadline is None else max(0, deadline - time.monotonic()))

    def close(self) -> list[SubjectBatch[Any]]:
        """See `Sending`."""
        self._listener.remove()
        self._posts.put(None)
        self._thread.join()
        return self._unsent

    # The thread.

    def _run(self) -> None:
        while True:
            try:
                post = self._posts.get(timeout=0 if self._ready else None)
            except queue.Empty:
                post = []
            if post is None or not self._take(post):
                break
        self._end()

    def _take(self, post: list[SubjectBatch[Any]] | _Sent) -> bool:
        """Takes in what was posted and gives the Batcher what may go. False: it has stopped."""
        if isinstance(post, _Sent):
            self._over(post)
        else:
            for sent in map(_Sent, post):
                if self._order.offer(sent, sent.batch.subjects):
                    self._may_go(sent)
        while self._ready:
            sent, operations = self._ready[0]
            placed = place(self._batcher, operations)
            if placed in (Placed.FULL, Placed.STOPPED):
                return placed is Placed.FULL
            self._ready.popleft()
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()
            if placed is Placed.REFUSED:
                self._over(sent)
        return True

    def _may_go(self, sent: _Sent) -> None:
        batch = Operation(self._relay, sent.batch.cost, sent.batch, key=sent)
        end = Operation(self._relay, 0, sent, key=sent)
        self._ready.append((sent, [batch, end]))

    def _over(self, sent: _Sent) -> None:
        for freed in self._order.ended(sent):
            self._may_go(freed)
        with self._changed:
            self._unended -= 1
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        # Of what is half accepted, the batch is and its end is not.
        ready = [sent for sent, operations in self._ready if len(operations) > 1]
        unsent = [*ready, *self._order.waiting()]
        posted: list[SubjectBatch[Any]] = []
        while not self._posts.empty():
            post = self._posts.get()
            if isinstance(post, list):
                posted += post
        self._unsent = [*(sent.batch for sent in unsent), *posted]
