"""Work for worker processes, and their pages."""

from __future__ import annotations

from collections.abc import Callable
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from dispatcher.timeline import Message, Timeline
from tests.processes.workers import WorkerProcess

HANDLERS = "tests.processes.worker_handlers"
Start = Callable[..., WorkerProcess]


def create(timeline: Timeline, count: int) -> None:
    made = [Message(number, id=f"m{number}") for number in range(count)]
    assert all(outcome.ok for outcome in timeline.producer("us").create(made))


def page(port: int, path: str) -> tuple[int, str]:
    """The status and the text; 0 if no server listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (URLError, OSError):
        return 0, ""
