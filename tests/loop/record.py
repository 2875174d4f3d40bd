"""The file of the loop: a line for each run, appended as it ends, so that a loop may go on
elsewhere and on another day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

PASSED = "passed"


class RecordError(ValueError):
    """A line of the file is not a run: cut off, or left over from a merge."""


@dataclass(frozen=True)
class Run:
    """One run of the suite."""

    began: str
    commit: str
    seed: int
    """Of Hypothesis and of hashes (PYTHONHASHSEED)."""
    busy: int
    """Processes that kept the processor busy besides."""
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
    """Node ids."""

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


def append(path: Path, run: Run) -> None:
    """Write a line."""
    with path.open("a", encoding="utf-8") as file:
        if file.tell() == 0:
            file.write(HEADER)
        file.write(run.line())


def read(path: Path) -> list[Run]:
    """All runs so far."""
    if not path.exists():
        return []
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [_parsed(path, number, line) for number, line in lines if line + "\n" != HEADER]


def _parsed(path: Path, number: int, line: str) -> Run:
    try:
        return Run.parse(line)
    except ValueError:
        raise RecordError(
            f"{path}, line {number}: not a run of the loop, correct or delete it: {line!r}"
        ) from None


def summary(runs: Iterable[Run], commit: str, what: str) -> str:
    """What failed how often at this commit, in this run of the loop and in earlier ones."""
    of_commit = [run for run in runs if (run.commit, run.what) == (commit, what)]
    results = Counter(run.result for run in of_commit)
    busy = sum(run.busy > 0 for run in of_commit)
    counted = ", ".join(f"{number} {result}" for result, number in results.most_common())
    lines = [f"{commit}: {len(of_commit)} runs ({busy} on a busy machine): {counted or 'none'}"]
    failing = Counter(test for run in of_commit for test in run.failing)
    lines += [f"  {number} x {test}" for test, number in failing.most_common()]
    return "\n".join(lines)
