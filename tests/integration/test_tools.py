"""Tools that are ended leave nothing behind, and what they cannot do they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import wait_until

ROOT = Path(__file__).parents[2]
COMPARE = [sys.executable, "-m", "benchmarks.compare"]


def children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_comparison_that_is_ended_removes_its_clones(tmp_path: Path, end: signal.Signals) -> None:
    variables = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([*COMPARE, "HEAD"], cwd=ROOT, env=variables) as comparison:
        wait_until(lambda: list(tmp_path.glob("compare-*/head/benchmarks")), within=90)
        comparison.send_signal(end)
        assert comparison.wait(90) == 130
    assert not list(tmp_path.glob("compare-*"))


def test_a_base_that_is_no_commit_is_named() -> None:
    done = subprocess.run(
        [*COMPARE, "nothing-of-this-name"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "nothing-of-this-name is not a commit of this repository" in done.stderr


def _workers(folder: Path) -> int:
    """How many workers the cluster has."""
    logs = folder.glob("cluster-*/spark/*.log")
    return sum("Successfully registered with master" in log.read_text() for log in logs)


def test_a_cluster_suite_that_is_ended_ends_its_cluster(tmp_path: Path) -> None:
    variables = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.cluster", "none"]
    with subprocess.Popen(command, cwd=ROOT, env=variables) as suite:
        wait_until(lambda: _workers(tmp_path) == 2, within=90)
        pids = children(suite.pid)
        suite.send_signal(signal.SIGTERM)
        assert suite.wait(90) == 130
    # A helper that watches over its parent ends a little later.
    wait_until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], within=30)
    assert not list(tmp_path.glob("cluster-*"))


def test_storms_that_are_ended_end_their_processes(tmp_path: Path) -> None:
    file = tmp_path / "storms.tsv"
    command = [sys.executable, "-m", "tests.simulation", "--storm", "returns", "--file", str(file)]
    with subprocess.Popen(command, cwd=ROOT) as storms:
        wait_until(file.exists, within=90)
        pids = children(storms.pid)
        storms.send_signal(signal.SIGTERM)
        assert storms.wait(90) == 130
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
