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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.__main__ import GROUPS
from benchmarks.ratios import Comparison, verdict
from tests.loop.ending import INTERRUPTED, end_as_by_ctrl_c
from tests.loop.options import whole
from tests.loop.suite import CloneError, GitError, clone, environment, git

ROOT = Path(__file__).parents[1]
ORDERS = (("base", "head", "again"), ("again", "head", "base"))

LEAST_ROUNDS = 10

Values = dict[str, dict[str, list[float]]]
"""For each figure and turn, a value for each round in which it was measured."""


class MeasureError(RuntimeError):
    """A tree cannot be measured, for the reason in the message."""


def main() -> int:
    """Return the exit code: 1 if a figure differs, 2 if a tree cannot be measured, 130 if
    interrupted."""
    parser = argparse.ArgumentParser("python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", help="a commit")
    parser.add_argument("--what", default="throughput,sharing", help="groups of figures")
    parser.add_argument(
        "--rounds", type=whole(LEAST_ROUNDS, "ROUNDS"), default=LEAST_ROUNDS, help="at least 10"
    )
    options = parser.parse_args()
    groups = options.what.split(",")
    if unknown := [one for one in groups if one not in GROUPS]:
        parser.error(
            f"--what (by make: WHAT): no group {', '.join(map(repr, unknown))}; "
            f"there are: {', '.join(GROUPS)}"
        )
    end_as_by_ctrl_c()
    if not is_commit(options.base):
        other = f"origin/{options.base}"
        more = f"; try {other}" if is_commit(other) else ""
        parser.error(f"{options.base} is not a commit of this repository{more}")
    if git("status", "--porcelain", "--", "dispatcher", "limiters", at=ROOT):
        print("What is not committed is not measured.")
    comparisons = []
    try:
        with tempfile.TemporaryDirectory(prefix="compare-") as directory:
            trees = made(Path(directory), options.base)
            for group in groups:
                print(f"{group}: {options.rounds} rounds, head/base", flush=True)
                for one in compared(trees, group, options.rounds):
                    if isinstance(one, Comparison):
                        comparisons.append(one)
                    print(one, flush=True)
    except MeasureError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED
    if not comparisons:
        print("verdict: none, as no figure was measured in each turn")
        return 2
    print(verdict(comparisons))
    return int(any(one.differs for one in comparisons))


def made(directory: Path, base: str) -> dict[str, Path]:
    """Return the tree of each turn."""
    base_tree, head = directory / "base", directory / "head"
    commits = clone(ROOT, base_tree, base), clone(ROOT, head)
    print(f"base {commits[0]}, head {commits[1]}")
    for tree in (base_tree, head):
        shutil.rmtree(tree / "benchmarks", ignore_errors=True)
        shutil.copytree(ROOT / "benchmarks", tree / "benchmarks")
    return {"base": base_tree, "again": base_tree, "head": head}


def is_commit(name: str) -> bool:
    """Whether this repository has the commit."""
    with suppress(GitError):
        git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", at=ROOT)
        return True
    return False


def compared(trees: dict[str, Path], group: str, rounds: int) -> Iterator[Comparison | str]:
    """Return each figure of the group, or why it has none."""
    values: Values = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        for turn in ORDERS[number % 2]:
            for name, value in measured(turn, trees[turn], group).items():
                values[name][turn].append(value)
    for name, turns in values.items():
        yield comparison(name, turns, rounds)


def comparison(name: str, turns: dict[str, list[float]], rounds: int) -> Comparison | str:
    """Return the comparison; a ratio needs a value in each turn; a base of 0 has none."""
    missing = [
        f"{turn} in {rounds - count} of {rounds} rounds"
        for turn in ORDERS[0]
        if (count := sum(value != 0 for value in turns.get(turn, ()))) < rounds
    ]
    if missing:
        return f"  not measured: {name} (missing or 0: {', '.join(missing)})"
    return Comparison.of(name, **turns)


def measured(turn: str, tree: Path, group: str) -> dict[str, float]:
    """Return the figures of one tree, from a separate process, whether or not their bounds hold."""
    command = [sys.executable, "-m", "benchmarks", "--brief", "--json", group]
    try:
        variables = environment(tree, 0)
    except CloneError as error:
        raise MeasureError(f"{turn} cannot be measured: {error}") from error
    done = subprocess.run(command, cwd=tree, env=variables, stdout=subprocess.PIPE, check=False)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode not in (0, 1) or not figures:
        command_line = f"python -m benchmarks --brief {group}"
        raise MeasureError(
            f"{turn} cannot be measured: `{command_line}` ended with exit code {done.returncode} "
            f"and {len(figures)} figures there"
        )
    return {one["name"]: one["value"] for one in figures}


if __name__ == "__main__":
    sys.exit(main())
