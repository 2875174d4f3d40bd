"""python -m tests.simulation [--minutes 10] [--storm NAME]: simulated clusters, seed after seed.

It goes on where it was at this commit, and notes what it has done in a file.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.loop.ending import end_as_by_ctrl_c
from tests.loop.suite import git, last_change
from tests.simulation import seeds
from tests.simulation.storms import STORMS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "simulation" / "storms.tsv"
EACH = 10
"""Seeds in a line of the file."""


def main() -> int:
    """The exit code: 1 if a window was over, 130 if it was interrupted."""
    parser = argparse.ArgumentParser("python -m tests.simulation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long, 10")
    parser.add_argument("--storm", choices=STORMS, action="append", help="which; all if none")
    parser.add_argument("--file", type=Path, default=FILE, help="where it notes what it has done")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    names = options.storm or list(STORMS)
    commit = version()
    until = time.monotonic() + 60 * options.minutes
    known = len(seeds.read(options.file))
    code = 0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            for name in itertools.cycle(names):
                if time.monotonic() > until:
                    break
                first = seeds.next_seed(seeds.read(options.file), commit, name)
                found = list(pool.map(judge, itertools.repeat(name), range(first, first + EACH)))
                failed = [first + at for at, (_, wrong) in enumerate(found) if wrong]
                windows = sum(number for number, _ in found)
                block = seeds.Block(commit, name, first, first + EACH - 1, windows, tuple(failed))
                seeds.append(options.file, block)
                for seed in failed:
                    print(f"{name}, seed {seed}: {found[seed - first][1]}")
                    print(f"  .venv/bin/python -m tests.reproduce storm {name} {seed}", flush=True)
        except KeyboardInterrupt:
            code = 130
    blocks = seeds.read(options.file)
    for name in names:
        print(seeds.summary(blocks, commit, name))
    return code or int(any(block.failed for block in blocks[known:]))


def version() -> str:
    """The commit that last changed what runs here; one of its own if there are changes since."""
    parts = ("limiters", "tests/simulation/*.py")
    commit = last_change(ROOT, *parts)
    changed = git("status", "--porcelain", "--", *parts, at=ROOT)
    return f"{commit}+{time.time():.0f}" if changed else commit


def judge(name: str, seed: int) -> tuple[int, str]:
    """The number of windows, and what was wrong, if anything."""
    try:
        verdict = STORMS[name](seed)
    except Exception as error:  # a rule of the simulation itself is broken
        return 0, f"{type(error).__name__}: {error}"
    return verdict.windows, "" if verdict.holds else str(verdict)


if __name__ == "__main__":
    sys.exit(main())
