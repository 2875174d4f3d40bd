"""One run of pytest in a clone, and what its report says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from tests.loop import ending

NOTHING_RUN = (4, 5)
"""Exit codes of pytest: wrong arguments, and no test found."""


class GitError(RuntimeError):
    """Git refused a command, for the reason in the message."""


class CloneError(RuntimeError):
    """The clone is not what would be tested."""


class NothingRunError(RuntimeError):
    """Pytest ran no test, for the reason in the message."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    result: str
    passed: int = 0
    skipped: int = 0
    failing: tuple[str, ...] = ()


def git(*arguments: str | Path, at: Path) -> str:
    """Return the output of git."""
    command = ["git", "-C", at, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GitError(f"git {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout.strip()


def clone(source: Path, target: Path, commit: str = "HEAD") -> str:
    """Clone a commit, without what is not committed; return its hash."""
    commit = git("rev-parse", "--verify", f"{commit}^{{commit}}", at=source)
    git("clone", "--quiet", "--no-checkout", source, target, at=source)
    git("checkout", "--quiet", "--detach", commit, at=target)
    return git("rev-parse", "--short=10", "HEAD", at=target)


def last_change(root: Path, *paths: str) -> str:
    """The commit that last changed one of these, so that others do not count as a change."""
    return git("log", "-1", "--abbrev=10", "--format=%h", "--", *paths, at=root)


def uncommitted(root: Path, *paths: str) -> list[str]:
    """The files below `paths` whose changes are not committed."""
    told = git("status", "--porcelain", "--untracked-files=all", "--", *paths, at=root)
    return [line.split(maxsplit=1)[1] for line in told.splitlines()]


def without(*paths: str) -> list[str]:
    """For `uncommitted` and `last_change`: all paths but these."""
    return [".", *(f":!{one}" for one in paths)]


def environment(root: Path, seed: int) -> dict[str, str]:
    """Programs of the clone import its packages, though this environment has others installed."""
    variables = {**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": str(seed)}
    code = "import dispatcher, limiters; print(dispatcher.__path__[0], limiters.__path__[0])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=variables, cwd="/", check=False, capture_output=True, text=True
    )
    if done.returncode:
        told = done.stderr.strip().splitlines()[-1:]
        raise CloneError(f"the packages in {root} cannot be imported: {' '.join(told)}")
    found = done.stdout.split()
    if not all(Path(one).is_relative_to(root) for one in found):
        raise CloneError(f"the tests in {root} would import {' and '.join(found)}")
    return variables


def run(root: Path, arguments: Sequence[str], seed: int, limit: float, log: Path) -> Outcome:
    """Run pytest in `root` for at most `limit` seconds; what it prints goes to `log`.

    NothingRunError if it runs no test: the next run would not either.
    """
    report = log.with_suffix(".xml")
    command = [sys.executable, "-m", "pytest", *arguments, f"--hypothesis-seed={seed}"]
    command += ["--junitxml", str(report), "-o", "junit_logging=all"]
    variables = environment(root, seed)
    try:
        code = ending.run(command, cwd=root, env=variables, log=log, limit=limit)
    except subprocess.TimeoutExpired:
        return replace(outcome(0, report, root), result=f"not ended after {limit:g} s")
    if code in NOTHING_RUN:
        raise NothingRunError(log.read_text(errors="replace").strip())
    return outcome(code, report, root)


def outcome(code: int, report: Path, root: Path) -> Outcome:
    """Read the result from an exit code and a report in JUnit's format."""
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return Outcome(f"crashed (exit code {code})")
    ends = [(_ended(case), case) for case in cases]
    counts = Counter(end for end, _ in ends)
    failing = {_node_id(case, root): None for end, case in ends if end == "failed"}
    known = {0: "passed", 1: "failed"}
    result = known.get(code, f"crashed (exit code {code})")
    return Outcome(result, counts["passed"], counts["skipped"], tuple(failing))


def _ended(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def _node_id(case: ElementTree.Element, root: Path) -> str:
    """The name by which pytest runs it: the module is the longest part that is a file."""
    names = case.get("classname", "").split(".")
    for count in range(len(names), 0, -1):
        path = "/".join(names[:count]) + ".py"
        if (root / path).exists():
            return "::".join([path, *names[count:], case.get("name", "")])
    return case.get("name", "")  # a module that could not be imported
