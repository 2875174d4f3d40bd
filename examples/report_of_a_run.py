"""Looks at a run: a simulated cluster loses an instance, the verifier judges, a page shows it."""

import sys
import tempfile

from dispatcher.report import report
from limiters.leases.ranges import Ranges
from limiters.testing import Backlog, SimulatedCluster

CAPACITY = 20_000

cluster = SimulatedCluster(capacity=CAPACITY, factor=1_000, seed=1)
for name in ("a", "b", "c"):
    cluster.add(name, Backlog(piece=100))
cluster.at(8.0, lambda now: cluster.kill("b"))

holdings: list[tuple[float, dict[str, Ranges]]] = []


def look(now: float) -> None:
    members = cluster.coordinator.members.items()
    holdings.append((now, {name: member.held for name, member in members if member.held}))
    cluster.at(now + 0.05, look)


cluster.at(0.0, look)
cluster.run(until=16)

path = sys.argv[1] if len(sys.argv) > 1 else f"{tempfile.mkdtemp()}/run.html"
verdict = report(path, cluster.log, CAPACITY, title="One of three is killed", holdings=holdings)
print(verdict)
print(f"Look at it in a browser: {path}")
