"""Serve HTTP on a port of this machine, from a thread, until it is closed."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import HTTPServer
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import Any, Self

MOST = 32
"""Maximum number of connections: one more ends the oldest, so that a scrape or a probe always gets
through."""

LONGEST = 30.0
"""Maximum seconds of a connection. A scrape has its answer long before."""


class BoundedConnections(ThreadingMixIn, HTTPServer):
    """A thread for each connection, with bounds on their number and on how long each may last.

    Otherwise a client could make the process start threads until it has no more, by connections
    that send nothing, or a byte now and then.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # of five, most of many would have to try again after a second

    def __init__(self, *arguments: Any) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        """Until when each connection may last, the oldest first."""
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Make room for the connection first."""
        with self._lock:
            if len(self._open) >= MOST:
                self._cut(next(iter(self._open)))
            self._open[request] = time.monotonic() + LONGEST
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Remove the connection from the bounds."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that have lasted too long. Called twice a second."""
        now = time.monotonic()
        with self._lock:
            for request in [one for one, until in self._open.items() if until <= now]:
                self._cut(request)

    def _cut(self, request: socket.socket) -> None:
        """Close the socket; its thread notices."""
        del self._open[request]
        with contextlib.suppress(OSError):  # its other side was faster
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: the client has gone, or was cut off."""


class HttpPort:
    """Serves until `close()`, or the end of its `with` block. Thread-safe."""

    def __init__(self, server: HTTPServer, thread: threading.Thread, path: str = "") -> None:
        self._server = server
        self._thread = thread
        self._path = path

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}{self._path}"

    def close(self) -> None:
        """Close the port. Idempotent."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
