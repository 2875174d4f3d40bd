"""Workers as processes, started as anyone starts them: `dispatcher worker ...`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dispatcher.timeline import Created, Duplicate, Message, Producer, TimelineUnavailableError
from tests.processes import ROOT
from tests.processes.noted import lines
from tests.waiting import until

PROGRAM = """
import tests.processes.wrong_clocks  # before any code reads a clock
import sys
from dispatcher.cli.main import main
sys.exit(main())
"""


class WorkerProcess:
    """One of them, and what it says."""

    def __init__(self, handler: str, *options: str, **environment: str) -> None:
        self.said: list[str] = []
        self._more = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "worker", handler, *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.said.append(line)
                self._more.notify_all()
        with self._more:
            self.said.append("")
            self._more.notify_all()

    @property
    def text(self) -> str:
        """Its output so far."""
        return "".join(self.said)

    def await_word(self, word: str, times: int = 1, timeout: float = 30) -> None:
        """Return when it has printed this."""

        def is_there() -> bool:
            return self.text.count(word) >= times or "" in self.said

        with self._more:
            assert self._more.wait_for(is_there, timeout), f"no {word!r} in {self.text}"
        assert self.text.count(word) >= times, f"no {word!r} in {self.text}"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def signal_until_it_ends(self, number: int) -> None:
        """Send a signal repeatedly, as an impatient user does."""

        def is_over() -> bool:
            self.process.send_signal(number)
            return self.process.poll() is not None

        until(is_over)

    def ended(self, timeout: float = 30) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def end(self) -> None:
        """Whatever it takes; those that it has started end with it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._reader.join(30)
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()


def create_at_last(producer: Producer, messages: list[Message]) -> set[str]:
    """Asks again and again, while Redis is away, until all are there; returns their ids."""
    names: set[str] = set()
    while len(names) < len(messages):
        try:
            outcomes = producer.create(messages)
        except TimelineUnavailableError:
            time.sleep(0.02)
        else:
            names = {one.id for one in outcomes if isinstance(one, (Created, Duplicate))}
    return names


def notes(log: Path) -> list[dict[str, Any]]:
    """The notes of the handlers."""
    return [json.loads(line) for line in lines(log)]


def handled(log: Path) -> list[str]:
    """The ids of what was handled."""
    return [it[0] for one in notes(log) if one["what"] == "handled" for it in one["messages"]]
