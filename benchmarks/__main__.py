"""`python -m benchmarks [--brief] [--json] [NAME ...]`: prints the figures; exit code 1 if one does
not hold. `--brief`: only what takes a few seconds, for `benchmarks.compare`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import asdict

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
    "limits": "limits",
    "simulation": "simulation",
    "timeline": "timeline",
    "timeline-order": "timeline_order",
    "timeline-looks": "timeline_looks",
    "worker": "worker",
    "metrics": "metrics",
    "starting": "starting",
    "spark": "spark_sinks",
    "spark-state": "spark_state",
}
"""Each a module, which is imported when its turn comes: pyspark leaves so many objects behind for
the garbage collector to look at that everything measured after it is slower."""


def main() -> int:
    """Runs the groups named, or all."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--brief", action="store_true", help="what takes a few seconds")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GROUPS))
    options = parser.parse_args()
    if unknown := set(options.names) - set(GROUPS):
        parser.error(f"no group {sorted(unknown)}; there are: {', '.join(GROUPS)}")
    holds = True
    for name in options.names or GROUPS:
        module = importlib.import_module(f"benchmarks.{GROUPS[name]}")
        if not options.json:
            print(f"{name}: {(module.__doc__ or '').splitlines()[0]}")
        for figure in ((options.brief and getattr(module, "brief", None)) or module.run)():
            print(json.dumps(asdict(figure)) if options.json else figure, flush=True)
            holds = holds and figure.holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
