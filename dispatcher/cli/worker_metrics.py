"""The page /metrics of a worker."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from dispatcher.worker.pages import Page

if TYPE_CHECKING:
    from dispatcher.worker import Worker


def page(worker: Worker) -> Callable[[], Page]:
    """What makes it; without the extra `metrics` it says what to install."""
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

        from dispatcher.metrics import instrument
    except ImportError as error:
        missing = f"metrics need {error.name}: pip install 'batch-dispatcher[metrics]'\n".encode()
        return lambda: Page(missing, HTTPStatus.NOT_IMPLEMENTED)
    instrument(worker, name=worker.timeline.topic)
    return lambda: Page(generate_latest(REGISTRY), kind=CONTENT_TYPE_LATEST)
