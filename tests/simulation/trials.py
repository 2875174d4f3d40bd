"""Runs trials of some kinds, seed after seed, on all cores.

It notes in a file which seeds have run, and goes on behind them the next time. `make storms` and
`make twins` do this.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.loop import lines
from tests.loop.cores import cores
from tests.loop.ending import INTERRUPTED, end_as_by_ctrl_c
from tests.loop.options import positive
from tests.loop.suite import last_change, uncommitted
from tests.simulation import seeds

ROOT = Path(__file__).parents[2]
EACH = 10
"""Seeds in a line of the file, unless a kind says otherwise."""


def ignore_interrupts() -> None:
    """For a process of the pool, which ends with its owner."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def processes(number: int) -> ProcessPoolExecutor:
    """A pool of so many."""
    return ProcessPoolExecutor(number, initializer=ignore_interrupts)


@dataclass(frozen=True)
class Trials:
    """A kind of trial, for example one kind of storm."""

    program: str
    """How it is called."""
    about: str | None
    kind: str
    """The name of one trial in `tests.reproduce`."""
    kinds: Collection[str]
    judge: Callable[[str, int], tuple[int, str]]
    """How much was judged, and what was wrong, if anything: of a kind, with a seed."""
    judged: str
    """The name of the things that a trial counts."""
    file: Path
    depends_on: tuple[str, ...]
    """A change of one of these paths is another version."""
    each: Mapping[str, int] = field(default_factory=dict)
    """Seeds in a line of the file, by kind."""
    processes: Callable[[int], AbstractContextManager[Executor]] = processes


def run(trials: Trials) -> int:
    """The exit code: 1 if a trial failed, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(trials.program, description=trials.about)
    parser.add_argument(
        "--minutes", type=positive(make="MINUTES"), default=10.0, help="for how long, 10"
    )
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
    try:
        with lines.alone(options.file):
            known = len(seeds.read(options.file))
            lines.append(options.file, seeds.HEADER)
            return _run(trials, options, known)
    except lines.RecordError as error:
        parser.error(str(error))


def _run(trials: Trials, options: argparse.Namespace, known: int) -> int:
    """At least one block of seeds, however few minutes there are."""
    names = options.names or list(trials.kinds)
    commit = version(trials.depends_on)
    code = 0
    try:
        with trials.processes(cores()) as pool:
            until = time.monotonic() + 60 * options.minutes
            for name in itertools.cycle(names):
                block, wrong = _block(trials, pool, name, commit, seeds.read(options.file))
                seeds.append(options.file, block)
                for seed, why in wrong.items():
                    print(f"{name}, seed {seed}: {why}")
                    again = f"python -m tests.reproduce {trials.kind} {name} {seed}"
                    print(f"  .venv/bin/{again}", flush=True)
                if time.monotonic() > until:
                    break
    except KeyboardInterrupt:
        print("interrupted; the seeds that had not ended are not recorded")
        code = INTERRUPTED
    blocks = seeds.read(options.file)
    for name in names:
        print(seeds.summary(blocks, commit, name, trials.judged), flush=True)
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
    changed = uncommitted(ROOT, *paths)
    return f"{commit}+{time.time():.0f}" if changed else commit
