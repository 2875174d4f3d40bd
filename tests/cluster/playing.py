"""Plays one fault on a cluster."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.faults import Fault
from tests.cluster.stage import staged
from tests.cluster.verdict import Played, judged
from tests.processes.spark_sink import LIMITS
from tests.servers.spark_cluster import SparkCluster


def play(fault: Fault, cluster: SparkCluster, folder: Path) -> Played:
    """Play `fault` in `folder`, which is empty, and judge the notes of the handlers."""
    failed: tuple[str, ...] = ()
    with staged(cluster, folder, conf=fault.conf, sizes=fault.sizes) as stage:
        try:
            fault.play(stage)
        except AssertionError as error:
            failed = (f"{type(error).__name__}: {error}",)
        # A process may be killed between a handler's return and its note: these calls were in
        # flight then.
        again = stage.killed * stage.setting.concurrency
        expected = dict(stage.scene.expected)
        expected.pop(stage.setting.poison, None)
        limits = LIMITS if stage.setting.several else None
        return judged(fault.name, stage.notes, expected, again=again, failed=failed, limits=limits)
