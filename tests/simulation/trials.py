"""Runs trials of some kinds, seed after seed, on all cores.

It notes in a file which seeds have run, and goes on behind them the next time. `make storms` and
`make twins` do this.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.loop.ending import end_as_by_ctrl_c
from tests.loop.suite import git, last_change
from tests.simulation import seeds

ROOT = Path(__file__).parents[2]
EACH = 10
"""Seeds in a line of the file, unless a kind says otherwise."""


@dataclass(frozen=True)
class Trials:
    """What is tried."""

    program: str
    """How it is called."""
    about: str | None
    kind: str
    """What one trial is called: `tests.reproduce` knows it by this name."""
    kinds: Collection[str]
    judge: Callable[[str, int], tuple[int, str]]
    """How much was judged, and what was wrong, if anything: of a kind, with a seed."""
    judged: str
    """What is counted."""
    file: Path
    depends_on: tuple[str, ...]
    """A change of one of these paths is another version."""
    each: Mapping[str, int] = field(default_factory=dict)
    """Seeds in a line of the file, by kind."""
    processes: Callable[[int], AbstractContextManager[Executor]] = ProcessPoolExecutor


def run(trials: Trials) -> int:
    """The exit code: 1 if a trial failed, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(trials.program, description=trials.about)
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long, 10")
    parser.add_argument(
        f"--{trials.kind}",
        choices=trials.kinds,
        action="append",
        dest="names",
        help="which; all if none",
    )
    parser.add_argument(
        "--file", type=Path, default=trials.file, help="where it notes what it has done"
    )
    options = parser.parse_args()
    end_as_by_ctrl_c()
    names = options.names or list(trials.kinds)
    commit = version(trials.depends_on)
    known = len(seeds.read(options.file))
    code = 0
    cores = len(os.sched_getaffinity(0))
    with trials.processes(cores) as pool:
        until = time.monotonic() + 60 * options.minutes
        try:
            for name in itertools.cycle(names):
                if time.monotonic() > until:
                    break
                block, wrong = _block(trials, pool, name, commit, seeds.read(options.file))
                seeds.append(options.file, block)
                for seed, why in wrong.items():
                    print(f"{name}, seed {seed}: {why}")
                    again = f"python -m tests.reproduce {trials.kind} {name} {seed}"
                    print(f"  .venv/bin/{again}", flush=True)
        except KeyboardInterrupt:
            code = 130
    blocks = seeds.read(options.file)
    for name in names:
        print(seeds.summary(blocks, commit, name, trials.judged))
    return code or int(any(block.failed for block in blocks[known:]))


def _block(
    trials: Trials, pool: Executor, name: str, commit: str, before: list[seeds.Block]
) -> tuple[seeds.Block, dict[int, str]]:
    """The next seeds of a kind, and what was wrong with which."""
    first = seeds.next_seed(before, commit, name)
    tried = range(first, first + trials.each.get(name, EACH))
    found = list(pool.map(trials.judge, itertools.repeat(name), tried))
    wrong = {seed: why for seed, (_, why) in zip(tried, found, strict=True) if why}
    judged = sum(number for number, _ in found)
    return seeds.Block(commit, name, first, tried[-1], judged, tuple(wrong)), wrong


def version(paths: tuple[str, ...]) -> str:
    """The commit that last changed one of `paths`; one of its own if there are changes since."""
    commit = last_change(ROOT, *paths)
    changed = git("status", "--porcelain", "--", *paths, at=ROOT)
    return f"{commit}+{time.time():.0f}" if changed else commit
