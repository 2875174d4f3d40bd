"""A broker as plain as can be, for machines without mosquitto: MQTT 3.1.1 with retained messages
and wildcards; it grants no subscription more than QoS 0."""

from __future__ import annotations

import socketserver
import struct
import threading
from contextlib import suppress
from typing import Any, BinaryIO, Self, cast

CONNECT, PUBLISH, SUBSCRIBE, PING, DISCONNECT = 1, 3, 8, 12, 14


class PlainBroker:
    """A context manager; it listens on a free port of the loopback interface."""

    def __init__(self) -> None:
        self._retained: dict[str, bytes] = {}
        self._subscribers: dict[BinaryIO, list[str]] = {}
        self._lock = threading.Lock()
        broker = self

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                broker._serve(self.rfile, cast(BinaryIO, self.wfile))

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Connection)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def place(self) -> str:
        """The address as HOST:PORT, for a command line."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, incoming: Any, out: BinaryIO) -> None:
        try:
            while (packet := _read(incoming)) is not None:
                kind, flags, body = packet
                with self._lock:
                    if kind == CONNECT:
                        out.write(b"\x20\x02\x00\x00")
                    elif kind == PUBLISH:
                        self._publish(out, flags, body)
                    elif kind == SUBSCRIBE:
                        self._subscribe(out, body)
                    elif kind == PING:
                        out.write(b"\xd0\x00")
                if kind == DISCONNECT:
                    break
        except OSError:
            pass
        finally:
            with self._lock:
                self._subscribers.pop(out, None)

    def _publish(self, out: BinaryIO, flags: int, body: bytes) -> None:
        topic, rest = _text(body)
        if flags >> 1 & 3:
            number, rest = rest[:2], rest[2:]
            out.write(b"\x40\x02" + number)
        if flags & 1:
            self._retained[topic] = rest
        for subscriber, filters in self._subscribers.items():
            if any(_matches(one, topic) for one in filters):
                with suppress(OSError):  # it has gone, which must not end the one that publishes
                    _send(subscriber, topic, rest, retained=False)

    def _subscribe(self, out: BinaryIO, body: bytes) -> None:
        number, rest = body[:2], body[2:]
        filters = []
        while rest:
            one, rest = _text(rest)
            filters.append(one)
            rest = rest[1:]
        out.write(_packet(0x90, number + bytes(len(filters))))
        self._subscribers.setdefault(out, []).extend(filters)
        for topic, message in self._retained.items():
            if any(_matches(one, topic) for one in filters):
                _send(out, topic, message, retained=True)


def _read(incoming: Any) -> tuple[int, int, bytes] | None:
    first = incoming.read(1)
    if not first:
        return None
    length, shift = 0, 0
    while True:
        (digit,) = incoming.read(1)
        length |= (digit & 127) << shift
        shift += 7
        if digit < 128:
            break
    return first[0] >> 4, first[0] & 15, incoming.read(length)


def _packet(first: int, body: bytes) -> bytes:
    length, digits = len(body), bytearray()
    while length > 127:
        digits.append(length & 127 | 128)
        length >>= 7
    digits.append(length)
    return bytes([first, *digits]) + body


def _send(out: BinaryIO, topic: str, message: bytes, *, retained: bool) -> None:
    name = topic.encode()
    body = struct.pack(">H", len(name)) + name + message
    out.write(_packet(0x30 | int(retained), body))


def _text(body: bytes) -> tuple[str, bytes]:
    (length,) = struct.unpack_from(">H", body)
    return body[2 : 2 + length].decode(), body[2 + length :]


def _matches(wanted: str, topic: str) -> bool:
    parts, names = wanted.split("/"), topic.split("/")
    if parts[-1] == "#":
        parts, names = parts[:-1], names[: len(parts) - 1]
    return len(parts) == len(names) and all(
        part in ("+", name) for part, name in zip(parts, names, strict=True)
    )
