"""Clients that connect to metrics or probes and send nothing, or little, harm neither the process
nor the others that ask."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from dispatcher import _http_port
from dispatcher._http_port import HttpPort
from dispatcher.metrics import serve
from dispatcher.worker._process.health_server import Pages, verdict
from tests.waiting import LONG, until

Made = Callable[[], HttpPort]
SERVERS = {
    "metrics": lambda: serve(0, registry=CollectorRegistry()),
    "probes": lambda: Pages({"/": lambda: verdict("")}),
}

pytestmark = pytest.mark.parametrize("made", SERVERS.values(), ids=SERVERS)


def threads() -> list[threading.Thread]:
    """Return the connections that answer a client."""
    return [one for one in threading.enumerate() if "process_request_thread" in one.name]


def test_silent_connections_are_bounded_and_a_request_gets_through(made: Made) -> None:
    with made() as server, ExitStack() as silent:
        for _ in range(4 * _http_port.MOST):
            silent.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        until(lambda: len(threads()) <= _http_port.MOST)
        with urlopen(server.url, timeout=LONG) as answer:
            assert answer.status == 200
        until(lambda: len(threads()) <= _http_port.MOST)


@pytest.mark.parametrize("sent", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nX: "])
def test_a_connection_ends_when_it_has_lasted_too_long(
    made: Made, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_http_port, "LONGEST", 1.0)
    with (
        made() as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as silent,
    ):
        silent.sendall(sent)
        while silent.recv(1_000):
            pass


def test_so_does_one_that_sends_a_byte_now_and_then(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_http_port, "LONGEST", 1.0)
    with (
        made() as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=0.1) as slow,
    ):
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")

        def is_cut() -> bool:
            try:
                slow.sendall(b"x")
                return not slow.recv(1_000)
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        until(is_cut)
