"""Start time of `dispatcher`, compared with `python -c pass`."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator, Sequence

from benchmarks.figures import Figure

ROUNDS = 15
MAIN = ["-m", "dispatcher.cli.main"]
COMPLETING = {
    "_ARGCOMPLETE": "1",
    "_ARGCOMPLETE_SHELL": "bash",
    "COMP_LINE": "dispatcher timeline pe",
    "COMP_POINT": "22",
}


def run() -> Iterator[Figure]:
    """Measure the command line and the import."""
    for name, arguments, environment, most in (
        ("dispatcher --help", [*MAIN, "--help"], {}, 15),
        ("dispatcher leases --help", [*MAIN, "leases", "--help"], {}, None),
        ("dispatcher worker --help", [*MAIN, "worker", "--help"], {}, None),
        ("a Tab of a shell", MAIN, COMPLETING, None),
        ("import dispatcher", ["-c", "import dispatcher"], {}, None),
    ):
        times = _ratio(arguments, environment)
        yield Figure(f"{name}, against python -c pass", times, "times", at_most=most)


def _ratio(arguments: Sequence[str], environment: dict[str, str]) -> float:
    """Return the ratio of the processor times, in turns: a busy machine makes neither of them
    longer."""
    rounds = [
        (_processor_time(["-c", "pass"], {}), _processor_time(arguments, environment))
        for _ in range(ROUNDS)
    ]
    nothing = statistics.median(one for one, _ in rounds)
    return statistics.median(other for _, other in rounds) / nothing


def _processor_time(arguments: Sequence[str], environment: dict[str, str]) -> float:
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, *arguments],
        {**os.environ, **environment},
        file_actions=nowhere,
    )
    _, _, usage = os.wait4(process, 0)
    return float(usage.ru_utime + usage.ru_stime)
