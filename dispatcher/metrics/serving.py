"""serve: metrics behind a port of this machine."""

from __future__ import annotations

import threading

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from dispatcher._http_port import HttpPort
from dispatcher.errors import DispatcherError
from dispatcher.metrics._http import server_of
from dispatcher.metrics._mirror import is_multi_process
from limiters._support.validation import ArgumentError

LOOPBACK = "127.0.0.1"


class MetricsServerError(DispatcherError):
    """The metrics cannot be served there."""


class MetricsServer(HttpPort):
    """Serves until `close()`, or the end of its `with` block; `url` is what a Prometheus on this
    machine is to scrape."""


def serve(
    port: int = 0, addr: str = LOOPBACK, registry: CollectorRegistry | None = None
) -> MetricsServer:
    """Serve a registry, by default that of prometheus-client, at http://addr:port/metrics.

    Only this machine can reach it, unless `addr` is another address ("0.0.0.0": all machines can).
    Port 0 is a free one. In multi-process mode and without a registry it serves the values of all
    processes. MetricsServerError if the port is taken. Thread-safe.

    >>> with serve() as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise ArgumentError("port", port, "be a whole number from 0 to 65535")
    if registry is None and is_multi_process():
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    try:
        server = server_of(port, addr, registry or REGISTRY)
    except OSError as error:
        raise MetricsServerError(
            f"metrics cannot be served at {addr}:{port}: {error.strerror or error}. "
            "Choose another address, or another port (0 for a free one)"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    return MetricsServer(server, thread, "/metrics")
