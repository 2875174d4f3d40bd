"""One look at limits and topics in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from dispatcher.cli._commands.connecting import PATIENCE, URL_OPTION
from dispatcher.timeline import Stats, Timeline
from limiters._support.validation import named
from limiters.leases import LimitView

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What there is; None is what does not exist."""

    limits: dict[str, LimitView | None] = field(default_factory=dict)
    topics: dict[str, Stats | None] = field(default_factory=dict)


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
        """What there is now. LeaseManagerError or TimelineError if Redis does not say."""
        return ClusterView(
            {manager.name: manager.look() for manager in self._limits},
            {it.topic: it.stats() if it.exists() else None for it in self._topics},
        )
