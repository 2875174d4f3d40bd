"""Serve /healthz, /readyz and further pages, and query those of another process."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple

from dispatcher._http_port import BoundedConnections, HttpPort
from limiters.errors import DispatcherError

logger = logging.getLogger("dispatcher.worker")

LOOPBACK = "127.0.0.1"
ANYBODY = ("", "0.0.0.0", "::")
"""Hosts that stand for all addresses of this machine."""
PLAIN = "text/plain; charset=utf-8"
PATIENCE = 5.0
"""Seconds within which a client has to send its request."""


class ServedPage(NamedTuple):
    """The answer to a request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = PLAIN


class PortInUseError(DispatcherError):
    """The pages cannot be served at this address."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host = host
        self.port = port
        self.reason = reason
        super().__init__(
            f"nothing can be served at {host}:{port}: {reason}; choose another --metrics-host or "
            "--metrics-port (0 for a free one), or leave them out"
        )


def verdict(trouble: str) -> ServedPage:
    """Return the page of a probe: 200 ok, or 503 and the reason.

    >>> verdict("Redis does not answer")
    ServedPage(body=b'Redis does not answer\\n', status=<HTTPStatus.SERVICE_UNAVAILABLE: 503>, ...)
    """
    if not trouble:
        return ServedPage(b"ok\n")
    return ServedPage(f"{trouble}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


def asked(host: str, port: int, path: str, *, patience: float = 2.0) -> str:
    """Query the probe at `path`. Return what is wrong; "" if nothing is. A server that does not
    answer for `patience` seconds counts as unhealthy. Never uses a proxy, whatever the environment
    variables are."""
    connection = HTTPConnection(LOOPBACK if host in ANYBODY else host, port, timeout=patience)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        return f"it does not answer: {error}"
    finally:
        connection.close()
    return "" if answer.status == HTTPStatus.OK else said or f"it answers {answer.status}"


def family_of(host: str, port: int) -> socket.AddressFamily:
    """Return the kind of address of a server. OSError if the host does not exist."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    families = [family for family, *_ in found]
    return socket.AF_INET if socket.AF_INET in families else families[0]


class Pages(HttpPort):
    """Serves `pages`, a function for each path, on `host` and `port` (0: a free one) until
    `close()`. PortInUseError if it cannot. Thread-safe.

    >>> with Pages({"/healthz": lambda: verdict("")}) as pages:
    ...     pages.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self, pages: Mapping[str, Callable[[], ServedPage]], host: str = LOOPBACK, port: int = 0
    ) -> None:
        class KnownPageHandler(_PageHandler):
            known = pages

        try:
            server = _Server((host, port), KnownPageHandler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PortInUseError(host, port, reason) from None
        thread = threading.Thread(
            target=server.serve_forever, args=(0.1,), name="worker-pages", daemon=True
        )
        super().__init__(server, thread)
        thread.start()


class _Server(BoundedConnections):
    def __init__(self, place: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = family_of(*place)
        super().__init__(place, handler)


class _PageHandler(BaseHTTPRequestHandler):
    known: Mapping[str, Callable[[], ServedPage]] = {}
    timeout = PATIENCE
    server_version = "dispatcher"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(self._page())

    do_HEAD = do_GET  # noqa: N815

    def _page(self) -> ServedPage:
        path = self.path.partition("?")[0]
        make = self.known.get(path)
        if make is None:
            there = ", ".join(self.known)
            return ServedPage(f"there is {there}\n".encode(), HTTPStatus.NOT_FOUND)
        try:
            return make()
        except Exception:
            logger.exception("%s could not be made", path, extra={"happening": "page-broke"})
            return ServedPage(b"it could not be made; the log says why\n", HTTPStatus(500))

    def _answer(self, page: ServedPage) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Log nothing: probes come every few seconds."""
