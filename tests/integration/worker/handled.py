"""Messages for a Worker, handlers that note what they are given, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenacity.wait import wait_fixed

from dispatcher.timeline import Consumer, Lease, Message, Timeline
from dispatcher.worker import Worker
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
