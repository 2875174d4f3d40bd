"""A small HTTP store with a limit, which answers 429 above it.

    python -m examples.reminders.store --capacity 500 --port 8429

POST any JSON to any path; the header `Cost` is its cost, 1 by default. The store answers 201, or
429 with `Retry-After`. GET / returns what was written and refused; GET /log what arrived when. It
counts arrivals, so give it a little more than the limit of its clients: requests that are sent
evenly may arrive less evenly.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from dispatcher.cli.datastore import Datastore, TooManyRequestsError

HOST = "127.0.0.1"


class MeteredStore(ThreadingHTTPServer):
    """Serves in its `with` block, and keeps a log of what arrived: time, cost, answer and JSON. Its
    clock is the monotonic one of the machine."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, capacity: float, *, latency: float = 0.0, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.datastore = Datastore(capacity, latency)
        self.log: list[tuple[float, float, int, Any]] = []

    @property
    def url(self) -> str:
        """The URL of the store."""
        return f"http://{HOST}:{self.server_address[1]}"

    @property
    def refused(self) -> int:
        """Number of requests that were answered with 429."""
        return self.datastore.refused

    def take(self, cost: float, body: Any) -> int:
        """Return the answer to a request."""
        at = time.monotonic()
        try:
            self.datastore.write(1, cost)
            status = 201
        except TooManyRequestsError:
            status = 429
        self.log.append((at, cost, status, body))
        return status

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: clients that are killed in the middle are expected."""


class _Handler(BaseHTTPRequestHandler):
    server: MeteredStore
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one piece

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # the client was killed between the headers and the end of the body
            self.close_connection = True
            return
        status = self.server.take(float(self.headers.get("Cost", 1)), json.loads(body or "null"))
        self._answer(status, b"")

    def do_GET(self) -> None:
        store = self.server
        told: Any = {"written": store.datastore.written, "refused": store.refused}
        if self.path == "/log":
            told = store.log
        self._answer(200, json.dumps(told).encode() + b"\n")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Print nothing: the store has its own log."""


def main() -> None:
    """Serve the store until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacity", type=float, default=500.0)
    parser.add_argument("--port", type=int, default=8429)
    options = parser.parse_args()
    with MeteredStore(options.capacity, port=options.port) as store:
        print(f"{options.capacity:g} a second at {store.url}")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"written: {store.datastore.written}, refused: {store.refused}")


if __name__ == "__main__":
    main()
