"""One look at limits and topics in Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from dispatcher.cli._commands.connecting import PATIENCE, URL_OPTION
from dispatcher.timeline import Stats, Timeline
from limiters._support.validation import named
from limiters.errors import DispatcherError
from limiters.leases import LimitView

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What there is; None is what does not exist, an error what cannot be read."""

    limits: dict[str, LimitView | DispatcherError | None] = field(default_factory=dict)
    topics: dict[str, Stats | DispatcherError | None] = field(default_factory=dict)

    @property
    def errors(self) -> list[DispatcherError]:
        """All of them."""
        seen = (*self.limits.values(), *self.topics.values())
        return [one for one in seen if isinstance(one, DispatcherError)]


class ClusterObserver:
    """Looks again and again. A context manager: closes its connections."""

    def __init__(self, url: str, prefix: str, limits: Sequence[str], topics: Sequence[str]) -> None:
        # Here, not above: `dispatcher --help` needs no Redis.
        from limiters.leases.redis import RedisLeaseManager

        with named(URL_OPTION):
            self._limits: list[RedisLeaseManager] = [
                RedisLeaseManager(url, name=name, prefix=prefix, timeout=PATIENCE)
                for name in limits
            ]
            self._topics = [
                Timeline(url, topic, prefix=prefix, timeout=PATIENCE) for topic in topics
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with ExitStack() as closing:
            for manager in self._limits:
                closing.callback(manager.close)
            for timeline in self._topics:
                closing.callback(timeline.close)

    def look(self) -> ClusterView:
        """What there is now. LeaseManagerError or TimelineError if nothing of it can be read."""
        seen = ClusterView(
            {manager.name: _or_error(manager.look) for manager in self._limits},
            {it.topic: _or_error(partial(_stats, it)) for it in self._topics},
        )
        if len(seen.errors) == len(seen.limits) + len(seen.topics):
            raise seen.errors[0]
        return seen


def _stats(timeline: Timeline) -> Stats | None:
    return timeline.stats() if timeline.exists() else None


def _or_error(look: Callable[[], T]) -> T | DispatcherError:
    """What one look says: what cannot be read does not hide the rest."""
    try:
        return look()
    except DispatcherError as error:
        return error
