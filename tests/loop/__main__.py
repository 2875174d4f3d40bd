"""python -m tests.loop [--runs 20] [--busy] [-- ARGUMENTS OF PYTEST]"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom

from tests.loop import __doc__ as what
from tests.loop import record, suite
from tests.loop.burners import burning
from tests.loop.cores import cores
from tests.loop.ending import INTERRUPTED, end_as_by_ctrl_c
from tests.loop.lines import RECORDS, RecordError, append
from tests.loop.options import SEEDS, positive, whole

ROOT = Path(__file__).parents[2]


def main() -> int:
    """The exit code: 1 if a run did not pass, 2 if none could begin, 130 if interrupted."""
    parser = argparse.ArgumentParser("python -m tests.loop", description=what)
    parser.add_argument("--runs", type=whole(make="N"), default=20, help="how many, 20")
    parser.add_argument("--busy", action="store_true", help="keep every core busy meanwhile")
    parser.add_argument("--limit", type=positive(), default=40.0, help="minutes for one run, 40")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository; this one")
    parser.add_argument(
        "--file",
        type=Path,
        help=f"where runs are recorded; {record.OF_SUITE}, of some tests only {record.OF_TESTS}",
    )
    parser.add_argument("arguments", nargs="*", help="for pytest; the whole suite if none")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    try:
        changed = suite.uncommitted(options.root, *suite.without(*RECORDS, record.LOGS))
    except suite.GitError as error:
        parser.error(f"--root: {options.root} is not a repository: {error}")
    logs = options.root / record.LOGS
    try:  # now, not after hours
        logs.mkdir(exist_ok=True)
        file = options.file or options.root / record.place(options.arguments)
        record.read(file)
        append(file, record.HEADER)
    except (OSError, RecordError) as error:
        parser.error(str(error))
    if changed:
        print(_not_run(changed), flush=True)
    directory = Path(tempfile.mkdtemp(prefix="loop-"))
    commit, good = "", True
    try:
        suite.clone(options.root, directory / "clone")
        commit = suite.last_change(directory / "clone", *suite.without(*RECORDS))
        with burning(cores() if options.busy else 0):
            for number in range(1, options.runs + 1):
                run = _run(directory / "clone", commit, logs, options)
                record.append(file, run)
                good = good and run.result == record.PASSED
                print(f"run {number} of {options.runs}: {_told(run)}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; the run that had not ended is not recorded")
        return INTERRUPTED
    except suite.NothingRunError as error:
        print(f"pytest ran no test, so nothing is recorded:\n{error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if commit:
            arguments = " ".join(options.arguments)
            print(record.summary(record.read(file), commit, arguments), flush=True)
    return int(not good)


def _not_run(files: Sequence[str]) -> str:
    count = f"{len(files)} files" if len(files) > 1 else "1 file"
    told = f"Changes in {count} are not committed and not part of these runs:"
    return "\n".join([told, *record.first_of(files)])


def _run(root: Path, commit: str, logs: Path, options: argparse.Namespace) -> record.Run:
    began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    seed = SystemRandom().choice(SEEDS)
    log = logs / f"{began.replace(':', '')}-{commit}-{seed}.log"
    start = time.monotonic()
    keep = True
    try:
        done = suite.run(root, options.arguments, seed, 60 * options.limit, log)
        keep = done.result != record.PASSED
    except suite.NothingRunError:
        keep = False
        raise
    finally:
        if not keep:
            log.unlink(missing_ok=True)
            log.with_suffix(".xml").unlink(missing_ok=True)
    return record.Run(
        began=began,
        commit=commit,
        seed=seed,
        busy=cores() if options.busy else 0,
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
    logs = f"logs: {record.LOGS}/{run.began.replace(':', '')}-{run.commit}-{run.seed}.*"
    return "\n".join([told, *record.first_of(run.failing), f"  {logs}"])


if __name__ == "__main__":
    sys.exit(main())
