"""The file of the loop, and its summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.loop.record import HEADER, OF_SUITE, OF_TESTS, Run, append, place, read, summary

GOOD = Run(
    began="2026-01-01T00:00:00Z",
    commit="abc",
    seed=7,
    busy=0,
    load=1.5,
    seconds=300.0,
    result="passed",
    passed=2_800,
    skipped=4,
    what="",
    failing=(),
)
BAD = replace(
    GOOD,
    busy=2,
    result="failed",
    failing=("tests/unit/test_a.py::test_b[one two]", "tests/unit/test_a.py::test_c"),
)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "loop.tsv"
    assert read(path) == []
    append(path, GOOD)
    append(path, BAD)
    assert read(path) == [GOOD, BAD]
    assert path.read_text().startswith(HEADER)
    assert path.read_text().count("\n") == 3


def test_a_last_line_that_was_left_open_is_not_glued_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "loop.tsv"
    append(path, GOOD)
    path.write_text(path.read_text().rstrip("\n"))
    append(path, BAD)
    assert read(path) == [GOOD, BAD]


@pytest.mark.parametrize("arguments", [[], ["--numprocesses", "4", "-m", "not long"], ["-n", "2"]])
def test_the_whole_suite_is_recorded_in_the_file_that_is_committed(arguments: list[str]) -> None:
    assert place(arguments) == OF_SUITE


@pytest.mark.parametrize(
    "arguments", [["tests/unit"], ["-m", "spark"], ["-k", "window"], ["-m", "not long", "a.py::b"]]
)
def test_runs_of_some_tests_are_not(arguments: list[str]) -> None:
    assert place(arguments) == OF_TESTS


def test_what_a_test_is_called_never_breaks_a_line(tmp_path: Path) -> None:
    path = tmp_path / "loop.tsv"
    append(path, replace(BAD, result="crashed\n(exit\tcode 1)"))
    [run] = read(path)
    assert run.result == "crashed (exit code 1)"


def test_the_summary_counts_what_failed_at_this_commit_also_in_earlier_loops() -> None:
    runs = [GOOD, BAD, replace(BAD, failing=BAD.failing[:1]), replace(BAD, commit="other")]
    assert summary(runs, "abc", "").splitlines() == [
        "abc: 3 runs (2 on a busy machine): 2 failed, 1 passed",
        "  2 x tests/unit/test_a.py::test_b[one two]",
        "  1 x tests/unit/test_a.py::test_c",
    ]


def test_a_part_of_the_suite_is_not_counted_as_all_of_it() -> None:
    assert summary([replace(GOOD, what="tests/unit")], "abc", "").startswith("abc: 0 runs")
