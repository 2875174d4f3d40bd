"""python -m benchmarks.compare BASE [--what throughput,sharing] [--rounds 10]

Measures two commits in turns, in one run: BASE, and the one that is checked out. Both are clones,
and both are measured by the benchmarks that are checked out. Each round measures the base, the
other tree and the base again, or the same from behind, so that a machine that becomes slower
counts for both.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.__main__ import GROUPS
from benchmarks.ratios import Comparison, verdict
from tests.loop.ending import end_as_by_ctrl_c
from tests.loop.suite import GitError, clone, environment, git

ROOT = Path(__file__).parents[1]
ORDERS = (("base", "head", "again"), ("again", "head", "base"))

Values = dict[str, dict[str, list[float]]]
"""By figure, then by turn: a value for each round."""


def main() -> int:
    """The exit code: 1 if a figure differs, 130 if it was interrupted."""
    parser = argparse.ArgumentParser("python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", help="a commit")
    parser.add_argument("--what", default="throughput,sharing", help="groups of figures")
    parser.add_argument("--rounds", type=int, default=10, help="at least 10")
    options = parser.parse_args()
    groups = options.what.split(",")
    if options.rounds < 10 or not set(groups) <= set(GROUPS):
        parser.error(f"at least 10 rounds, of: {', '.join(GROUPS)}")
    end_as_by_ctrl_c()
    try:
        git("rev-parse", "--verify", "--quiet", f"{options.base}^{{commit}}", at=ROOT)
    except GitError:
        parser.error(f"{options.base} is not a commit of this repository")
    if git("status", "--porcelain", "--", "dispatcher", "limiters", at=ROOT):
        print("What is not committed is not measured.")
    comparisons = []
    try:
        with tempfile.TemporaryDirectory(prefix="compare-") as directory:
            trees = made(Path(directory), options.base)
            for group in groups:
                print(f"{group}: {options.rounds} rounds, head/base", flush=True)
                for one in compared(trees, group, options.rounds):
                    comparisons.append(one)
                    print(one, flush=True)
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    print(verdict(comparisons))
    return int(any(one.differs for one in comparisons))


def made(directory: Path, base: str) -> dict[str, Path]:
    """The tree of each turn."""
    base_tree, head = directory / "base", directory / "head"
    commits = clone(ROOT, base_tree, base), clone(ROOT, head)
    print(f"base {commits[0]}, head {commits[1]}")
    for tree in (base_tree, head):
        shutil.rmtree(tree / "benchmarks", ignore_errors=True)
        shutil.copytree(ROOT / "benchmarks", tree / "benchmarks")
    return {"base": base_tree, "again": base_tree, "head": head}


def compared(trees: dict[str, Path], group: str, rounds: int) -> list[Comparison]:
    """Each figure of the group."""
    values: Values = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        for turn in ORDERS[number % 2]:
            for name, value in measured(trees[turn], group).items():
                values[name][turn].append(value)
    return [Comparison.of(name, **turns) for name, turns in values.items()]


def measured(tree: Path, group: str) -> dict[str, float]:
    """The figures of one tree, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks", "--brief", "--json", group]
    done = subprocess.run(
        command, cwd=tree, env=environment(tree, 0), stdout=subprocess.PIPE, check=True
    )
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["name"]: one["value"] for one in figures if one["value"]}


if __name__ == "__main__":
    sys.exit(main())
