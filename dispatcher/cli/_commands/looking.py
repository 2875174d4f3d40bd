"""Read limits and topics from Redis once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dispatcher._discovery import BUDGET
from dispatcher.cli._commands.connecting import PATIENCE, URL_OPTION, naming_another
from dispatcher.cli._commands.finding import NameFinder
from dispatcher.cli._options.redis import RedisOptions
from dispatcher.timeline import Stats, Timeline
from limiters._support.validation import named
from limiters.errors import DispatcherError
from limiters.leases import LimitView

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Limits and topics by name; None if one does not exist, an error if it cannot be read."""

    limits: dict[str, LimitView | DispatcherError | None] = field(default_factory=dict)
    topics: dict[str, Stats | DispatcherError | None] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.limits and not self.topics

    @property
    def errors(self) -> list[DispatcherError]:
        """All errors among the limits and topics."""
        seen = (*self.limits.values(), *self.topics.values())
        return [one for one in seen if isinstance(one, DispatcherError)]


def look_once(options: RedisOptions, *, limits: bool = False, topics: bool = False) -> ClusterView:
    """Read all limits or all topics. LeaseManagerError or TimelineError if none of them can be
    read."""
    with closing(NameFinder(options.redis, options.prefix)) as finder:
        try:
            names, called = finder.look()
            found = (names if limits else [], called if topics else [])
            if not any(found):
                return ClusterView()
            with ClusterObserver(finder.client, options.prefix, *found) as observer:
                return observer.look()
        except DispatcherError as error:
            raise naming_another(options, error) from None


class ClusterObserver:
    """Reads the named limits and topics repeatedly, or all of them. A context manager: closes its
    connections."""

    def __init__(self, url: Any, prefix: str, limits: Sequence[str], topics: Sequence[str]) -> None:
        self._prefix = prefix
        self._limits: dict[str, RedisLeaseManager] = {}
        self._topics: dict[str, Timeline] = {}
        self._finder = None if limits or topics else NameFinder(url, prefix)
        with named(URL_OPTION):
            self._keep(url, limits, topics)

    def _keep(self, client: Any, limits: Sequence[str], topics: Sequence[str]) -> None:
        # Here, not above: `dispatcher --help` needs no Redis.
        from limiters.leases.redis import RedisLeaseManager

        self._close(self._limits.keys() - set(limits), self._topics.keys() - set(topics))
        self._limits = {
            name: self._limits.get(name)
            or RedisLeaseManager(client, name=name, prefix=self._prefix, timeout=PATIENCE)
            for name in limits
        }
        self._topics = {
            topic: self._topics.get(topic)
            or Timeline(client, topic, prefix=self._prefix, timeout=PATIENCE)
            for topic in topics
        }

    def _close(self, limits: Iterable[str], topics: Iterable[str]) -> None:
        with ExitStack() as closing:
            for name in limits:
                closing.callback(self._limits[name].close)
            for topic in topics:
                closing.callback(self._topics[topic].close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close(self._limits, self._topics)
        if self._finder is not None:
            self._finder.close()

    def look(self, budget: float = BUDGET) -> ClusterView:
        """Read limits and topics now. LeaseManagerError or TimelineError if none of them can be
        read. `budget`: seconds for finding names, if none were given."""
        if self._finder is not None:
            self._keep(self._finder.client, *self._finder.look(budget))
        seen = ClusterView(
            {name: _or_error(manager.look) for name, manager in self._limits.items()},
            {topic: _or_error(partial(_stats, it)) for topic, it in self._topics.items()},
        )
        if seen.errors and len(seen.errors) == len(seen.limits) + len(seen.topics):
            raise seen.errors[0]
        return seen


def _stats(timeline: Timeline) -> Stats | None:
    return timeline.stats() if timeline.exists() else None


def _or_error(look: Callable[[], T]) -> T | DispatcherError:
    """Return the result or the error: what cannot be read does not hide the rest."""
    try:
        return look()
    except DispatcherError as error:
        return error
