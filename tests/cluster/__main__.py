"""`python -m tests.cluster [FAULT ...]`: plays faults on a standalone cluster, prints a table.

Each fault has a stream, a Redis and a driver of its own; the cluster is started once. The exit code
is 1 if a row was lost, out of order, or sent twice without a kill that explains it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pyspark

from tests.cluster.faults import Fault
from tests.cluster.playing import play
from tests.cluster.suite import ALL
from tests.cluster.verdict import Played
from tests.loop.ending import INTERRUPTED, end_as_by_ctrl_c
from tests.servers.spark_cluster import SparkCluster

COLUMNS = ("rows", "lost", "twice", "out of order")


def chosen(names: list[str]) -> list[Fault]:
    """Return the faults whose name contains one of `names`, or all faults."""
    found = [one for one in ALL if not names or any(name in one.name for name in names)]
    if not found:
        raise SystemExit(f"there is no fault like that; there are: {', '.join(map(_name, ALL))}")
    return found


def main() -> int:
    """Play the faults. Return 0 if all went as it should."""
    faults = chosen(sys.argv[1:])
    end_as_by_ctrl_c()  # the cluster's processes have groups of their own
    _say(f"Spark {pyspark.__version__}\n\n| fault | {' | '.join(COLUMNS)} | seconds |")
    _say("| --- |" + " ---: |" * (len(COLUMNS) + 1))
    played: list[Played] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-")))
        cluster = stack.enter_context(SparkCluster(place / "spark"))
        for number, fault in enumerate(faults):
            began = time.monotonic()
            played.append(play(fault, cluster, place / f"fault-{number}"))
            _say(row(played[-1], time.monotonic() - began))
    for one in played:
        for wrong in one.wrong:
            _say(f"\n{one.fault}: {wrong}")
    return 0 if all(one.holds for one in played) else 1


def row(played: Played, seconds: float) -> str:
    """Return the line of a fault in the table."""
    numbers = (played.rows, played.lost, played.twice, played.out_of_order)
    return f"| {played.fault} | {' | '.join(map(str, numbers))} | {seconds:.0f} |"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _name(fault: Fault) -> str:
    return fault.name


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
