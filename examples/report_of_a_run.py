"""A report: a simulated cluster loses an instance, the verifier judges, a page shows it."""

import sys
import tempfile

from dispatcher.report import report
from limiters.leases.protocol import view_of
from limiters.testing import Backlog, SimulatedCluster

CAPACITY, PARTITIONS = 20_000, 20

cluster = SimulatedCluster(capacity=CAPACITY, factor=CAPACITY / PARTITIONS, seed=1)
for name in ("a", "b", "c"):
    cluster.add(name, Backlog(piece=100))
cluster.at(8.0, lambda now: cluster.kill("b"))

holdings: list[tuple[float, dict[str, float]]] = []


def look(now: float) -> None:
    server = cluster.server
    coordinator = server.coordinator
    if coordinator.limit is not None:
        view = view_of(coordinator.limit, (), server.clock(now), coordinator.default_span)
        if view is not None:
            holdings.append((now, {one.instance: one.held for one in view.instances if one.held}))
    cluster.at(now + 0.05, look)


cluster.at(0.0, look)
cluster.run(until=16)

path = sys.argv[1] if len(sys.argv) > 1 else f"{tempfile.mkdtemp()}/run.html"
verdict = report(
    path,
    cluster.log,
    CAPACITY,
    title="One of three is killed",
    holdings=holdings,
    partitions=PARTITIONS,
)
print(verdict)
print(f"Look at it in a browser: {path}")
