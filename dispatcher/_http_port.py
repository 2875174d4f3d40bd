"""A port of this machine behind which a thread serves HTTP, until it is closed."""

from __future__ import annotations

import threading
from http.server import HTTPServer
from types import TracebackType
from typing import Self


class HttpPort:
    """Serves until `close()`, or the end of its `with` block. Thread-safe."""

    def __init__(self, server: HTTPServer, thread: threading.Thread, path: str = "") -> None:
        self._server = server
        self._thread = thread
        self._path = path

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """Where others on this machine find it."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}{self._path}"

    def close(self) -> None:
        """Frees the port. Idempotent."""
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
