"""python -m tests.twins [--minutes 10] [--history KIND]: random histories, seed after seed, played
to the coordinator in Python and to the scripts inside Redis.

It continues where it was at this commit, and notes the played seeds in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import SimpleQueue
from typing import Any

from redis import Redis

from limiters.embedded import EmbeddedRedis
from tests.simulation import trials
from tests.twins.history import HISTORIES
from tests.twins.stores import Scripts
from tests.waiting import LONG

EACH = {"short": 60, "contention": 40, "bounds": 90, "long bounds": 30}
"""Half of all histories use limits with several bounds."""


def main() -> int:
    """Return the exit code: 1 if the two differed, 130 if it was interrupted."""
    return trials.run(
        trials.Trials(
            program="python -m tests.twins",
            about=__doc__,
            kind="history",
            kinds=HISTORIES,
            judge=judge,
            judged="requests",
            file=trials.ROOT / "tests" / "twins" / "histories.tsv",
            depends_on=("limiters", "tests/bounds.py", "tests/twins/*.py"),
            each=EACH,
            processes=processes,
        )
    )


@contextmanager
def processes(number: int) -> Iterator[ProcessPoolExecutor]:
    """Return a pool of so many processes, each with a server of its own for its limits."""
    with ExitStack() as servers:
        urls: SimpleQueue[str] = SimpleQueue()
        for _ in range(number):
            urls.put(servers.enter_context(EmbeddedRedis()).url)
        with ProcessPoolExecutor(number, initializer=connect, initargs=(urls,)) as pool:
            yield pool


_scripts: list[Scripts] = []


def connect(urls: Any) -> None:
    """Use one of these servers in this process from now on."""
    trials.ignore_interrupts()
    _scripts[:] = [Scripts(Redis.from_url(urls.get(), socket_timeout=LONG))]


def judge(name: str, seed: int) -> tuple[int, str]:
    """Return the number of requests, and the first difference, if there is one."""
    try:
        return HISTORIES[name](_scripts[0], seed), ""
    except Exception as error:  # a difference, or a script that fails
        return 0, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
