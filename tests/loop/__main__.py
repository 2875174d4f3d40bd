"""python -m tests.loop [--runs 20] [--busy] [-- ARGUMENTS OF PYTEST]"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom

from tests.loop import __doc__ as what
from tests.loop import record, suite
from tests.loop.burners import burning
from tests.loop.ending import end_as_by_ctrl_c

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "loop.tsv"
LOGS = ".loop"


def main() -> int:
    """The exit code: 1 if a run did not pass, 130 if it was interrupted."""
    parser = argparse.ArgumentParser("python -m tests.loop", description=what)
    parser.add_argument("--runs", type=int, default=20, help="how many, 20")
    parser.add_argument("--busy", action="store_true", help="keep every core busy meanwhile")
    parser.add_argument("--limit", type=float, default=40, help="minutes for one run, 40")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository; this one")
    parser.add_argument("--file", type=Path, default=FILE, help="where runs are written down")
    parser.add_argument("arguments", nargs="*", help="for pytest; the whole suite if none")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    try:  # now, not after hours
        record.read(options.file)
    except record.RecordError as error:
        parser.error(str(error))
    if changes := suite.git("status", "--porcelain", at=options.root).splitlines():
        print(f"Not run: changes in {len(changes)} files that are not committed.")
    logs = options.root / LOGS
    logs.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="loop-"))
    commit, good = "", True
    try:
        suite.clone(options.root, directory / "clone")
        commit = suite.last_change(directory / "clone", ".", ":!tests/loop.tsv")
        with burning(_cores() if options.busy else 0):
            for number in range(1, options.runs + 1):
                run = _run(directory / "clone", commit, logs, options)
                record.append(options.file, run)
                good = good and run.result == record.PASSED
                print(f"run {number} of {options.runs}: {_told(run)}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; the run that had not ended is not written down")
        return 130
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        arguments = " ".join(options.arguments)
        print(record.summary(record.read(options.file), commit, arguments), flush=True)
    return int(not good)


def _run(root: Path, commit: str, logs: Path, options: argparse.Namespace) -> record.Run:
    began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    seed = SystemRandom().randrange(2**32)
    log = logs / f"{began.replace(':', '')}-{commit}-{seed}.log"
    start = time.monotonic()
    done = suite.run(root, options.arguments, seed, 60 * options.limit, log)
    if done.result == record.PASSED:
        log.unlink()
        log.with_suffix(".xml").unlink()
    return record.Run(
        began=began,
        commit=commit,
        seed=seed,
        busy=_cores() if options.busy else 0,
        load=os.getloadavg()[0],
        seconds=time.monotonic() - start,
        result=done.result,
        passed=done.passed,
        skipped=done.skipped,
        what=" ".join(options.arguments),
        failing=done.failing,
    )


def _told(run: record.Run) -> str:
    told = f"{run.result} in {run.seconds:.0f} s (seed {run.seed}, {run.passed} passed)"
    if run.result == record.PASSED:
        return told
    logs = f"logs: {LOGS}/{run.began.replace(':', '')}-{run.commit}-{run.seed}.*"
    return "\n  ".join([told, *run.failing, logs])


def _cores() -> int:
    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    sys.exit(main())
