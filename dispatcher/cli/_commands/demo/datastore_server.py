"""A pretended datastore behind a port, so that several processes can write to it."""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import Self

from dispatcher.cli.datastore import Datastore, TooManyRequestsError

HOST = "127.0.0.1"


class _DatastoreHandler(socketserver.StreamRequestHandler):
    """Handles requests, one in each line: number of records, cost, client, how long they waited."""

    server: DatastoreServer

    def handle(self) -> None:
        for line in self.rfile:
            records, cost, who, waited = line.split()
            try:
                self.server.datastore.write(int(records), float(cost), who.decode(), float(waited))
                answer = b"written\n"
            except TooManyRequestsError:
                answer = b"429\n"
            self.wfile.write(answer)


class DatastoreServer(socketserver.ThreadingTCPServer):
    """Serves a datastore on a free port of this machine, in its `with` block."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, datastore: Datastore) -> None:
        super().__init__((HOST, 0), _DatastoreHandler)
        self.datastore = datastore
        self.port: int = self.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a client that is killed in the middle of a request is expected."""


class DatastoreClient:
    """Writes to the datastore behind `port`. Thread-safe: each thread has its own connection."""

    def __init__(self, port: int, name: str = "somebody") -> None:
        self._port = port
        self._name = name.encode()
        self._mine = threading.local()

    def write(self, records: int, cost: float, waited: float = 0.0) -> None:
        """Writes `records` that have `waited` for `cost`, or raises TooManyRequestsError."""
        if not hasattr(self._mine, "stream"):
            connection = socket.create_connection((HOST, self._port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._mine.stream = connection.makefile("rwb", buffering=0)
        self._mine.stream.write(b"%d %r %s %.6f\n" % (records, cost, self._name, waited))
        answer = self._mine.stream.readline()
        if not answer:
            raise ConnectionResetError("the datastore has ended")
        if answer != b"written\n":
            raise TooManyRequestsError
