"""`python -m benchmarks [NAME ...]`: prints the figures; exit code 1 if one does not hold."""

from __future__ import annotations

import importlib
import sys

from benchmarks.figures import Figure

GROUPS = {
    "throughput": "throughput",
    "capacity": "capacity",
    "reserved": "reserved",
    "footprint": "footprint",
    "builders": "builders",
    "registration": "registration",
    "leases": "leases",
    "asking": "asking",
    "sharing": "sharing",
    "simulation": "simulation",
    "timeline": "timeline",
    "worker": "worker",
    "metrics": "metrics",
    "spark": "spark_sinks",
    "spark-state": "spark_state",
}
"""Each a module, which is imported when its turn comes: pyspark leaves so many objects behind for
the garbage collector to look at that everything measured after it is slower."""


def main(names: list[str]) -> int:
    """Runs the groups named, or all."""
    unknown = set(names) - set(GROUPS)
    if unknown:
        sys.stderr.write(f"no group {sorted(unknown)}; there are: {', '.join(GROUPS)}\n")
        return 2
    holds = True
    for name in names or GROUPS:
        module = importlib.import_module(f"benchmarks.{GROUPS[name]}")
        print(f"{name}: {(module.__doc__ or '').splitlines()[0]}")
        figure: Figure
        for figure in module.run():
            print(figure, flush=True)
            holds = holds and figure.holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
