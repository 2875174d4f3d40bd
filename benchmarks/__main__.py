"""`python -m benchmarks [--brief] [--json] [NAME ...]`: print the figures; exit code 1 if one does
not hold. `--brief`: only what takes a few seconds, for `benchmarks.compare`."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

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
    "settlement": "settlement",
    "settlement-killed": "settlement_killed",
    "contract": "contract",
    "contract-slots": "contract_slots",
    "contract-rival": "contract_rival",
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
"""Modules, each imported when its turn comes: pyspark leaves so many objects for the garbage
collector to examine that everything measured after it is slower."""


def what_is_measured(module: str) -> str:
    """Return the first paragraph of its docstring, without an import."""
    path = Path(__file__).with_name(f"{module}.py")
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def main() -> int:
    """Run the named groups, or all."""
    width = max(map(len, GROUPS))
    parts = [f"  {name:<{width}}  {what_is_measured(GROUPS[name])}" for name in GROUPS]
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description=__doc__,
        epilog="the parts:\n" + "\n".join(parts),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--brief", action="store_true", help="what takes a few seconds")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure")
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts; all if none is named")
    options = parser.parse_args()
    if unknown := set(options.names) - set(GROUPS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are: {', '.join(GROUPS)}")
    if not options.names and not options.json:
        print(f"{len(GROUPS)} parts, one after the other: that takes long. Name those you need")
    holds = True
    for name in options.names or GROUPS:
        module = importlib.import_module(f"benchmarks.{GROUPS[name]}")
        if not options.json:
            print(f"{name}: {what_is_measured(GROUPS[name])}")
        for figure in ((options.brief and getattr(module, "brief", None)) or module.run)():
            print(json.dumps(asdict(figure)) if options.json else figure, flush=True)
            holds = holds and figure.holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
