"""Whoever connects to the metrics and says nothing harms nobody: neither threads nor scrapes."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from dispatcher.metrics import _http, serve
from tests.waiting import LONG, until


def test_silent_connections_are_bounded_and_a_scrape_gets_through() -> None:
    with serve(0, registry=CollectorRegistry()) as server, ExitStack() as silent:
        before = threading.active_count()
        for _ in range(4 * _http.MOST):
            silent.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        until(lambda: threading.active_count() <= before + _http.MOST)
        with urlopen(server.url, timeout=LONG) as answer:
            assert answer.status == 200
        assert threading.active_count() <= before + _http.MOST + 1


@pytest.mark.parametrize("said", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nX: "])
def test_connection_ends_when_it_has_lasted_too_long(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_http, "LONGEST", 1.0)
    with (
        serve(0, registry=CollectorRegistry()) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as silent,
    ):
        silent.sendall(said)
        while silent.recv(1_000):
            pass
