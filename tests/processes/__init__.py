"""A cluster of real processes, and the log of what they spent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from limiters.verifier import Spent
from tests.processes.noted import lines
from tests.processes.plan import ProcessPlan

ROOT = Path(__file__).parents[2]


class Process:
    """One process of the cluster."""

    def __init__(self, plan: ProcessPlan) -> None:
        self.plan = plan
        self._process = subprocess.Popen(
            [sys.executable, "-m", plan.program, plan.as_argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )

    def await_ready(self) -> None:
        """Returns when it has started."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def signal(self, number: signal.Signals) -> None:
        """Kills it, stops it, lets it go on."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Ends it gracefully, or, if it was killed already, notes that."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def end(self) -> None:
        """Kill it if it still runs."""
        self._process.kill()
        self.stop()


class Processes:
    """Several, started together, with one log. A context manager: none outlives it."""

    def __init__(self, plan: ProcessPlan) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="processes-")
        self.plan = replace(plan, log=os.path.join(self._directory.name, "log"))
        self.running: dict[tuple[str, ...], Process] = {}

    def start(self, groups: Sequence[Sequence[str]], **changes: object) -> list[Process]:
        """A process for each group of names; returns when all have started."""
        started = []
        for names in groups:
            plan = replace(self.plan, names=tuple(names), **changes)  # type: ignore[arg-type]
            started.append(Process(plan))
            self.running[tuple(names)] = started[-1]
        for process in started:
            process.await_ready()
        return started

    def log(self) -> list[Spent]:
        """The costs spent until now, in order."""
        entries = []
        for line in lines(self.plan.log):
            at, instance, cost = line.split("\t")
            entries.append(Spent(float(at), instance, float(cost)))
        return sorted(entries)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.running.values():
            process.end()
        self._directory.cleanup()
