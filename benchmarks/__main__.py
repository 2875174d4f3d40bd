"""`python -m benchmarks [NAME ...]`: prints the figures; exit code 1 if one does not hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    asking,
    builders,
    capacity,
    footprint,
    leases,
    metrics,
    registration,
    sharing,
    simulation,
    spark_sinks,
    spark_state,
    throughput,
    timeline,
    worker,
)
from benchmarks.figures import Figure

GROUPS: dict[str, Callable[[], Iterator[Figure]]] = {
    "throughput": throughput.run,
    "capacity": capacity.run,
    "footprint": footprint.run,
    "builders": builders.run,
    "registration": registration.run,
    "leases": leases.run,
    "asking": asking.run,
    "sharing": sharing.run,
    "simulation": simulation.run,
    "timeline": timeline.run,
    "spark": spark_sinks.run,
    "spark-state": spark_state.run,
    "worker": worker.run,
    "metrics": metrics.run,
}


def main(names: list[str]) -> int:
    """Runs the groups named, or all."""
    unknown = set(names) - set(GROUPS)
    if unknown:
        sys.stderr.write(f"no group {sorted(unknown)}; there are: {', '.join(GROUPS)}\n")
        return 2
    holds = True
    for name in names or GROUPS:
        print(f"{name}: {(sys.modules[GROUPS[name].__module__].__doc__ or '').splitlines()[0]}")
        for figure in GROUPS[name]():
            print(figure, flush=True)
            holds = holds and figure.holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
