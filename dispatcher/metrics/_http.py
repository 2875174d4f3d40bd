"""The HTTP server behind `serve`: with a bound on its connections, and on how long each may last.

Otherwise anybody who can connect could have it start threads until the process has no more, by
connections that say nothing.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

MOST = 32
"""Connections at a time: one more ends the oldest, so that a scrape always gets through."""

LONGEST = 30.0
"""Seconds that a connection may last. A scrape has its answer long before."""


def server_of(port: int, addr: str, registry: CollectorRegistry) -> WSGIServer:
    """A server that listens, and serves once it is told to. OSError if it cannot listen there."""

    class OfThatFamily(_BoundedServer):
        address_family = socket.getaddrinfo(addr, port, type=socket.SOCK_STREAM)[0][0]

    return make_server(addr, port, make_wsgi_app(registry), OfThatFamily, handler_class=_Quiet)


class _BoundedServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection, and few of them."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        """Until when each may last, the oldest first."""
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Makes room for it first."""
        with self._lock:
            if len(self._open) >= MOST:
                self._cut(next(iter(self._open)))
            self._open[request] = time.monotonic() + LONGEST
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """It has ended."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called twice a second: ends what has lasted too long."""
        now = time.monotonic()
        with self._lock:
            for request in [one for one, until in self._open.items() if until <= now]:
                self._cut(request)

    def _cut(self, request: socket.socket) -> None:
        """Its thread notices, and lets go of it."""
        del self._open[request]
        with contextlib.suppress(OSError):  # its other side was faster
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has gone, or was cut off: nobody is to be told."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, *said: Any) -> None:
        """No line for each scrape."""
