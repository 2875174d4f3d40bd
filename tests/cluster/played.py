"""One fault, played and judged by what handlers noted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.faults import Fault
from tests.cluster.stage import Stage, staged
from tests.servers.spark_cluster import SparkCluster

CAPACITY = 4_000.0


@dataclass(frozen=True)
class Played:
    """A row of the table."""

    fault: str
    rows: int = 0
    lost: int = 0
    twice: int = 0
    """Rows that were sent more than once."""
    out_of_order: int = 0
    at_once: int = 0
    """Batches that were in flight beside another one of their subject."""
    over: int = 0
    """Windows over the limit."""
    seconds: float = 0.0
    wrong: str = ""

    @property
    def holds(self) -> bool:
        """Whether all is as it should be."""
        return not self.wrong


def play(fault: Fault, cluster: SparkCluster, folder: Path) -> Played:
    """Plays `fault` in `folder`, which is empty."""
    began = time.monotonic()
    with staged(cluster, folder, conf=fault.conf, sizes=fault.sizes) as stage:
        try:
            fault.play(stage)
            wrong = ""
        except AssertionError as error:
            wrong = f"{type(error).__name__}: {error}"
        return _judged(fault.name, stage, time.monotonic() - began, wrong)


def _judged(name: str, stage: Stage, seconds: float, wrong: str) -> Played:
    notes = stage.notes
    again = notes.sent_again
    found = Played(
        name,
        sum(stage.scene.expected.values()),
        stage.scene.lost,
        notes.rows_sent_again(),
        len(notes.out_of_order()),
        len(notes.at_once()),
        notes.verdict(CAPACITY).over,
        seconds,
        wrong,
    )
    # A kill between the handler's return and the note of it: what was in flight then.
    most_again = stage.killed * stage.setting.concurrency
    problems = {
        "rows lost": found.lost,
        "batches out of order": found.out_of_order,
        "batches of a subject at once": found.at_once,
        "windows over": found.over,
        f"batches sent again ({most_again} may be)": max(0, len(again) - most_again),
        "late batches": sum(one.late for one in notes.all),
    }
    said = [f"{number} {what}" for what, number in problems.items() if number]
    return found if not said else _with(found, "; ".join([*filter(None, [wrong]), *said]))


def _with(found: Played, wrong: str) -> Played:
    return Played(**{**vars(found), "wrong": wrong})
