"""Which alerts fire in a Prometheus, and about what."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.prometheus import Prometheus


@contextmanager
def noted(prometheus: Prometheus) -> Iterator[set[tuple[str, str]]]:
    """Which alerts have been firing, and about what."""
    seen: set[tuple[str, str]] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.25):
            seen.update(firing(prometheus))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def firing(prometheus: Prometheus) -> set[tuple[str, str]]:
    """The alerts that are firing now, and what they are about."""
    subjects = ("limit", "topic", "query", "job")
    return {
        (
            labels["alertname"].removeprefix("Dispatcher"),
            next((labels[one] for one in subjects if one in labels), ""),
        )
        for labels in prometheus.firing()
    }
