"""Send batches that share a subject one after the other, and all others concurrently.

An operation has one key, but a batch holds many subjects. A batch is therefore enqueued only after
all earlier batches that share a subject have ended. To learn when a batch has ended, each batch
gets a key of its own and is followed, under that key, by an operation of cost 0. By law B1 this
follower is raised when the batch is over, all retries included, and not before its callback has
returned.

One thread owns the order; callers and callbacks post to it. A callback must not enqueue the batches
that it unblocks: enqueueing may block while the callback occupies the slot that would make room.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Any

from dispatcher import events
from dispatcher.batcher import Batcher
from dispatcher.builders import SubjectBatch
from dispatcher.errors import BatcherStoppedError, BufferFullError
from dispatcher.operation import Operation
from dispatcher.senders._in_order import InOrder
from dispatcher.senders._placing import Placed, place
from dispatcher.watcher import Watcher

_log = logging.getLogger("dispatcher.senders")
_AGAIN = object()
"""Posted when no batch was added, but a waiting one may be sent."""


class _Sent:
    """A batch in flight, with the key of its operations."""

    __slots__ = ("batch", "operations")

    def __init__(self, batch: SubjectBatch[Any], relay: _Relay) -> None:
        self.batch = batch
        self.operations = [
            Operation(relay, batch.cost, batch, key=self),
            Operation(relay, 0, _Over(self), key=self),
        ]
        """The operations that the Batcher has not accepted yet: the batch and its follower."""


class _Over:
    """Payload of the operation that follows a batch."""

    __slots__ = ("sent",)

    def __init__(self, sent: _Sent) -> None:
        self.sent = sent


class _Relay(Watcher):
    """Forwards batches to the user's watcher, with its settings, and reports their ends to the
    thread."""

    def __init__(self, watcher: Watcher, posts: queue.SimpleQueue[Any]) -> None:
        tell = watcher.on_batch

        @functools.wraps(tell, updated=())
        def on_batch(operations: list[Operation]) -> object:
            if not isinstance(operations[0].payload, _Over):
                return tell(operations)
            posts.put(operations[0].payload)
            return None

        @functools.wraps(tell, updated=())
        async def on_batch_async(operations: list[Operation]) -> object:
            result: Any = on_batch(operations)
            return None if result is None else await result

        terms = watcher._terms
        super().__init__(on_batch_async if terms.on_batch.on_loop else on_batch)
        self._terms = replace(terms, on_batch=self._terms.on_batch, max_batch_size=None)


class SentBySubject:
    """Sends batches in order of subject, on a thread that runs from construction until `close`."""

    def __init__(self, batcher: Batcher, watcher: Watcher, max_waiting: int) -> None:
        self._batcher = batcher
        self._max_waiting = max_waiting
        self._posts: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """`_Sent`: a new batch. `_Over`: a batch has ended. None: close."""
        self._relay = _Relay(watcher, self._posts)
        self._order = InOrder[_Sent]()
        self._ready: deque[_Sent] = deque()
        """Batches that are free to go and not accepted by the Batcher yet."""
        self._changed = threading.Condition()
        self._waiting = 0
        """Number of batches that the Batcher has not accepted yet."""
        self._unended = 0
        self._closed = False
        self._unsent: list[SubjectBatch[Any]] = []
        self._listener = batcher.add_listener(lambda event: self._posts.put(None), events.SHUTDOWN)
        self._thread = threading.Thread(target=self._run, name="dispatcher-by-subject", daemon=True)
        self._thread.start()

    def send(self, batches: list[SubjectBatch[Any]], timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        for taken, sent in enumerate([_Sent(batch, self._relay) for batch in batches]):
            with self._changed:
                while self._waiting >= self._max_waiting and not self._closed:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise BufferFullError(self._max_waiting, taken)
                    self._changed.wait(left)
                if self._closed:
                    raise BatcherStoppedError(taken)
                self._waiting += 1
                self._unended += 1
                self._posts.put(sent)  # under the lock: not after the thread has read its last post

    def wait(self, timeout: float | None) -> bool:
        self._relay.wait(0)  # raises in a callback, which would wait for itself
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            if not self._changed.wait_for(lambda: not self._unended or self._closed, timeout):
                return False
        # The last batches may have failed, and be on their way to the failure callback.
        return self._relay.wait(None if deadline is None else max(0, deadline - time.monotonic()))

    def close(self) -> list[SubjectBatch[Any]]:
        self._listener.remove()
        self._posts.put(None)
        self._thread.join()
        return self._unsent

    # Runs on the thread.

    def _run(self) -> None:
        try:
            while (post := self._next_post()) is not None:
                if isinstance(post, _Over):
                    self._over(post.sent)
                elif post is not _AGAIN and self._order.offer(post, post.batch.subjects):
                    self._ready.append(post)
                if not self._place_ready():
                    break
        except BaseException:
            # Nothing in there should raise; but no caller may wait for a thread that has ended.
            facts = {"happening": "driver-broke"}
            _log.critical("a SubjectSender has failed and is closed", exc_info=True, extra=facts)
        finally:
            self._end()

    def _next_post(self) -> Any:
        try:
            return self._posts.get(timeout=0 if self._ready else None)
        except queue.Empty:
            return _AGAIN

    def _place_ready(self) -> bool:
        """Enqueue the batches that may go while there is room. Return False if the Batcher has
        stopped."""
        while self._ready:
            placed = place(self._batcher, self._ready[0].operations)
            if placed in (Placed.FULL, Placed.STOPPED):
                return placed is Placed.FULL
            sent = self._ready.popleft()
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()
            if placed is Placed.REFUSED:
                self._over(sent)
        return True

    def _over(self, sent: _Sent) -> None:
        self._ready += self._order.ended(sent)
        with self._changed:
            self._unended -= 1
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        # Of a batch that was accepted without its follower, only the follower is returned.
        unsent = [sent for sent in self._ready if len(sent.operations) > 1]
        unsent += self._order.waiting()
        while not self._posts.empty():
            post = self._posts.get()
            if isinstance(post, _Sent):
                unsent.append(post)
        self._unsent = [sent.batch for sent in unsent]
