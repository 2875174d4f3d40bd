"""python -m tests.simulation [--minutes 10] [--storm NAME]: simulated clusters, seed after seed.

It goes on where it was at this commit, and notes what it has done in a file.
"""

from __future__ import annotations

import sys

from tests.simulation import trials
from tests.simulation.storms import STORMS


def main() -> int:
    """The exit code: 1 if a window was over, 130 if it was interrupted."""
    return trials.run(
        trials.Trials(
            program="python -m tests.simulation",
            about=__doc__,
            kind="storm",
            kinds=STORMS,
            judge=judge,
            judged="windows",
            file=trials.ROOT / "tests" / "simulation" / "storms.tsv",
            depends_on=("limiters", "tests/simulation/*.py"),
        )
    )


def judge(name: str, seed: int) -> tuple[int, str]:
    """The number of windows, and what was wrong, if anything."""
    try:
        verdict = STORMS[name](seed)
    except Exception as error:  # a rule of the simulation itself is broken
        return 0, f"{type(error).__name__}: {error}"
    return verdict.windows, "" if verdict.holds else str(verdict)


if __name__ == "__main__":
    sys.exit(main())
