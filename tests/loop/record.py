"""The file of the loop: a line for each run of the suite."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from tests.loop import lines

PASSED = "passed"
LOGS = ".loop"  #: The folder for what is not committed.
WIDEST = 300  #: Of what is listed, in characters.
OF_SUITE, OF_TESTS = Path(lines.RECORDS[0]), Path(LOGS, "runs.tsv")


@dataclass(frozen=True)
class Run:
    """One run of the suite."""

    began: str
    commit: str
    seed: int
    """Seed of Hypothesis and of hashes (`PYTHONHASHSEED`)."""
    busy: int
    """Number of further processes that kept the processor busy."""
    load: float
    """The load average over the last minute, at the end."""
    seconds: float
    result: str
    """`passed`, `failed`, or what else became of it."""
    passed: int
    skipped: int
    what: str
    """The arguments of pytest."""
    failing: tuple[str, ...]
    """Node ids of the failed tests."""

    def line(self) -> str:
        """The form in which it is written."""
        *facts, failing = astuple(self)
        return "\t".join([*map(_shown, facts), "  ".join(failing)]) + "\n"

    @classmethod
    def parse(cls, line: str) -> Run:
        """The inverse of `line`."""
        *facts, failing = line.rstrip("\n").split("\t")
        began, commit, seed, busy, load, seconds, result, passed, skipped, what = facts
        counts = int(seed), int(busy), float(load), float(seconds)
        ids = tuple(failing.split("  ")) if failing else ()
        return cls(began, commit, *counts, result, int(passed), int(skipped), what, ids)


def _shown(fact: object) -> str:
    text = f"{fact:.1f}" if isinstance(fact, float) else str(fact)
    return " ".join(text.split())


HEADER = "\t".join(field.name for field in fields(Run)) + "\n"


def place(arguments: Sequence[str]) -> Path:
    """The file for runs with these arguments of pytest: runs of some tests are not committed.

    >>> str(place(["--numprocesses", "4", "-m", "not long"]))
    'tests/loop.tsv'
    >>> str(place(["-m", "not long", "tests/unit"]))
    '.loop/runs.tsv'
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--numprocesses")
    parser.add_argument("-m", default="")
    known, others = parser.parse_known_args(arguments)
    return OF_SUITE if known.m in ("", "not long") and not others else OF_TESTS


def append(path: Path, run: Run) -> None:
    lines.append(path, HEADER, run.line())


def read(path: Path) -> list[Run]:
    """All runs so far; RecordError if a line is not a run: cut off, or left over from a merge."""
    return lines.read(path, HEADER, Run.parse, "a run of the loop")


def summary(runs: Iterable[Run], commit: str, what: str) -> str:
    """Return what failed how often at this commit, in this run of the loop and in earlier ones."""
    of_commit = [run for run in runs if (run.commit, run.what) == (commit, what)]
    results = Counter(run.result for run in of_commit)
    busy = sum(run.busy > 0 for run in of_commit)
    counted = ", ".join(f"{number} {result}" for result, number in results.most_common())
    told = [f"{commit}: {len(of_commit)} runs ({busy} on a busy machine): {counted or 'none'}"]
    failing = Counter(test for run in of_commit for test in run.failing)
    told += first_of([f"{number} x {test}" for test, number in failing.most_common()])
    return "\n".join(told)


def first_of(listed: Sequence[str], most: int = 20) -> list[str]:
    """So many lines to print, none of them longer than a few lines of a terminal.

    >>> first_of(["one", "two", "three"], 2)
    ['  one', '  two', '  and 1 more']
    """
    shown = [f"  {one[:WIDEST]}" for one in listed[:most]]
    return shown if len(listed) <= most else [*shown, f"  and {len(listed) - most} more"]
