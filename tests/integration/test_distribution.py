"""Tests in several processes: modules stay together, and one crash is one failure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

CONFTEST = """
import pytest
from tests.distribution import asked_for, begins, scheduler

def pytest_xdist_make_scheduler(config, log):
    return scheduler(config, log)

def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: begins(item.nodeid, asked_for(item)))
"""

CRASHING = """
import os
import pytest

@pytest.mark.parametrize("number", range(6))
def test_a(number):
    if number == 2:
        os._exit(3)
"""

TIMED = """
import pytest

def test_short(): pass

@pytest.mark.timeout(600)
def test_long(): pass
"""


def run(folder: Path, modules: dict[str, str], *options: str) -> str:
    for name, program in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]\n", **modules}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(program)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:valkey", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), *options, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return done.stdout


def test_a_test_that_ends_its_process_fails_once_and_the_others_pass(tmp_path: Path) -> None:
    said = run(tmp_path, {"test_crashing.py": CRASHING}, "-n2")
    assert re.search(r"1 failed, 5 passed", said), said
    assert "crashed while running 'test_crashing.py::test_a[2]'" in said


def test_a_module_stays_in_one_process_and_what_takes_longest_begins_first(tmp_path: Path) -> None:
    unit = {f"tests/unit/test_{name}.py": CRASHING.replace("== 2", "< 0") for name in "ab"}
    said = run(tmp_path, {**unit, "test_timed.py": TIMED}, "-n2")
    ran = re.findall(r"\[(gw\d)\].* PASSED (\S+?)::", said)
    assert len(ran) == 14, said
    assert len(set(ran)) == 3, said
    alone = re.findall(r"^\S+::(test_\w+)", run(tmp_path, {}), re.MULTILINE)
    assert alone[0] == "test_long"
