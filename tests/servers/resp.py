"""As much of Redis' protocol as it takes to tell requests, and replies, from one another."""

from __future__ import annotations

_BULK = b"$=!"
_VALUES_IN_EACH = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}


class Frames:
    """Cuts a stream of bytes into whole requests or replies, whatever pieces it comes in."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete with `data`."""
        self._buffer += data
        frames = []
        while (end := _end(self._buffer, 0)) is not None:
            frames.append(self._buffer[:end])
            self._buffer = self._buffer[end:]
        return frames


def command(request: bytes) -> str:
    """The first word of a request, in capitals."""
    words = request.split(b"\r\n", 3)[2:3] if request.startswith(b"*") else request.split()
    return words[0].decode().upper() if words else ""


def is_push(reply: bytes) -> bool:
    """Whether it is news that answers no request."""
    return reply.startswith(b">")


def _end(buffer: bytes, start: int) -> int | None:
    """Where the value that begins at `start` ends; None if not all of it is there."""
    line_end = buffer.find(b"\r\n", start)
    if line_end < 0:
        return None
    kind, end = buffer[start : start + 1], line_end + 2
    if kind in _BULK:
        size = int(buffer[start + 1 : line_end])
        end += size + 2 if size >= 0 else 0
        return end if end <= len(buffer) else None
    if kind in _VALUES_IN_EACH:
        values = int(buffer[start + 1 : line_end]) * _VALUES_IN_EACH[kind]
        for _ in range(values + (kind == b"|")):  # attributes stand before the value they are of
            after = _end(buffer, end)
            if after is None:
                return None
            end = after
    return end
