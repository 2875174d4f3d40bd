"""python -m tests.fuzz [--minutes 10] [--target NAME]: looks, target after target, for inputs on
which a target fails.

Inputs that are worth keeping are stored in `.fuzz/`, where the next call continues. It needs
atheris, which `make fuzz` installs.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import NAMES
from tests.fuzz.telling import summary
from tests.loop import ending
from tests.loop.options import positive

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 1 if a target failed."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--minutes", type=positive(make="MINUTES"), default=10.0, help="for all together, 10"
    )
    parser.add_argument(
        "--target", choices=NAMES, action="append", dest="names", help="a target; all by default"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".fuzz", help="the folder of the inputs; .fuzz"
    )
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed; make fuzz does that")
    names = options.names or NAMES
    seconds = max(1, round(60 * options.minutes / len(names)))
    return max([_fuzz(name, seconds, options.folder.absolute()) for name in names])


def _fuzz(name: str, seconds: int, folder: Path) -> int:
    """Fuzz one target and print the result. Return 1 if it failed."""
    corpus, log = folder / name, folder / f"{name}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    words = [name, str(corpus), str(seconds)]
    command = [sys.executable, "-m", "tests.fuzz.fuzzing", *words]
    code = ending.run(command, cwd=ROOT, log=log)
    print("\n".join(summary(name, code, log)), flush=True)
    return int(code != 0)


if __name__ == "__main__":
    sys.exit(ending.guarded(lambda: main(sys.argv[1:])))
