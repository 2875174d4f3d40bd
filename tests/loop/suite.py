"""One run of pytest in a clone, and what its report says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

ENDING = 60.0
"""How long a run that is interrupted may take to end what it has started."""


class GitError(RuntimeError):
    """Git refused a command, for the reason in the message."""


class CloneError(RuntimeError):
    """The clone is not what would be tested."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    result: str
    passed: int = 0
    skipped: int = 0
    failing: tuple[str, ...] = ()


def git(*arguments: str | Path, at: Path) -> str:
    """What git prints."""
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


def environment(root: Path, seed: int) -> dict[str, str]:
    """Programs of the clone import its packages, though this environment has others installed."""
    variables = {**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": str(seed)}
    code = "import dispatcher, limiters; print(dispatcher.__path__[0], limiters.__path__[0])"
    command = [sys.executable, "-c", code]
    found = subprocess.run(
        command, env=variables, cwd="/", check=True, capture_output=True, text=True
    ).stdout.split()
    if not all(Path(one).is_relative_to(root) for one in found):
        raise CloneError(f"the tests in {root} would import {' and '.join(found)}")
    return variables


def run(root: Path, arguments: Sequence[str], seed: int, limit: float, log: Path) -> Outcome:
    """Run pytest in `root` for at most `limit` seconds; what it prints goes to `log`."""
    report = log.with_suffix(".xml")
    command = [sys.executable, "-m", "pytest", *arguments, f"--hypothesis-seed={seed}"]
    command += ["--junitxml", str(report), "-o", "junit_logging=all"]
    variables = environment(root, seed)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = _end(process)
            result = f"not ended after {limit:g} s"
            return replace(outcome(code, report, root), result=result)
        except BaseException:
            _end(process)
            raise
    return outcome(code, report, root)


def _end(process: subprocess.Popen[bytes]) -> int:
    """As Ctrl-C does, so that the tests end what they have started; then by force."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING)
    finally:  # also if a second Ctrl-C ends the waiting
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def outcome(code: int, report: Path, root: Path) -> Outcome:
    """What an exit code and a report in JUnit's format mean."""
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
