"""The page /metrics of a worker."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from dispatcher.worker._process.health_server import ServedPage

if TYPE_CHECKING:
    from dispatcher.worker import Worker


def page(worker: Worker) -> Callable[[], ServedPage]:
    """Return the page's function; without the extra `metrics` it says what to install."""
    try:
        from dispatcher.metrics import instrument
        from dispatcher.metrics._exposition import default_page
    except ImportError as error:
        missing = f"{error}\n".encode()
        return lambda: ServedPage(missing, HTTPStatus.NOT_IMPLEMENTED)
    instrument(worker, name=worker.timeline.topic)

    def made() -> ServedPage:
        body, kind = default_page()
        return ServedPage(body, kind=kind)

    return made
