"""Readings: the values of metrics at one moment, combined where labels are the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dispatcher.metrics._names import Metric
from limiters._costs import AnyCost, Costs
from limiters._stats.histogram import Histogram

Value = float | Histogram
Exemplar = tuple[Mapping[str, str], float, float]
"""Labels of one of the values that were counted, the value, and its time."""


class Reading(NamedTuple):
    """One value. Labels are in the order of those of the metric; the last one, a dimension, may be
    missing."""

    metric: Metric
    labels: tuple[str, ...]
    value: Value
    exemplars: Mapping[int, Exemplar] | None = None
    """Exemplars of a distribution, by bucket."""


def by_dimension(
    metric: Metric, labels: tuple[str, ...], cost: AnyCost, dimensions: Iterable[str]
) -> Iterator[Reading]:
    """Return a reading for each of `dimensions` of a cost; one without a dimension of a number.

    >>> from dispatcher.metrics._names import DEMAND
    >>> read = by_dimension(DEMAND, ("api",), Costs({"tokens": 5}), ("requests", "tokens"))
    >>> [(one.labels, one.value) for one in read]
    [(('api', 'requests'), 0), (('api', 'tokens'), 5)]
    """
    if isinstance(cost, Costs):
        for name in dimensions:
            yield Reading(metric, (*labels, name), cost.amount(name))
    else:
        yield Reading(metric, labels, cost)


class Readings:
    """Values by metric and labels. Those with the same labels are combined as the metric says.

    >>> from dispatcher.metrics._names import PAUSED, PAUSES
    >>> readings = Readings()
    >>> for _ in range(2):
    ...     readings.add(Reading(PAUSES, ("orders", ""), 3.0))
    ...     readings.add(Reading(PAUSED, ("orders", ""), 1.0))
    >>> [reading.value for reading in readings]
    [6.0, 1.0]
    """

    def __init__(self, readings: Iterable[Reading] = ()) -> None:
        self._all: dict[tuple[Metric, tuple[str, ...]], Reading] = {}
        for reading in readings:
            self.add(reading)

    def add(self, reading: Reading) -> None:
        """Add a reading to those with the same labels."""
        labels = tuple(map(_written, reading.labels))
        if labels != reading.labels:
            reading = reading._replace(labels=labels)
        place = reading.metric, labels
        known = self._all.get(place)
        self._all[place] = reading if known is None else _together(known, reading)

    def __iter__(self) -> Iterator[Reading]:
        return iter(self._all.values())

    def by_metric(self) -> dict[Metric, list[Reading]]:
        """Return the readings of each metric."""
        sorted_: dict[Metric, list[Reading]] = {}
        for reading in self:
            sorted_.setdefault(reading.metric, []).append(reading)
        return sorted_


def _written(label: str) -> str:
    """Return a label that can be written: it may have been made of bytes that are no text."""
    return label.encode("utf-8", "replace").decode()


def _together(one: Reading, other: Reading) -> Reading:
    if isinstance(one.value, Histogram):
        assert isinstance(other.value, Histogram)
        if other.value.bounds != one.value.bounds:
            return one  # they cannot be added up
        both = one.value.copy()
        both.add(other.value)
        return one._replace(
            value=both, exemplars={**(one.exemplars or {}), **(other.exemplars or {})}
        )
    assert not isinstance(other.value, Histogram)
    if one.metric.together == "sum":
        return one._replace(value=one.value + other.value)
    choose = max if one.metric.together == "max" else min
    return one._replace(value=choose(one.value, other.value))
