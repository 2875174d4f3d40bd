"""Run again what failed with a seed.

python -m tests.reproduce storm every-fault 17
    one simulated cluster, and its verdict
python -m tests.reproduce history short 17
    one random history, played to both coordinators on a Redis of its own
python -m tests.reproduce fuzz redis_url .fuzz/redis_url.crash-1f3a
    an input on which a fuzz target failed
python -m tests.reproduce seed 123 tests/unit/limiters/test_window.py::test_a ...
    tests with the seed that `make loop` has noted, for Hypothesis and for hashes
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from redis import Redis

from limiters.embedded import EmbeddedRedis
from tests.fuzz.playing import bounded
from tests.fuzz.targets import NAMES, target
from tests.loop import ending
from tests.loop.options import seed
from tests.simulation.storms import STORMS
from tests.twins.history import HISTORIES, DifferenceError
from tests.twins.stores import Scripts

ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 if it failed again."""
    parser = argparse.ArgumentParser(
        "python -m tests.reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="storm|history|fuzz|seed")
    storm = commands.add_parser("storm", help="a simulated cluster")
    storm.add_argument("name", choices=STORMS)
    storm.add_argument("seed", type=seed)
    storm.set_defaults(run=run_storm)
    history = commands.add_parser("history", help="both coordinators")
    history.add_argument("name", choices=HISTORIES)
    history.add_argument("seed", type=seed)
    history.set_defaults(run=run_history)
    fuzz = commands.add_parser("fuzz", help="an input of a fuzz target")
    fuzz.add_argument("name", choices=NAMES)
    fuzz.add_argument("path", type=Path, help="the file that has the input")
    fuzz.set_defaults(run=run_input)
    tests = commands.add_parser("seed", help="tests, with the seed of a run of the loop")
    tests.add_argument("seed", type=seed)
    tests.add_argument("tests", nargs="+", help="node ids, and options of pytest after --")
    tests.set_defaults(run=run_tests)
    options = parser.parse_args(arguments)
    return int(options.run(options))


def run_storm(options: argparse.Namespace) -> int:
    """Run it, and say what it came to."""
    verdict = STORMS[options.name](options.seed)
    print(f"{options.name}, seed {options.seed}: {verdict}")
    return int(not verdict.holds)


def run_history(options: argparse.Namespace) -> int:
    """Play it, and say where the two differ."""
    with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
        try:
            calls = HISTORIES[options.name](Scripts(client), options.seed)
        except DifferenceError as difference:
            print(f"{options.name}, {difference}")
            return 1
    print(f"{options.name}, seed {options.seed}: {calls} requests answered alike")
    return 0


def run_input(options: argparse.Namespace) -> int:
    """Play it; if it fails, with the line that makes it a regression."""
    try:
        data = options.path.read_bytes()
    except OSError as error:
        print(f"{options.path} cannot be read: {error.strerror}")
        return 1
    try:
        with bounded():
            target(options.name).check(data)
    except Exception:
        traceback.print_exc()
        print(f"once it is fixed, add this line to tests/fuzz/regressions/{options.name}.txt:")
        print(repr(data))
        return 1
    print(f"{options.name}, {options.path}: it holds")
    return 0


def run_tests(options: argparse.Namespace) -> int:
    """Run pytest as the loop did, but in one process, with all output."""
    command = [sys.executable, "-m", "pytest", "-vv", f"--hypothesis-seed={options.seed}"]
    environment = os.environ | {"PYTHONHASHSEED": str(options.seed)}
    return ending.run([*command, *options.tests], cwd=ROOT, env=environment)


if __name__ == "__main__":
    sys.exit(ending.guarded(lambda: main(sys.argv[1:])))
