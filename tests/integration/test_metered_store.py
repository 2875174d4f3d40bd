"""The store of the examples and of the soak: what did not arrive whole was not sent."""

from __future__ import annotations

import socket

import pytest

from examples.reminders.store import HOST, MeteredStore


@pytest.mark.parametrize("body", [b"", b'{"rows": '])
def test_a_request_whose_client_dies_in_the_middle_is_none(body: bytes) -> None:
    with MeteredStore(100) as store:
        with socket.create_connection((HOST, store.server_address[1]), timeout=30) as client:
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 20\r\n\r\n" + body)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert store.log == []
