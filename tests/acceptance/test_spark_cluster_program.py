"""`make cluster`, when it is ended, ends its cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]


def _children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _workers(folder: Path) -> int:
    """How many workers the cluster has."""
    logs = folder.glob("cluster-*/spark/*.log")
    return sum("Successfully registered with master" in log.read_text() for log in logs)


def test_a_cluster_suite_that_is_ended_ends_its_cluster(tmp_path: Path) -> None:
    variables = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.cluster", "none"]
    with subprocess.Popen(command, cwd=ROOT, env=variables) as suite:
        # The other worker, one more Java machine, is about to start.
        until(lambda: _workers(tmp_path) == 1 or suite.poll() is not None, within=90)
        assert suite.poll() is None, "it has ended by itself"
        pids = _children(suite.pid)
        assert pids
        suite.send_signal(signal.SIGTERM)
        assert suite.wait(90) == 130
    # A helper that watches over its parent ends a little later.
    until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], within=30)
    assert not list(tmp_path.glob("cluster-*"))
