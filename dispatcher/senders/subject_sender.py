"""Send the batches of a SubjectBuilder through a Batcher, each as it was built."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol

from dispatcher.batcher import Batcher
from dispatcher.builders import SubjectBatch
from dispatcher.operation import Operation
from dispatcher.senders._by_subject import SentBySubject
from dispatcher.watcher import Watcher
from limiters._support.validation import ArgumentError, Seconds, count, optional_seconds

_log = logging.getLogger("dispatcher.senders")


class Sending(Protocol):
    """A way to keep batches in order."""

    def send(self, batches: list[SubjectBatch[Any]], timeout: float | None) -> None:
        """Enqueue `batches` in their order. `timeout` bounds the time spent waiting for room."""
        ...

    def wait(self, timeout: float | None) -> bool:
        """Wait until all batches have ended; return False after `timeout`."""
        ...

    def close(self) -> list[SubjectBatch[Any]]:
        """Send nothing more. Return the batches that the Batcher was not given, in their order."""
        ...


class SentByLane:
    """One batch of a lane after the other, by the key of its operation."""

    def __init__(self, batcher: Batcher, watcher: Watcher) -> None:
        self._batcher = batcher
        self._watcher = watcher

    def send(self, batches: list[SubjectBatch[Any]], timeout: float | None) -> None:
        """The key is a pair, not the bare lane: a lane may be None, and a key of None asks for no
        order."""
        watcher = self._watcher
        self._batcher.enqueue_many(
            [Operation(watcher, one.cost, one, key=("lane", one.lane)) for one in batches],
            timeout,
        )

    def wait(self, timeout: float | None) -> bool:
        return self._watcher.wait(timeout)

    def close(self) -> list[SubjectBatch[Any]]:
        return []


class SubjectSender:
    """Raises each SubjectBatch to `watcher` as one operation, whose payload it is and whose cost is
    the sum of its measurements' costs. A batch is never split, nor combined with another. A failed
    one is retried before those that must follow it.

    * `order`: "global" sends the batches of a lane one after the other. With "subject" a batch
      waits only for earlier ones that hold one of its subjects, so others may overtake it.
    * `max_waiting`: with "subject", how many batches may wait for others to end.

    The order holds across calls of `send`. Wait for `sender`, not for `watcher`. With "subject",
    every batch is followed by an operation of cost 0 that marks its end; the Batcher counts it too.

    Thread-safe. Leaving its `with` block waits for all batches to end; leaving it by an exception
    does not. Leave it before the Batcher stops.

    >>> from dispatcher import Batcher, Watcher
    >>> from dispatcher.senders import SubjectSender
    >>> from dispatcher.builders import SubjectBuilder
    >>> builder = SubjectBuilder(2, subject="id", event_time="at")
    >>> builder.extend({"id": id, "at": at} for at in range(2) for id in "ab")
    >>> watcher = Watcher(lambda batch: print(batch[0].payload.measurements))
    >>> with Batcher() as batcher, SubjectSender(batcher, watcher) as sender:
    ...     sender.send(builder.build())
    [{'id': 'a', 'at': 0}, {'id': 'b', 'at': 0}]
    [{'id': 'a', 'at': 1}, {'id': 'b', 'at': 1}]
    """

    def __init__(
        self,
        batcher: Batcher,
        watcher: Watcher,
        *,
        order: str = "global",
        max_waiting: int = 1_000,
    ) -> None:
        count("max_waiting", max_waiting)
        self._sending: Sending
        if order == "global":
            self._sending = SentByLane(batcher, watcher)
        elif order == "subject":
            self._sending = SentBySubject(batcher, watcher, max_waiting)
        else:
            raise ArgumentError("order", order, "be 'global' or 'subject'")

    def send(self, batches: Iterable[SubjectBatch[Any]], timeout: Seconds | None = None) -> None:
        """Send `batches`, in their order. Block while there is no room, for at most `timeout`
        seconds in all. BufferFullError and BatcherStoppedError say how many batches were taken."""
        self._sending.send(list(batches), optional_seconds("timeout", timeout, zero=True))

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until all batches have ended. Return False after `timeout` seconds; True if the
        Batcher has stopped."""
        return self._sending.wait(optional_seconds("timeout", timeout, zero=True))

    def close(self) -> list[SubjectBatch[Any]]:
        """Send nothing more. Return the batches that the Batcher was not given, in their order."""
        return self._sending.close()

    def __enter__(self) -> SubjectSender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.wait()
        if unsent := self.close():
            facts = {"happening": "not-sent", "batches": len(unsent)}
            _log.warning("%d batches were not sent", len(unsent), extra=facts)
