"""SubjectBuilder: batches that keep the measurements of one subject together and in order of
time."""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from dispatcher.builders._fields import MeasurementField, Where, check_hashable
from dispatcher.builders._packing import costs
from dispatcher.builders._packing.cutting import ByCost, ByCount, Cutter, Positions
from dispatcher.builders._times import Instant, TimeKind, TimeSpan, mixed, read, read_all
from dispatcher.builders.errors import MeasurementError
from limiters._support.validation import ArgumentError, amount, count, seconds

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class SubjectBatch(Generic[M]):
    """Measurements to send together. In a lane, no batch holds an earlier time than a batch before
    it.

    `start` and `end` are the earliest and the latest time in it, `subjects` the subjects of its
    measurements, `cost` the sum of their costs: one each, if the builder has no `cost`.
    """

    lane: Hashable
    measurements: list[M]
    subjects: tuple[Hashable, ...]
    start: Instant
    end: Instant
    cost: float


class SubjectBuilder(Generic[M]):
    """Cuts measurements into batches of at most `max_batch_size`, oldest first.

    Measurements of one subject at one time stay in one batch, unless they are more than a batch
    holds. Within a timestamp the batches are filled as well as possible; there are never more of
    them than if the groups were placed in order of time and arrival.

    * `subject`, `event_time`: a callable that takes a measurement, or the name of an item or
      attribute of it. A time is a number or a datetime. The subject may be None.
    * `lane`: the subject's type, as a callable or a name. Each lane has its own sequence of
      batches; measurements without a lane, or without a subject, share the lane None.
    * `together_within`: times up to this much later than the first of a timestamp count as the
      same: in the unit of the times; for datetimes in seconds, or a timedelta.
    * `cost`, `max_batch_cost`: the cost of a measurement, and the maximum of a batch.

    A measurement that cannot be used raises MeasurementError, and leaves the builder as it was. The
    same measurements in the same order give the same batches. Not thread-safe.

    >>> builder = SubjectBuilder(3, subject="id", event_time="at")
    >>> builder.extend({"id": id, "at": at} for at, id in [(2, "a"), (1, "b"), (1, "a"), (1, "b")])
    >>> for batch in builder.build():
    ...     print(batch.start, batch.end, [one["id"] for one in batch.measurements])
    1 1 ['b', 'b', 'a']
    2 2 ['a']
    """

    def __init__(
        self,
        max_batch_size: int = 500,
        *,
        subject: Where,
        event_time: Where,
        lane: Where | None = None,
        together_within: float | timedelta = 0,
        cost: Where | None = None,
        max_batch_cost: float | None = None,
    ) -> None:
        self._most = count("max_batch_size", max_batch_size)
        self._subject = MeasurementField("subject", subject)
        self._time = MeasurementField("event_time", event_time)
        self._lane = None if lane is None else MeasurementField("lane", lane, default=True)
        self._cost = None if cost is None else MeasurementField("cost", cost)
        within = seconds("together_within", together_within, zero=True)
        # A timedelta is kept: for datetimes it counts microseconds, however long it is.
        span = together_within if isinstance(together_within, timedelta) else within
        self._together = TimeSpan(span) if within else None
        self._max_cost: float | None = None
        self._limits: costs.BatchLimits | None = None
        if max_batch_cost is not None:
            if cost is None:
                raise ArgumentError("max_batch_cost", max_batch_cost, "be None if no cost is given")
            self._max_cost = amount("max_batch_cost", max_batch_cost)
            self._limits = costs.BatchLimits(self._most, self._max_cost)
        self._clear()

    def _clear(self) -> None:
        self._measurements: list[M] = []
        self._kind: TimeKind | None = None
        self._times: list[Instant] = []
        self._subjects: list[Hashable] = []
        self._lanes: list[Hashable] = []
        self._costs: list[float] = []

    def __len__(self) -> int:
        """Number of measurements that wait to be built."""
        return len(self._measurements)

    def add(self, measurement: M) -> None:
        subject = self._subject.value(measurement)
        check_hashable(self._subject, measurement, subject)
        time, kind = self._read_time(measurement, self._time.value(measurement), self._kind)
        lane: Hashable = None
        if self._lane is not None and subject is not None:
            lane = self._lane.value(measurement)
            check_hashable(self._lane, measurement, lane)
        if self._cost is not None:
            self._costs.append(self._read_cost(measurement, self._cost.value(measurement)))
        self._kind = kind
        self._measurements.append(measurement)
        self._subjects.append(subject)
        self._times.append(time)
        if self._lane is not None:
            self._lanes.append(lane)

    def extend(self, measurements: Iterable[M]) -> None:
        """Add all measurements, or none if one cannot be used. The fastest way to add many."""
        given = list(measurements)
        if not given:
            return
        subjects = self._hashable(self._subject, given)
        times, kind = self._read_times(given)
        lanes = [] if self._lane is None else self._read_lanes(self._lane, given, subjects)
        prices: list[float] = []
        if self._cost is not None:
            prices = list(map(self._read_cost, given, self._cost.values(given)))
        self._kind = kind
        self._measurements += given
        self._subjects += subjects
        self._times += times
        self._lanes += lanes
        self._costs += prices

    def build(self) -> list[SubjectBatch[M]]:
        """Return the batches of all measurements, lane by lane, those of a lane in the order in
        which they are to be sent. Afterwards the builder is empty."""
        built = [
            self._batch(lane, positions)
            for lane, members in self._by_lane()
            for positions in self._cut(members)
        ]
        self._clear()
        return built

    # Input.

    def _read_time(
        self, measurement: M, value: object, known: TimeKind | None
    ) -> tuple[Instant, TimeKind]:
        try:
            time, kind = read(value)
        except ArgumentError as error:
            raise MeasurementError(measurement, f"its {error.of('event_time')}") from None
        if wrong := mixed(kind, known):
            raise MeasurementError(measurement, f"its event_time {value!r} {wrong}")
        return time, kind

    def _read_times(self, measurements: Sequence[M]) -> tuple[Sequence[Instant], TimeKind]:
        values = self._time.values(measurements)
        quickly = read_all(values)
        if quickly is not None and not mixed(quickly[1], self._kind):
            return quickly
        times = []
        kind = self._kind
        for measurement, value in zip(measurements, values, strict=True):
            time, kind = self._read_time(measurement, value, kind)
            times.append(time)
        assert kind is not None
        return times, kind

    def _read_lanes(
        self, field: MeasurementField, measurements: Sequence[M], subjects: list[Hashable]
    ) -> list[Any]:
        """Read the lane of each measurement; one without a subject has none."""
        if None not in subjects:
            return self._hashable(field, measurements)
        known = [subject is not None for subject in subjects]
        lanes = iter(self._hashable(field, list(itertools.compress(measurements, known))))
        return [next(lanes) if one else None for one in known]

    def _read_cost(self, measurement: M, value: object) -> float:
        try:
            cost = costs.checked(value)
        except ArgumentError as error:
            raise MeasurementError(measurement, f"its {error}") from None
        if self._max_cost is not None and cost > self._max_cost:
            raise MeasurementError(
                measurement, f"it alone costs {cost!r}, and max_batch_cost is {self._max_cost!r}"
            )
        return cost

    def _hashable(self, field: MeasurementField, measurements: Sequence[M]) -> list[Any]:
        values = field.values(measurements)
        try:
            set(values)
        except TypeError:
            for measurement, value in zip(measurements, values, strict=True):
                check_hashable(field, measurement, value)
            raise
        return values

    # Output.

    def _by_lane(self) -> Iterator[tuple[Hashable, Sequence[int]]]:
        """Return the positions of each lane's measurements, in order of arrival."""
        if self._lane is None:
            yield None, range(len(self._measurements))
            return
        lanes: dict[Hashable, Positions] = {}
        for position, lane in enumerate(self._lanes):
            lanes.setdefault(lane, []).append(position)
        yield from lanes.items()

    def _cut(self, members: Sequence[int]) -> list[Positions]:
        cutter: Cutter = ByCount(self._most)
        if self._limits is not None:
            cutter = ByCost(self._limits, self._costs)
        # stable: equal times stay in order of arrival
        order = sorted(members, key=self._times.__getitem__)
        placed = 0
        for start, end in itertools.pairwise(self._bounds(order)):
            if end - start == 1:
                continue  # the only one of its timestamp: nothing to decide
            cutter.add_in_turn(order[placed:start])
            placed = end
            positions = order[start:end]
            subjects = list(map(self._subjects.__getitem__, positions))
            if len(set(subjects)) == len(subjects):
                cutter.add_each(positions)
            else:
                cutter.add(_grouped(positions, subjects))
        cutter.add_in_turn(order[placed:])
        return cutter.batches

    def _bounds(self, order: Positions) -> Iterator[int]:
        """Return where in `order` the timestamps begin, and where the last one ends."""
        times = list(map(self._times.__getitem__, order))
        if self._together is None:
            yield 0
            changes = map(operator.ne, times, itertools.islice(times, 1, None))
            yield from itertools.compress(itertools.count(1), changes)
            yield len(order)
            return
        start = 0
        while start < len(order):
            yield start
            start = bisect_right(times, self._together.after(times[start]), lo=start)
        yield start

    def _batch(self, lane: Hashable, positions: Positions) -> SubjectBatch[M]:
        subjects = map(self._subjects.__getitem__, positions)
        cost: float = len(positions)
        if self._cost is not None:
            cost = costs.together(map(self._costs.__getitem__, positions))
        return SubjectBatch(
            lane,
            list(map(self._measurements.__getitem__, positions)),
            tuple(dict.fromkeys(subjects)),
            min(map(self._times.__getitem__, positions)),
            max(map(self._times.__getitem__, positions)),
            cost,
        )


def _grouped(positions: Positions, subjects: list[Hashable]) -> list[Positions]:
    """Return the positions of each subject, in order of arrival."""
    groups: dict[Hashable, Positions] = {}
    for position, subject in zip(positions, subjects, strict=True):
        if subject in groups:
            groups[subject].append(position)
        else:
            groups[subject] = [position]
    return list(groups.values())
