"""Messages for a Worker, handlers that note what they are given, and what became of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from tenacity.wait import wait_fixed

from dispatcher.timeline import Consumer, Extended, Lease, Message, Timeline
from dispatcher.worker import Worker, _lease_keeper
from tests.waiting import until

SOON = wait_fixed(0.01)
Made = Callable[..., Worker]


def create(timeline: Timeline, *messages: Message) -> list[str]:
    outcomes = timeline.producer("us").create(messages)
    assert all(outcome.ok for outcome in outcomes)
    return [outcome.id for outcome in outcomes]


def many(count: int) -> list[Message]:
    return [Message(number, id=f"m{number}") for number in range(count)]


def leased(consumer: Consumer, length: float) -> Lease:
    """One message, once it is due: that may take up to a millisecond."""
    found: list[Lease] = []

    def try_it() -> bool:
        found.extend(consumer.lease(1, length))
        return bool(found)

    until(try_it)
    return found[0]


def dead(timeline: Timeline) -> dict[str, str]:
    found, cursor = timeline.dead(1_000)
    assert cursor == ""
    return {snapshot.id: snapshot.reason for snapshot in found}


class KeeperTime:
    """The clock of a Worker that decides when leases are extended: it runs, and can be turned on.
    Counts what the server has extended.

    The server's clock cannot be turned. So leases are long, and only their keeper believes that
    much of them has passed: however late its thread comes, none ends.
    """

    LEASE = 3_600.0
    """Seconds of a lease, and of a call of the handler."""

    OPTIONS: ClassVar[dict[str, Any]] = {"lease_time": LEASE, "max_operation_time": 10 * LEASE}
    """The options of a Worker with this clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.extended: Counter[str] = Counter()
        """How often the lease of each message was extended."""
        self._ahead = 0.0
        monkeypatch.setattr(_lease_keeper, "time", self)
        monkeypatch.setattr(_lease_keeper, "LONGEST_SLEEP", 0.01)
        extend = Consumer.extend

        def noted(consumer: Consumer, leases: Sequence[Lease], length: float) -> Any:
            outcomes = extend(consumer, leases, length)
            pairs = zip(leases, outcomes, strict=True)
            self.extended.update(it.id for it, said in pairs if isinstance(said, Extended))
            return outcomes

        monkeypatch.setattr(Consumer, "extend", noted)

    def monotonic(self) -> float:
        """Replace time.monotonic in the code of the lease keeper."""
        return time.monotonic() + self._ahead

    def next_extension(self) -> None:
        """A third of a lease passes: then it is extended."""
        self._ahead += self.LEASE / 3

    def extends(self, *ids: str, times: int = 3) -> None:
        """The leases of these messages are extended, again and again."""
        for _ in range(times):
            self._extends_once(ids, Counter(self.extended))

    def _extends_once(self, ids: Sequence[str], before: Counter[str]) -> None:
        self.next_extension()
        until(lambda: all(self.extended[one] > before[one] for one in ids))


class Noted:
    """A handler that notes what it is given and does as configured."""

    def __init__(self, then: Callable[[Sequence[Lease]], Any] = lambda messages: None) -> None:
        self.then = then
        self.batches: list[list[Lease]] = []

    def __call__(self, messages: list[Lease]) -> Any:
        self.batches.append(messages)
        return self.then(messages)

    @property
    def ids(self) -> list[str]:
        return [message.id for batch in self.batches for message in batch]
