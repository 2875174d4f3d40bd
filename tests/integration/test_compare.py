"""Trees are compared by what their benchmarks print, whether or not each figure's bound holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import compare
from benchmarks.ratios import Comparison
from tests.loop.suite import git

ROOT = Path(__file__).parents[2]
ROUNDS = 10

PRINTS = """
import json, sys
for name, value in (("a", 2.0), ("b", 0.0)):
    print(json.dumps({{"name": name, "value": value}}), flush=True)
{then}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One whose benchmarks print two figures, and a bound does not hold."""
    for package in ("dispatcher", "limiters", "benchmarks"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    ends(tmp_path, "sys.exit(1)")
    return tmp_path


def ends(tree: Path, then: str) -> None:
    (tree / "benchmarks" / "__main__.py").write_text(PRINTS.format(then=then))


def test_a_bound_that_does_not_hold_leaves_the_figures(tree: Path) -> None:
    assert compare.measured("base", tree, "sharing") == {"a": 2.0, "b": 0.0}


def test_one_figure_that_was_not_measured_leaves_the_others(tree: Path) -> None:
    trees = {"base": tree, "again": tree, "head": tree}
    first, second = compare.compared(trees, "sharing", 2)
    assert isinstance(first, Comparison)
    assert first.change.median == 1
    in_all = ", ".join(f"{turn} in 2 of 2 rounds" for turn in ("base", "head", "again"))
    assert second == f"  not measured: b (missing or 0: {in_all})"


def test_a_figure_that_is_missing_in_one_turn_is_not_measured() -> None:
    turns = {"base": [1.0] * ROUNDS, "again": [1.0] * ROUNDS, "head": [1.0] * (ROUNDS - 1)}
    told = compare.comparison("a", turns, ROUNDS)
    assert told == "  not measured: a (missing or 0: head in 1 of 10 rounds)"
    del turns["head"]
    assert "head in 10 of 10 rounds" in str(compare.comparison("a", turns, ROUNDS))


@pytest.mark.parametrize("then", ["sys.exit(2)", "import os; os.abort()"])
def test_a_tree_whose_benchmarks_end_otherwise_cannot_be_measured(tree: Path, then: str) -> None:
    ends(tree, then)
    with pytest.raises(compare.MeasureError, match="base cannot be measured: `python -m bench"):
        compare.measured("base", tree, "sharing")


def test_a_tree_that_prints_no_figure_cannot_be_measured(tree: Path) -> None:
    (tree / "benchmarks" / "__main__.py").write_text("raise ImportError")
    with pytest.raises(compare.MeasureError, match="exit code 1 and 0 figures"):
        compare.measured("base", tree, "sharing")


def test_a_tree_without_the_packages_cannot_be_measured(tree: Path) -> None:
    (tree / "limiters" / "__init__.py").write_text("raise ImportError('too old')")
    with pytest.raises(compare.MeasureError, match="cannot be imported: ImportError: too old"):
        compare.measured("base", tree, "sharing")


def refused(*arguments: str, root: Path = ROOT) -> str:
    """The error for a wrong command line."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compare", *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_a_wrong_group_and_too_few_rounds_have_messages_of_their_own() -> None:
    said = refused("HEAD", "--what", "sharing,no such")
    assert "--what (by make: WHAT): no group 'no such'; there are: throughput, " in said
    assert "rounds" not in said.splitlines()[-1]
    said = refused("HEAD", "--rounds", "9")
    told = "argument --rounds: must be a whole number, at least 10, not '9' (by make: ROUNDS)"
    assert told in said


def test_a_base_that_is_no_commit_is_named_and_one_of_origin_is_proposed(tmp_path: Path) -> None:
    assert "no-such is not a commit of this repository\n" in refused("no-such")
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    git("clone", "--quiet", "--shared", ROOT, origin, at=ROOT)
    git("checkout", "--quiet", "-B", "trunk", at=origin)
    git("branch", "topic", at=origin)
    git("clone", "--quiet", "--shared", "--branch", "topic", origin, clone, at=ROOT)
    for folder in ("benchmarks", "tests"):  # as they are here, committed or not
        subprocess.run(["cp", "-r", ROOT / folder, clone], check=True)
    said = refused("trunk", root=clone)
    assert "trunk is not a commit of this repository; try origin/trunk\n" in said
