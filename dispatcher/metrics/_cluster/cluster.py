"""The whole cluster, from Redis alone: what `dispatcher exporter` shows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dispatcher._discovery import Discovery
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.limit_readings import read_limit
from dispatcher.metrics._cluster.spark_totals import queries_of, read_query
from dispatcher.metrics._collector import families
from dispatcher.metrics._kinds.leaves import read_topic
from dispatcher.metrics.readings import Reading, Readings
from dispatcher.timeline import Timeline
from dispatcher.timeline._encoding.layout import Layout
from dispatcher.timeline.errors import BucketCountError, TimelineError
from limiters._redis.acl import Needs
from limiters._redis.client import RedisConnection
from limiters._redis.faults import in_words
from limiters._redis.outages import Outage
from limiters.errors import LeaseManagerError
from limiters.leases.redis import RedisLeaseManager

_log = logging.getLogger("dispatcher.metrics")

T = TypeVar("T")

PATIENCE = 2.0
"""How many seconds a step towards Redis may take; after the first that fails none follows."""

NEEDS = Needs(
    "+evalsha +eval +exists +get +hgetall +hlen +hmget +hsetnx +info +scan +time +zcard "
    "+zcount +zrange"
)
"""All that its user in Redis must be allowed; none of them changes what others see."""


class ClusterCollector(Collector):
    """Reads limits and topics when Prometheus scrapes: all under `prefix`, or those named.

    While Redis is away `dispatcher_redis_up` is 0, and the log says so once. Thread-safe.

    * `members`: whether to show each instance by its host and process, in addition to the sums.
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
        self._connection = RedisConnection(url, timeout)
        self._prefix = prefix
        self._limits, self._topics = list(limits), list(topics)
        self._discovery = None if limits or topics else Discovery(prefix)
        self._members = members
        self._timeout = timeout
        self._managers: dict[str, RedisLeaseManager] = {}
        self._timelines: dict[str, Timeline] = {}
        self._lock = threading.Lock()
        self._outage = Outage(_log, self.where, f"what is shown of {prefix}")
        self._up: bool | None = None
        self.trouble = ""
        """Why the last read of Redis failed; "" if it did not."""
        self._asked = 0.0
        self._failures = 0
        self._unreadable: set[str] = set()

    @property
    def where(self) -> str:
        """Where its Redis is: the URL without what is secret in it."""
        return self._connection.where

    def describe(self) -> list[Metric]:
        """Return nothing: a registry would read Redis only to learn names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read all values, for the registry that is scraped."""
        return families(self.read())

    def read(self, *, budget: float | None = None) -> Readings:
        """Read everything. `budget`: the seconds for a search for names, if not the usual ones."""
        with self._lock:
            began = self._asked = time.monotonic()
            readings = Readings()
            try:
                for reading in self._read(budget):
                    readings.add(reading)
            except Exception as error:  # not all that a client raises is a RedisError
                self._away(error)
            else:
                self._back()
            readings.add(Reading(names.REDIS_UP, (), self._up or False))
            for what in sorted(self._unreadable):
                readings.add(Reading(names.UNREADABLE, (what,), 1))
            readings.add(Reading(names.READ_FAILURES, (), self._failures))
            readings.add(Reading(names.READ_SECONDS, (), time.monotonic() - began))
            return readings

    def close(self) -> None:
        """Close the connections to Redis."""
        self._connection.close()

    @property
    def up(self) -> bool:
        """Whether Redis answered the last read."""
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
            self._let_go_of_others(limits, topics)
        for name in limits:
            yield from self._read_one(client, f"limit {name}", self._read_limit, name)
        for topic in topics:
            yield from self._read_one(client, f"topic {topic}", self._read_topic, topic)
        if self._discovery is not None:
            queries: list[str] = []
            yield from self._read_one(client, "Spark", self._find_queries, queries)
            for query in queries:
                yield from self._read_one(client, f"query {query}", self._read_query, query)

    def _let_go_of_others(self, limits: Sequence[str], topics: Sequence[str]) -> None:
        """Forget names that no longer exist: where they come and go, nothing may stay of each."""
        for name in self._managers.keys() - set(limits):
            self._managers.pop(name).close()
            self._unreadable.discard(f"limit {name}")
        for topic in self._timelines.keys() - set(topics):
            self._timelines.pop(topic).close()
            self._unreadable.discard(f"topic {topic}")

    def _read_one(
        self, client: Any, what: str, read: Callable[[Any, T], Iterable[Reading]], name: T
    ) -> list[Reading]:
        """One of many; if Redis answers, but not about this one, it does not hide the others."""
        try:
            readings = list(read(client, name))
        except Exception as error:
            client.time()  # raises if it is not this one alone
            self._failures += 1
            if what not in self._unreadable:
                facts = {"happening": "unreadable", "what": what, "error": type(error).__name__}
                _log.warning("%s cannot be read: %s", what, error, extra=facts)
            self._unreadable.add(what)
            return []
        self._unreadable.discard(what)
        return readings

    def _read_limit(self, client: Any, name: str) -> Iterable[Reading]:
        view = self._manager(client, name).look()
        return () if view is None else read_limit(name, view, members=self._members)

    def _read_topic(self, client: Any, topic: str) -> Iterable[Reading]:
        # A Timeline stores what a topic is if it is not there: only looking must not.
        if not client.exists(Layout(self._prefix, topic).settings):
            return ()
        try:
            return list(read_topic(self._timeline(client, topic)))
        except (
            BucketCountError
        ):  # it was deleted and created again: the next scrape reads it as it is now
            self._timelines.pop(topic).close()
            raise

    def _find_queries(self, client: Any, queries: list[str]) -> Iterable[Reading]:
        queries += queries_of(client, self._prefix)
        return ()

    def _read_query(self, client: Any, query: str) -> Iterable[Reading]:
        return read_query(client, self._prefix, query)

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
        said = str(error)
        if not isinstance(error, (LeaseManagerError, TimelineError)):
            said = in_words(error, self.where, f"{self._prefix}:*", NEEDS, self._prefix)
        self.trouble = said
        self._outage.began(error, self._asked, "Redis cannot be read: %s", said)
        self._up = False

    def _back(self) -> None:
        self.trouble = ""
        if self._up is False:
            self._outage.ended(self._asked, "Redis at %s answers again", self.where)
        self._up = True
