"""The whole cluster, from Redis alone: what `dispatcher exporter` shows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dispatcher.metrics import names
from dispatcher.metrics.collector import families
from dispatcher.metrics.discovery import Discovery
from dispatcher.metrics.leaves import read_topic
from dispatcher.metrics.readings import Reading, Readings
from dispatcher.timeline import Timeline
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.layout import Layout
from limiters.errors import LeaseManagerError
from limiters.leases import ranges
from limiters.leases.connection import Connection
from limiters.leases.faults import in_words
from limiters.leases.manager import LimitView, MemberView
from limiters.leases.redis import RedisLeaseManager

_log = logging.getLogger("dispatcher.exporter")

PATIENCE = 2.0
"""How many seconds a step towards Redis may take; after the first that fails none follows."""

COMMANDS = "+scan +time +exists"
"""What its user in Redis must be allowed, beside what limits and topics need."""


class ClusterCollector(Collector):
    """Reads limits and topics when Prometheus scrapes: all under `prefix`, or those named.

    While Redis is away `dispatcher_redis_up` is 0, and the log says so once. Thread-safe.

    * `members`: whether to show each instance by its host and process, beside the sums.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "dispatcher",
        limits: Sequence[str] = (),
        topics: Sequence[str] = (),
        members: bool = True,
        timeout: float = PATIENCE,
    ) -> None:
        self._connection = Connection(url, timeout)
        self._prefix = prefix
        self._limits, self._topics = list(limits), list(topics)
        self._discovery = None if limits or topics else Discovery(prefix)
        self._members = members
        self._timeout = timeout
        self._managers: dict[str, RedisLeaseManager] = {}
        self._timelines: dict[str, Timeline] = {}
        self._lock = threading.Lock()
        self._up: bool | None = None
        self._failures = 0

    @property
    def where(self) -> str:
        """Where its Redis is: the URL without what is secret in it."""
        return self._connection.where

    def describe(self) -> list[Metric]:
        """Nothing: nobody reads Redis to learn names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """For the registry."""
        return families(self.read())

    def read(self, *, budget: float | None = None) -> Readings:
        """Everything, now. `budget`: how long it may look for names, if not as long as usual."""
        with self._lock:
            began = time.monotonic()
            readings = Readings()
            try:
                for reading in self._read(budget):
                    readings.add(reading)
            except Exception as error:  # not all that a client raises is a RedisError
                self._away(error)
            else:
                self._back()
            readings.add(Reading(names.REDIS_UP, (), self._up or False))
            readings.add(Reading(names.READ_FAILURES, (), self._failures))
            readings.add(Reading(names.READ_SECONDS, (), time.monotonic() - began))
            return readings

    def close(self) -> None:
        """Lets go of its connections."""
        self._connection.close()

    @property
    def up(self) -> bool:
        """Whether Redis answered when it was read last."""
        return bool(self._up)

    # Redis.

    def _read(self, budget: float | None) -> Iterator[Reading]:
        client = self._connection.client()
        asked, wall = time.monotonic(), time.time()
        seconds, microseconds = client.time()
        way = time.monotonic() - asked
        drift = wall + way / 2 - (seconds + microseconds / 1e6)
        yield Reading(names.EXPORTER_DRIFT, (), drift)
        limits, topics = self._limits, self._topics
        if self._discovery is not None:
            if budget is None:
                self._discovery.look(client)
            else:
                self._discovery.look(client, budget)
            limits, topics = self._discovery.limits, self._discovery.topics
        for name in limits:
            view = self._manager(client, name).look()
            if view is not None:
                yield from read_limit(name, view, members=self._members)
        for topic in topics:
            # A Timeline stores what a topic is if it is not there: only looking must not.
            if client.exists(Layout(self._prefix, topic).settings):
                yield from read_topic(self._timeline(client, topic))

    def _manager(self, client: Any, name: str) -> RedisLeaseManager:
        if name not in self._managers:
            self._managers[name] = RedisLeaseManager(client, name=name, prefix=self._prefix)
        return self._managers[name]

    def _timeline(self, client: Any, topic: str) -> Timeline:
        if topic not in self._timelines:
            made = Timeline(client, topic, prefix=self._prefix, timeout=self._timeout)
            self._timelines[topic] = made
        return self._timelines[topic]

    def _away(self, error: Exception) -> None:
        self._failures += 1
        if self._up is not False:
            said = str(error)
            if not isinstance(error, (LeaseManagerError, TimelineError)):
                said = in_words(error, self.where, f"{self._prefix}:*", COMMANDS)
            _log.warning("Redis cannot be read: %s", said)
        self._up = False

    def _back(self) -> None:
        if self._up is False:
            _log.warning("Redis at %s answers again", self.where)
        self._up = True


def read_limit(name: str, view: LimitView, *, members: bool) -> Iterator[Reading]:
    """What Redis knows of a limit. Pure."""
    alive = [one for one in view.members if one.lease_ms > 0]
    overdue = [one for one in view.members if one.lease_ms <= 0 and one.held]
    held, lost = _held(alive), _held(overdue)
    yield Reading(names.CLUSTER_CAPACITY, (name, "shared"), view.capacity)
    yield Reading(names.CLUSTER_CAPACITY, (name, "max"), view.terms.capacity)
    reserved = sum(one.reserved for one in alive)
    yield Reading(names.CLUSTER_CAPACITY, (name, "reserved"), reserved)
    yield Reading(names.CLUSTER_PERIOD, (name,), view.terms.period_ms / 1000)
    yield Reading(names.CLUSTER_PARTITION, (name,), view.terms.factor)
    yield Reading(names.CLUSTER_PARTITIONS, (name, "held"), held)
    yield Reading(names.CLUSTER_PARTITIONS, (name, "overdue"), lost)
    free = max(0, view.partitions - held - lost)
    yield Reading(names.CLUSTER_PARTITIONS, (name, "free"), free)
    yield Reading(names.CLUSTER_DEMAND, (name,), sum(one.need for one in alive))
    yield Reading(names.CLUSTER_SPENT_NOW, (name,), sum(one.spent for one in alive))
    yield Reading(names.CLUSTER_MEMBERS, (name, "active"), len(alive))
    yield Reading(names.CLUSTER_MEMBERS, (name, "overdue"), len(overdue))
    evicted = sum(one.evicted for one in view.members)
    yield Reading(names.CLUSTER_MEMBERS, (name, "evicted"), evicted)
    yield Reading(names.CLUSTER_QUARANTINE, (name,), view.quarantine_ms / 1000)
    if members:
        for one in alive:
            labels = (name, one.label or one.instance)
            yield Reading(names.MEMBER_PARTITIONS, labels, ranges.count(one.held))
            yield Reading(names.MEMBER_DEMAND, labels, one.need)
            yield Reading(names.MEMBER_SPENT, labels, one.spent)
            yield Reading(names.MEMBER_SHARE, labels, one.share)
            yield Reading(names.MEMBER_SILENT, labels, one.seen_ms / 1000)


def _held(members: list[MemberView]) -> int:
    return sum(ranges.count(one.held) for one in members)
