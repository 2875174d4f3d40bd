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
"""Instead of a post: there is none, but something that may go."""


class _Sent:
    """One batch on its way; the key of its operations."""

    __slots__ = ("batch", "operations")

    def __init__(self, batch: SubjectBatch[Any], relay: _Relay) -> None:
        self.batch = batch
        self.operations = [
            Operation(relay, batch.cost, batch, key=self),
            Operation(relay, 0, _Over(self), key=self),
        ]
        """What the Batcher did not accept yet: the batch, and what tells that it is over."""


class _Over:
    """The payload of what follows a batch."""

    __slots__ = ("sent",)

    def __init__(self, sent: _Sent) -> None:
        self.sent = sent


class _Relay(Watcher):
    """Tells the user's watcher of batches, and us of their ends; on the user's terms."""

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
    """See the module. It owns a thread from its making until it is closed."""

    def __init__(self, batcher: Batcher, watcher: Watcher, max_waiting: int) -> None:
        self._batcher = batcher
        self._max_waiting = max_waiting
        self._posts: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """_Sent: it is to go. _Over: it has ended. None: close."""
        self._relay = _Relay(watcher, self._posts)
        self._order = InOrder[_Sent]()
        self._ready: deque[_Sent] = deque()
        """What may go, and was not accepted yet."""
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
                self._posts.put(sent)  # under the lock: not after the last look at the posts

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
        try:
            while (post := self._next_post()) is not None:
                if isinstance(post, _Over):
                    self._over(post.sent)
                elif post is not _AGAIN and self._order.offer(post, post.batch.subjects):
                    self._ready.append(post)
                if not self._place_ready():
                    break
        except BaseException:
            # Nothing in there should raise; but nobody must wait for a thread that is gone.
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
        """Gives the Batcher what may go, as long as it has places. False: it has stopped."""
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
        # Of what is half accepted, the batch is and its end is not.
        unsent = [sent for sent in self._ready if len(sent.operations) > 1]
        unsent += self._order.waiting()
        while not self._posts.empty():
            post = self._posts.get()
            if isinstance(post, _Sent):
                unsent.append(post)
        self._unsent = [sent.batch for sent in unsent]
