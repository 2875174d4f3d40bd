"""The proxy's reading of Redis' protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.resp import Frames, command

FRAMES = [
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":-17\r\n",
    b"_\r\n",
    b",3.5\r\n",
    b"#t\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"$0\r\n\r\n",
    b"$4\r\n\r\n+1\r\n",
    b"*0\r\n",
    b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
    b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
    b"~1\r\n+a\r\n",
    b">2\r\n+message\r\n+hello\r\n",
    b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"PING\r\n",
]


@given(frames=st.lists(st.sampled_from(FRAMES), max_size=8), data=st.data())
def test_whatever_pieces_it_comes_in_the_frames_are_the_same(
    frames: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(frames)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    reading, found = Frames(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reading.feed(stream[start:end])
    assert found == frames


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (b"*2\r\n$3\r\nGet\r\n$1\r\nk\r\n", "GET"),
        (b"*1\r\n$4\r\nPING\r\n", "PING"),
        (b"ping now\r\n", "PING"),
        (b"\r\n", ""),
    ],
)
def test_a_request_is_known_by_its_first_word(request_: bytes, name: str) -> None:
    assert command(request_) == name
