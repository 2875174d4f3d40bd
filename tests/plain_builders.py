"""The builders' laws in the plainest words: slow, and easy to compare with the seeds."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PlainBatch:
    start: Any
    end: Any
    shortened: bool
    members: list[tuple[Hashable, Any, Any, Any]] = field(default_factory=list)
    """Key, event time, arrival and message, in order of arrival."""

    def covers(self, time: Any) -> bool:
        return bool(
            self.start <= time and (time < self.end if self.shortened else time <= self.end)
        )

    @property
    def told(self) -> tuple[Any, Any, bool, list[Any]]:
        in_order = sorted(self.members, key=lambda member: member[1])
        return self.start, self.end, self.shortened, [member[3] for member in in_order]


class PlainEventTime:
    """Laws E1 to E5 and E7, over numbers; every call looks at everything."""

    def __init__(self, window: Any, memory: Any) -> None:
        self.window, self.memory = window, memory
        self.open: list[PlainBatch] = []
        self.closed: list[tuple[Any, PlainBatch]] = []
        self.now: Any = None
        self.duplicates = self.dropped = 0

    def due(self, batch: PlainBatch) -> Any:
        raise NotImplementedError

    def refuses(self, time: Any) -> bool:
        return False

    def cut(self, early: Any, late: Any) -> Any:
        raise NotImplementedError

    def add(self, key: Hashable, time: Any, message: Any, now: Any) -> list[Any]:
        closed = self.advance(now)
        if self.refuses(time):
            self.dropped += 1
        elif self.knows(key, time):
            self.duplicates += 1
        else:
            self.place((key, time, self.now, message))
        return closed

    def advance(self, now: Any) -> list[Any]:
        self.now = now if self.now is None else max(self.now, now)
        due = [batch for batch in self.open if self.due(batch) <= self.now]
        return self.close(due, self.due)

    def flush(self) -> list[Any]:
        return self.close(list(self.open), lambda batch: self.now)

    def close(self, batches: list[PlainBatch], as_of: Any) -> list[Any]:
        batches.sort(key=lambda batch: (self.due(batch), batch.start))
        for batch in batches:
            self.open.remove(batch)
            self.closed.append((as_of(batch), batch))
        return [batch.told for batch in batches]

    def knows(self, key: Hashable, time: Any) -> bool:
        recent = [batch for at, batch in self.closed if self.now <= at + self.memory]
        members = [member for batch in self.open + recent for member in batch.members]
        return any((key, time) == member[:2] for member in members)

    def full_window(self, start: Any) -> PlainBatch:
        end = start + self.window
        following = [batch.start for batch in self.open if start < batch.start <= end]
        return PlainBatch(start, min(following, default=end), bool(following))

    def place(self, new: tuple[Hashable, Any, Any, Any]) -> None:
        covering = [batch for batch in self.open if batch.covers(new[1])]
        assert len(covering) <= 1
        if not covering:
            batch = self.full_window(new[1])
            batch.members.append(new)
            self.open.append(batch)
            return
        (batch,) = covering
        batch.members.append(new)
        rivals = [member for member in batch.members if member[0] == new[0]]
        if len(rivals) == 1:
            return
        cut = self.cut(*sorted(member[1] for member in rivals))
        later = self.later_part(batch, cut)
        later.members = [member for member in batch.members if member[1] >= cut]
        batch.members = [member for member in batch.members if member[1] < cut]
        batch.end, batch.shortened = cut, True
        self.open.append(later)

    def later_part(self, batch: PlainBatch, cut: Any) -> PlainBatch:
        raise NotImplementedError


class PlainTimeout(PlainEventTime):
    def __init__(self, window: Any, timeout: Any, memory: Any = None) -> None:
        super().__init__(window, window + timeout if memory is None else memory)
        self.timeout = timeout

    def due(self, batch: PlainBatch) -> Any:
        return min(member[2] for member in batch.members) + self.timeout

    def cut(self, early: Any, late: Any) -> Any:
        return late

    def later_part(self, batch: PlainBatch, cut: Any) -> PlainBatch:
        return self.full_window(cut)


class PlainEnd(PlainEventTime):
    def __init__(self, event_jitter: Any, delivery_jitter: Any, leap: Any) -> None:
        super().__init__(event_jitter, event_jitter + delivery_jitter)
        self.delivery_jitter, self.leap = delivery_jitter, leap

    def due(self, batch: PlainBatch) -> Any:
        return batch.end + self.delivery_jitter

    def refuses(self, time: Any) -> bool:
        return bool(time < self.now - self.delivery_jitter or time > self.now + self.leap)

    def cut(self, early: Any, late: Any) -> Any:
        return (early + late) / 2

    def later_part(self, batch: PlainBatch, cut: Any) -> PlainBatch:
        return PlainBatch(cut, batch.end, batch.shortened)

    def add(self, key: Hashable, time: Any, message: Any, now: Any) -> list[Any]:
        closed = super().add(key, time, message, now)
        due = [batch for batch in self.open if self.due(batch) <= self.now]
        return closed + self.close(due, lambda batch: self.now)


# Batches by subject.

Measurement = tuple[Any, Hashable]
"""Time and subject, then whatever."""


def timestamps(
    measurements: Iterable[tuple[Any, ...]], within: Any = 0
) -> list[list[list[tuple[Any, ...]]]]:
    """For each timestamp, oldest first, the groups: each subject's measurements."""
    rest = sorted(measurements, key=lambda one: one[0])
    found = []
    while rest:
        at_once = [one for one in rest if one[0] <= rest[0][0] + within]
        rest = rest[len(at_once) :]
        subjects = dict.fromkeys(one[1] for one in at_once)
        found.append([[one for one in at_once if one[1] == subject] for subject in subjects])
    return found


def place(fills: list[int], size: int, most: int) -> list[int]:
    """How full the batches are after one more group; a group larger than a batch is spread."""
    fills = fills or [0]
    if fills[-1] + size <= most:
        return [*fills[:-1], fills[-1] + size]
    if size <= most:
        return [*fills, size]
    for _ in range(size):
        fills = [*fills[:-1], fills[-1] + 1] if fills[-1] < most else [*fills, 1]
    return fills


def next_fit(measurements: Iterable[tuple[Any, ...]], most: int, within: Any = 0) -> list[int]:
    """How full the batches are if the groups are placed by time and arrival."""
    fills: list[int] = []
    for groups in timestamps(measurements, within):
        for group in groups:
            fills = place(fills, len(group), most)
    return fills


def best(measurements: Iterable[tuple[Any, ...]], most: int, within: Any = 0) -> tuple[int, int]:
    """Law S4, by trying every order: how many batches, and how full the last one is."""
    fills: list[int] = []
    for groups in timestamps(measurements, within):
        tried = []
        for order in itertools.permutations(groups):
            after = fills
            for group in order:
                after = place(after, len(group), most)
            tried.append(after)
        fills = min(tried, key=lambda after: (len(after), after[-1]))
    return len(fills), fills[-1] if fills else 0
