"""Metrics of gates, builders and topics."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from dispatcher.builders import EventTimeBuilder, SubjectBuilder
from dispatcher.metrics import _names as names
from dispatcher.metrics.parts import Options, Part, instrumentable
from dispatcher.metrics.readings import Reading
from dispatcher.registration import RegistrationGate
from dispatcher.timeline import Timeline
from limiters._stats.histogram import Histogram

LATE = (1, 10, 60, 300)
"""Seconds by which messages may be late: those of the label `longer_than`."""


class GatePart:
    """Reads one gate; of one that is gone, what it had counted when it was read last."""

    def __init__(self, gate: RegistrationGate, options: Options) -> None:
        self._gate = weakref.ref(gate)
        self._name = options.name or "default"
        self._counts = gate.counts

    @property
    def subject(self) -> object:
        return self._gate()

    def read(self) -> Iterator[Reading]:
        gate = self._gate()
        if gate is not None:
            self._counts = gate.counts
            yield Reading(names.PENDING, (self._name,), gate.pending)
        yield Reading(names.GATE_HELD, (self._name,), sum(self._counts["held"]))
        yield Reading(names.GATE_RELEASED, (self._name,), sum(self._counts["released"]))
        for reason in ("dropped", "displaced", "corrupt"):
            yield Reading(names.GATE_DROPPED, (self._name, reason), sum(self._counts[reason]))


class BuilderPart:
    """Reads one builder, which its owner may change meanwhile: whole numbers only."""

    def __init__(
        self, builder: EventTimeBuilder[Any] | SubjectBuilder[Any], options: Options
    ) -> None:
        self._builder = weakref.ref(builder)
        self._name = options.name or "default"
        self._left_out = (0, 0)

    @property
    def subject(self) -> object:
        return self._builder()

    def read(self) -> Iterator[Reading]:
        builder = self._builder()
        if isinstance(builder, SubjectBuilder):
            yield Reading(names.BUILDER_MESSAGES, (self._name,), len(builder))
        if isinstance(builder, EventTimeBuilder):
            yield Reading(names.BUILDER_OPEN, (self._name,), len(builder))
            self._left_out = builder.duplicates, builder.dropped
        if not isinstance(builder, SubjectBuilder):
            duplicates, dropped = self._left_out
            yield Reading(names.BUILDER_DROPPED, (self._name, "duplicate"), duplicates)
            yield Reading(names.BUILDER_DROPPED, (self._name, "out_of_time"), dropped)


class TimelinePart:
    """Reads one topic from Redis, and the lateness that its consumers in this process measured."""

    def __init__(self, timeline: Timeline, options: Options) -> None:
        self._timeline = weakref.ref(timeline)
        self._topic = timeline.topic
        self._lateness = Histogram(names.LATENESS.bounds)

    def begin(self) -> None:
        lateness, timeline = self._lateness, self._timeline()

        def note(late: list[float]) -> None:
            for seconds in late:
                lateness.note(seconds)

        if timeline is not None:
            timeline.watch_lateness(note)

    @property
    def subject(self) -> object:
        return self._timeline()

    def read(self) -> Iterator[Reading]:
        yield Reading(names.LATENESS, (self._topic,), self._lateness.copy())
        timeline = self._timeline()
        if timeline is not None:
            yield from read_topic(timeline)
            if timeline.drift is not None:
                yield Reading(names.DRIFT, (self._topic,), timeline.drift)


def read_topic(timeline: Timeline) -> Iterator[Reading]:
    """Read a topic from Redis. TimelineError if Redis does not answer."""
    topic = timeline.topic
    stats, late = timeline.stats(), timeline.late(LATE)
    for state in ("new", "lost", "waiting", "processing", "dead"):
        yield Reading(names.TOPIC_MESSAGES, (topic, state), getattr(stats, state))
    for seconds, count in zip(LATE, late, strict=True):
        yield Reading(names.TOPIC_LATE, (topic, str(seconds)), count)
    yield Reading(names.TOPIC_OLDEST, (topic,), stats.backlog_age)
    yield Reading(names.TOPIC_CREATED, (topic,), stats.created)
    yield Reading(names.TOPIC_DELETED, (topic,), stats.deleted)
    yield Reading(names.TOPIC_DEAD, (topic,), stats.given_up)
    yield Reading(names.TOPIC_CONSUMERS, (topic,), stats.consumers)


@instrumentable(RegistrationGate)
def parts_of_gate(gate: RegistrationGate, options: Options) -> Iterable[Part]:
    """Return the part of a gate."""
    return [GatePart(gate, options)]


@instrumentable(EventTimeBuilder)
@instrumentable(SubjectBuilder)
def parts_of_builder(
    builder: EventTimeBuilder[Any] | SubjectBuilder[Any], options: Options
) -> Iterable[Part]:
    """Return the part of a builder."""
    return [BuilderPart(builder, options)]


@instrumentable(Timeline)
def parts_of_timeline(timeline: Timeline, options: Options) -> Iterable[Part]:
    """Return the part of a topic."""
    return [TimelinePart(timeline, options)]
