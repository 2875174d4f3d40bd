"""Ctrl-C while a command is still being imported."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == IMPORTED:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from dispatcher.__main__ import program
sys.exit(program())
"""


@pytest.mark.parametrize("imported", ["argparse", "dispatcher.cli._options.parser", "redis"])
def test_it_ends_without_a_traceback(imported: str) -> None:
    code = f"IMPORTED = {imported!r}{INTERRUPTED}"
    command = [sys.executable, "-c", code, "limit", "show", "orders"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGINT:  # nothing handled signals yet
        assert done.stderr == ""
    else:
        assert done.returncode == 130
        assert done.stderr.strip().splitlines() == ["interrupted"]
