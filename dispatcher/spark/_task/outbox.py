"""Enqueues packs as operations of a task's Batcher.

A pack that must come after another one is kept here until that one is acknowledged. It must not
wait in the Batcher: if the other pack fails, its subjects are sent one by one, and they would wait
behind it for room in the buffer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty

from dispatcher.batcher import Batcher
from dispatcher.errors import BufferFullError, TooExpensiveError
from dispatcher.spark._options import DeliveryOptions
from dispatcher.spark._rows.cutting import Unit
from dispatcher.spark._rows.packs import Pack, singly
from dispatcher.spark._task.delivery import Delivery
from dispatcher.spark.errors import BatchFailedError, UnusableRowsError
from dispatcher.state import State

LOOK = 0.1
"""Seconds between two checks of a waiting task whether a batch has failed."""


class Outbox:
    """A task's packs on their way into its Batcher. Only the thread of the task may use it."""

    def __init__(
        self,
        sending: DeliveryOptions,
        batcher: Batcher,
        delivery: Delivery,
        check: Callable[[], None],
    ) -> None:
        self._batcher = batcher
        self._delivery = delivery
        self._check = check
        """Raises if the waiting packs cannot be sent any more."""
        self._watcher = delivery.watcher(sending)
        self._concurrency = sending.concurrency
        self._enqueued = 0
        self._kept: list[Pack] = []

    def send(self, pack: Pack) -> None:
        """Enqueue `pack`, or keep it until it may be enqueued. Wait while too many packs are
        kept."""
        self._kept.append(pack)
        self._move_on()
        while len(self._kept) > self._concurrency:
            self._look()

    def send_and_wait(self, units: Sequence[Unit]) -> None:
        """Send the units of one subject that are not acknowledged, one by one, and wait until all
        are acknowledged."""
        for pack in singly(units):
            self._enqueue(pack)
        while not all(unit.acknowledged for unit in units):
            self._look()

    def finish(self) -> None:
        """Wait until all packs are acknowledged."""
        self._start()
        while True:
            self._move_on()
            ended = self._watcher.wait(LOOK)
            if ended and self._delivery.is_busy:
                time.sleep(LOOK)
                ended = False
            self._check()
            # A callback puts the pack that it divides into the queue before it ends.
            if ended and self._delivery.divided.empty() and not any(map(_may_go, self._kept)):
                return

    def _look(self) -> None:
        self._start()
        self._check()
        time.sleep(LOOK)
        self._move_on()

    def _move_on(self) -> None:
        """Enqueue subjects of packs that have failed, and kept packs that may be enqueued by
        now."""
        while True:
            try:
                self._send_singly(self._delivery.divided.get_nowait())
            except Empty:
                break
        ready = [pack for pack in self._kept if _may_go(pack)]
        self._kept = [pack for pack in self._kept if pack not in ready]
        sender = self._delivery.sender
        for pack in ready:
            if pack.is_rest and sender is not None and sender.is_divided(pack.name):
                self._send_singly(pack)
            else:
                self._enqueue(pack)

    def _send_singly(self, pack: Pack) -> None:
        sender = self._delivery.sender
        if sender is not None:
            sender.divide(pack.name).result()
        by_sequence: dict[bytes, list[Unit]] = {}
        for unit in pack.units:
            by_sequence.setdefault(unit.sequence, []).append(unit)
        for units in by_sequence.values():
            for single in singly(units):
                self._enqueue(single)

    def _enqueue(self, pack: Pack) -> None:
        for unit in pack.units:
            if unit.refused and self._delivery.dead_letters is None:
                raise UnusableRowsError(
                    f"a row of subject {unit.subject!r} in {self._delivery.micro_batch} cannot be "
                    f"sent: {unit.refused}. Filter such rows out, or give the sink dead_letters"
                )
        pack.waiting_since = time.monotonic()
        while True:
            self._delivery.check()
            try:
                self._batcher.enqueue(self._delivery.operation(self._watcher, pack), LOOK)
                break
            except BufferFullError:
                self._check()
            except TooExpensiveError as error:
                if len(pack.left) > 1:
                    self._delivery.divide(pack)
                    return
                # The unit is given up in its turn, like any other batch.
                refused = f"{error}; max_batch_cost keeps batches below it"
                if self._delivery.dead_letters is None:
                    raise BatchFailedError(
                        f"{self._delivery.micro_batch.named(pack)}: {refused}"
                    ) from error
                for unit in pack.left:
                    unit.refused = refused
        self._enqueued += 1
        # The Batcher requests capacity when it starts, for the operations that it has by then.
        if self._enqueued == self._concurrency:
            self._start()

    def _start(self) -> None:
        if self._batcher.state is State.NEW:
            self._batcher.start()


def _may_go(pack: Pack) -> bool:
    return pack.waits_for is None or pack.waits_for.acknowledged
