"""A small HTTP server for probes: /healthz, /readyz, and whatever else is put beside them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple

from limiters.errors import DispatcherError

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
ANYBODY = ("", "0.0.0.0", "::")
"""Hosts that stand for all addresses of this machine."""
PLAIN = "text/plain; charset=utf-8"
PATIENCE = 5.0
"""Seconds for which somebody may take to say what he wants."""


class Page(NamedTuple):
    """What is answered."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = PLAIN


class PortInUseError(DispatcherError):
    """Pages cannot be served there."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host = host
        self.port = port
        self.reason = reason
        super().__init__(
            f"nothing can be served at {host}:{port}: {reason}; choose another --metrics-port, "
            "0 for a free one, or leave it out"
        )


def verdict(trouble: str) -> Page:
    """The page of a probe: 200 ok, or 503 and why not.

    >>> verdict("Redis does not answer")
    Page(body=b'Redis does not answer\\n', status=<HTTPStatus.SERVICE_UNAVAILABLE: 503>, ...)
    """
    if not trouble:
        return Page(b"ok\n")
    return Page(f"{trouble}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


class Pages:
    """Serves `pages`, a function for each path, on `host` and `port` (0: a free one) until
    `close()`. PortInUseError if it cannot. Thread-safe.

    >>> with Pages({"/healthz": lambda: verdict("")}) as pages:
    ...     pages.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self, pages: Mapping[str, Callable[[], Page]], host: str = LOOPBACK, port: int = 0
    ) -> None:
        class Handler(_Handler):
            known = pages

        try:
            self._server = _Server((host, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PortInUseError(host, port, reason) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="worker-pages", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._server.server_address[1]
        return port

    @property
    def url(self) -> str:
        """Without a path."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def close(self) -> None:
        """Frees the port. Again is no error."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Pages:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Somebody who leaves in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    known: Mapping[str, Callable[[], Page]] = {}
    timeout = PATIENCE
    server_version = "dispatcher"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(self._page())

    do_HEAD = do_GET  # noqa: N815

    def _page(self) -> Page:
        path = self.path.partition("?")[0]
        make = self.known.get(path)
        if make is None:
            there = ", ".join(self.known)
            return Page(f"there is {there}\n".encode(), HTTPStatus.NOT_FOUND)
        try:
            return make()
        except Exception:
            logger.exception("%s could not be made", path, extra={"happening": "page-broke"})
            return Page(b"it could not be made; the log says why\n", HTTPStatus(500))

    def _answer(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Probes come every few seconds: that is no news either."""
