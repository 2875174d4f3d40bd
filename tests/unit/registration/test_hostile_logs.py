"""Damaged logs of early messages: what lies before the damage comes out, the rest is counted, and
no registration is held up by it."""

from __future__ import annotations

import json
import os
import random
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.registration import (
    EarlyMessageLog,
    MemoryEntityStore,
    Registration,
    RegistrationGate,
)
from tests.hostile import files
from tests.samples import grid

SENT = tuple(f"{number} {'x' * (number * 7 % 40)}" for number in range(12))


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[RegistrationGate]:
    log = EarlyMessageLog(tmp_path, max_bytes=100_000, max_age=1_000, max_bytes_per_entity=1_000)
    with RegistrationGate(MemoryEntityStore(), early_log=log) as made:
        yield made


def log_in(directory: Path) -> Path:
    (found,) = directory.rglob("*.early")
    return found


def frame(body: bytes) -> bytes:
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


def all_told(gate: RegistrationGate) -> None:
    held, *ends = (
        gate.counts[name].telemetry
        for name in ("held", "released", "displaced", "dropped", "corrupt")
    )
    assert held == sum(ends)


def whole_before_damage(data: bytes, damaged: bytes) -> int:
    """How many messages lie before the first byte that is not as it was written."""
    same = next(
        (at for at, (one, other) in enumerate(zip(data, damaged, strict=False)) if one != other),
        min(len(data), len(damaged)),
    )
    count = end = 0
    for text in SENT:
        end += 8 + len(json.dumps(text))
        count += end <= same
    return count


@pytest.mark.parametrize(("kind", "seed"), grid(list(files.KINDS), range(8), every=4))
def test_what_is_whole_comes_out_and_the_rest_is_counted(
    gate: RegistrationGate, tmp_path: Path, kind: str, seed: int
) -> None:
    for text in SENT:
        gate.offer("parent", text)
    gate.register("child", parent="parent")
    path = log_in(tmp_path)
    data = path.read_bytes()
    damaged = files.damage(path, kind, random.Random(f"{kind} {seed}"))
    parent, child = gate.register("parent")
    assert parent.registration == Registration("parent")
    assert child.registration == Registration("child", "parent")
    assert parent.messages == SENT[: whole_before_damage(data, damaged)]
    assert gate.counts["corrupt"].telemetry == len(SENT) - len(parent.messages)
    all_told(gate)


@pytest.mark.parametrize("kind", ["zeros_at_the_end", "noise_at_the_end"])
def test_what_comes_after_such_damage_comes_out_as_well(
    gate: RegistrationGate, tmp_path: Path, kind: str
) -> None:
    for number, text in enumerate(SENT):
        gate.offer("meter", text)
        if number % 3 == 1:
            files.damage(log_in(tmp_path), kind, random.Random(number))
    assert gate.register("meter")[0].messages == SENT
    assert gate.counts["corrupt"] == (0, 0, 0)


@pytest.mark.parametrize("kind", files.KINDS)
def test_a_damaged_log_that_is_full_or_goes_on_reports_all(
    gate: RegistrationGate, tmp_path: Path, kind: str
) -> None:
    for text in SENT:
        gate.offer("meter", text)
    files.damage(log_in(tmp_path), kind, random.Random(kind))
    for number in range(30):
        gate.offer("meter", f"{number} {'y' * 40}")
    gate.register("meter")
    all_told(gate)


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"bytes":"x"}', b'{"what":1}', b"{}", b"[", b"\xff\xfe", b"[" * 900, b'{"float":[1]}'),
        *(b"", b'{"datetime":["now",0]}', b'{"dict":7}'),
    ],
)
def test_one_message_that_cannot_be_read_costs_itself_alone(
    gate: RegistrationGate, tmp_path: Path, body: bytes
) -> None:
    """Its checksum may be right: another version may have written it."""
    gate.offer("parent", "twin", metadata=True)
    for number in range(3):
        gate.offer("parent", "x" * len(body) if number == 1 else number)
    gate.register("child", parent="parent")
    gate.offer("child", 1)
    path = tmp_path / "0" / "1.early"
    data = path.read_bytes()
    size = len(frame(json.dumps(0).encode()))
    path.write_bytes(data[:size] + frame(body) + data[-size:])
    parent, child = gate.register("parent")
    assert parent.messages[:2] == ("twin", 0)
    assert parent.messages[2:] in ((), (2,))
    assert child.messages == (1,)
    assert gate.counts["corrupt"].telemetry == 4 - len(parent.messages)
    all_told(gate)


def test_logs_are_for_their_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        log = EarlyMessageLog(tmp_path, max_bytes=1_000, max_age=1, max_bytes_per_entity=100)
        for number in range(50):  # it is rewritten when it is full
            log.append("meter", json.dumps(number), 0)
    finally:
        os.umask(old)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert len(modes) == 2
    assert set(modes.values()) == {0o600}
    log.close()


def test_what_cannot_be_read_again_is_refused_when_it_is_offered(gate: RegistrationGate) -> None:
    deep: Any = 1
    for _ in range(330):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="message must be at most 100"):
        gate.offer("meter", deep)
    with pytest.raises(ValueError, match="data must be at most 100"):
        gate.register("meter", data=deep)
    assert gate.pending == 0
