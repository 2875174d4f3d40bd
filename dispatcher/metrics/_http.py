"""The HTTP server behind `serve`."""

from __future__ import annotations

import socket
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from dispatcher._http_port import BoundedConnections


def server_of(port: int, addr: str, registry: CollectorRegistry) -> WSGIServer:
    """Return a server that listens, and serves as soon as `serve_forever` is called. OSError if it
    cannot listen there."""

    class OfThatFamily(BoundedConnections, WSGIServer):
        address_family = socket.getaddrinfo(addr, port, type=socket.SOCK_STREAM)[0][0]

    return make_server(addr, port, make_wsgi_app(registry), OfThatFamily, handler_class=_Quiet)


class _Quiet(WSGIRequestHandler):
    def log_message(self, *said: Any) -> None:
        """No line for each scrape."""
