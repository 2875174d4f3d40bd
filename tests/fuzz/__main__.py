"""python -m tests.fuzz [--minutes 10] [--target NAME]: looks, target after target, for inputs on
which one fails.

What it has found worth keeping lies in `.fuzz/`, where the next call goes on. It needs the
dependency group `fuzz`, which `make fuzz` installs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import NAMES
from tests.loop import ending
from tests.loop.options import positive

ROOT = Path(__file__).parents[2]
_ROUND = re.compile(r"cov: (\d+) ft: \d+ corp: (\d+)/")
_RUNS = re.compile(r"stat::number_of_executed_units: +(\d+)")
_FAILED = re.compile(r"Test unit written to (\S+)")
_ERROR = re.compile(r"^ *(\w[\w.]*(?:Error|Exception|Warning)\b.*)$|^=+ \d+ =+ (ERROR: .*)$", re.M)


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 if a target failed."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--minutes", type=positive(make="MINUTES"), default=10.0, help="for all together, 10"
    )
    parser.add_argument(
        "--target", choices=NAMES, action="append", dest="names", help="which; all if none"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".fuzz", help="where it keeps inputs; .fuzz"
    )
    options = parser.parse_args(arguments)
    names = options.names or NAMES
    seconds = max(1, round(60 * options.minutes / len(names)))
    return max([_fuzz(name, seconds, options.folder.absolute()) for name in names])


def _fuzz(name: str, seconds: int, folder: Path) -> int:
    """Says what came of one target; 1 if it failed."""
    corpus, log = folder / name, folder / f"{name}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    words = [name, str(corpus), str(seconds)]
    command = [sys.executable, "-m", "tests.fuzz.fuzzing", *words]
    code = ending.run(command, cwd=ROOT, log=log)
    said = log.read_text(errors="replace")
    runs = [int(number) for number in _RUNS.findall(said)]
    rounds = _ROUND.findall(said) or [("0", "0")]
    covered, kept = map(int, rounds[-1])
    found = f"{sum(runs):,} inputs, {covered:,} edges, {kept:,} kept"
    if not code:
        print(f"{name}: {found}", flush=True)
        return 0
    errors = [one or other for one, other in _ERROR.findall(said)]
    print(f"{name}: FAILED after {found}: {errors[0] if errors else f'exit code {code}'}")
    for path in _FAILED.findall(said):
        print(f"  .venv/bin/python -m tests.reproduce fuzz {name} {path}")
    print(f"  all that was said: {log}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(ending.guarded(lambda: main(sys.argv[1:])))
