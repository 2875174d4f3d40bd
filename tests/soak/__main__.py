"""python -m tests.soak [--minutes 10] [--seed 1] [--report soak.html]"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.loop.ending import INTERRUPTED, end_as_by_ctrl_c
from tests.loop.options import positive
from tests.soak import __doc__ as what
from tests.soak.plan import FULL
from tests.soak.story import Story
from tests.soak.troubles import Troubles

PAUSE = 5.0
"""Seconds between two troubles, at most."""


def main() -> int:
    """Return the exit code: 1 if something is wrong."""
    parser = argparse.ArgumentParser("python -m tests.soak", description=what)
    parser.add_argument("--minutes", type=positive("MINUTES"), default=10.0, help="minutes, 10")
    parser.add_argument("--seed", type=int, default=1, help="of the order of troubles, 1")
    parser.add_argument("--report", type=Path, default=Path("soak.html"), help="soak.html")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", flush=True)

    def choose(troubles: Troubles) -> Iterator[str]:
        while True:  # each once in any order, and again
            for trouble in troubles.dice.sample(list(troubles.each), len(troubles.each)):
                yield trouble
                time.sleep(troubles.dice.uniform(0, PAUSE))
            if time.monotonic() - began > 60 * options.minutes:
                return

    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    good = False
    try:
        outcome = Story(directory, FULL, seed=options.seed, say=say).run(choose, options.report)
        good = not any(outcome.problems())
        print(outcome)
        print(f"the spending over time: {options.report}")
    finally:
        if good:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            print(f"logs of all processes: {directory}")
    return int(not good)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
