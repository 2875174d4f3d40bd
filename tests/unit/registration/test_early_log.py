"""Early telemetry on disk: law R7, and R5 on disk."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.registration import (
    EarlyMessageLog,
    EntityStoreError,
    MemoryEntityStore,
    RegistrationGate,
)
from limiters.testing import ManualClock
from tests.examples import examples

Made = Callable[..., RegistrationGate]


@pytest.fixture
def made(tmp_path: Path) -> Any:
    logs: list[EarlyMessageLog] = []

    def make(*, max_bytes: int = 10_000, max_age: float = 100, **options: Any) -> RegistrationGate:
        each = options.pop("max_bytes_per_entity", None)
        log = EarlyMessageLog(
            tmp_path / "early", max_bytes=max_bytes, max_age=max_age, max_bytes_per_entity=each
        )
        logs.append(log)
        return RegistrationGate(MemoryEntityStore(), early_log=log, **options)

    yield make
    for log in logs:
        log.close()


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "early").rglob("*.early"))


def opened(tmp_path: Path) -> list[str]:
    """The files that this process has open in it; other descriptors do not count."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            found.append(os.readlink(one))
    return [path for path in found if path.startswith(str(tmp_path))]


def on_disk(tmp_path: Path) -> int:
    return sum(path.stat().st_size for path in files(tmp_path))


def test_r7_one_log_for_each_entity_and_none_once_it_is_registered(
    made: Made, tmp_path: Path
) -> None:
    gate = made()
    for number in range(5):
        for entity in ("a", "../../b"):
            gate.offer(entity, (entity, number))
    gate.offer("a", "twin", metadata=True)
    assert len(files(tmp_path)) == 2
    assert gate.register("a")[0].messages == ("twin", *(("a", number) for number in range(5)))
    assert len(files(tmp_path)) == 1
    assert gate.counts["released"] == (0, 1, 5)
    gate.deregister("../../b")
    assert files(tmp_path) == []


def test_r7_logs_are_deleted_at_restart_and_nothing_else_is(made: Made, tmp_path: Path) -> None:
    first = made()
    first.offer("a", 1)
    (log,) = files(tmp_path)
    left = log.read_bytes()
    first.close()
    assert files(tmp_path) == []
    log.parent.mkdir()
    log.write_bytes(left)  # as a process that is killed leaves it
    (tmp_path / "early" / f"{'0f' * 20}.early").write_bytes(left)  # as earlier versions did
    (tmp_path / "early" / "notes.early").write_text("mine")
    gate = made()
    assert gate.register("a")[0].messages == ()
    assert [path.name for path in files(tmp_path)] == ["notes.early"]


def test_r7_many_logs_are_spread_over_folders_that_go_with_their_last_log(
    made: Made, tmp_path: Path
) -> None:
    gate = made(max_bytes=1_000_000)
    for turn in range(2):
        for number in range(2_500):
            gate.offer(f"e{number}", turn)
    assert len(opened(tmp_path)) <= 5
    folders = Counter(path.parent for path in files(tmp_path))
    assert sum(folders.values()) == 2_500
    assert max(folders.values()) <= 1_000
    assert (tmp_path / "early") not in folders
    for number in range(2_500):
        assert gate.register(f"e{number}")[0].messages == (0, 1)
    assert [path.name for path in (tmp_path / "early").iterdir()] == ["lock"]


def test_r7_a_directory_belongs_to_one_gate(made: Made, tmp_path: Path) -> None:
    made()
    with pytest.raises(EntityStoreError, match="in use by another gate"):
        EarlyMessageLog(tmp_path / "early", max_bytes=1, max_age=1)


def test_a_lock_that_cannot_be_had_is_not_reported_as_of_another_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("dispatcher.registration.early_log.lock", failing)
    with pytest.raises(EntityStoreError, match="No locks available"):
        EarlyMessageLog(tmp_path, max_bytes=1, max_age=1)
    assert opened(tmp_path) == []


def test_r7_a_log_is_bounded_in_bytes_and_the_newest_stay(made: Made, tmp_path: Path) -> None:
    gate = made(max_bytes_per_entity=100)
    for number in range(1_000):
        gate.offer("a", number)
        assert on_disk(tmp_path) <= 100
    messages = gate.register("a")[0].messages
    assert messages == tuple(range(1_000 - len(messages), 1_000))
    assert len(messages) >= 4
    assert gate.counts["displaced"].telemetry == 1_000 - len(messages)


def test_r7_logs_age(made: Made, tmp_path: Path) -> None:
    clock = ManualClock()
    gate = made(max_age=10, clock=clock)
    gate.offer("a", 1)
    gate.offer("a", "twin", metadata=True)
    clock.advance(5)
    gate.offer("b", 1)
    clock.advance(5)
    gate.evict()
    assert len(files(tmp_path)) == 1
    assert gate.counts["dropped"].telemetry == 1
    assert gate.register("a")[0].messages == ("twin",)
    assert gate.register("b")[0].messages == (1,)


def test_r5_a_rogue_sender_neither_fills_the_disk_nor_pushes_out_others(
    made: Made, tmp_path: Path
) -> None:
    gate = made(max_bytes=2_000, max_bytes_per_entity=2_000)
    for number in range(3):
        gate.offer("good", number)
    for number in range(2_000):
        gate.offer("rogue", number)
        assert on_disk(tmp_path) <= 2_000
    assert gate.register("good")[0].messages == (0, 1, 2)
    assert gate.register("rogue")[0].messages[-1] == 1_999


def test_r5_many_senders_are_bounded_together(made: Made, tmp_path: Path) -> None:
    gate = made(max_bytes=500)
    for number in range(500):
        gate.offer(f"e{number}", "x" * (number % 30))
        assert on_disk(tmp_path) <= 500
    counts = gate.counts
    assert counts["held"].telemetry == 500
    for number in range(500):
        gate.register(f"e{number}")
    counts = gate.counts
    assert counts["released"].telemetry + counts["displaced"].telemetry == 500
    assert gate.pending == 0


def test_a_message_that_is_too_long_is_reported(made: Made, tmp_path: Path) -> None:
    gate = made(max_bytes_per_entity=50)
    gate.offer("a", "x" * 100)
    assert gate.counts["displaced"].telemetry == 1
    assert gate.pending == 0
    gate.offer("a", 1)
    gate.offer("a", "x" * 100)
    assert gate.register("a")[0].messages == (1,)


@pytest.mark.parametrize("cut", range(0, 46, 3))
def test_of_a_log_that_was_cut_short_what_is_whole_is_used_and_the_rest_reported(
    made: Made, tmp_path: Path, cut: int
) -> None:
    gate = made()
    for number in range(5):
        gate.offer("a", number)
    (log,) = files(tmp_path)
    log.write_bytes(log.read_bytes()[:cut])
    messages = gate.register("a")[0].messages
    assert messages == tuple(range(cut // 9))
    assert gate.counts["corrupt"].telemetry == 5 - len(messages)


@pytest.mark.parametrize("at", range(45))
def test_of_a_log_with_a_flipped_bit_what_is_whole_is_used(
    made: Made, tmp_path: Path, at: int
) -> None:
    gate = made()
    for number in range(5):
        gate.offer("a", number)
    (log,) = files(tmp_path)
    data = bytearray(log.read_bytes())
    data[at] ^= 4
    log.write_bytes(bytes(data))
    messages = gate.register("a")[0].messages
    assert messages == tuple(range(at // 9))
    assert gate.counts["corrupt"].telemetry == 5 - len(messages)


def test_a_log_that_is_gone_is_reported(made: Made, tmp_path: Path) -> None:
    gate = made()
    gate.offer("a", 1)
    files(tmp_path)[0].unlink()
    assert gate.register("a")[0].messages == ()
    assert gate.counts["corrupt"].telemetry == 1


def test_a_log_that_cannot_be_deleted_holds_up_no_registration(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = made()
    gate.offer("a", 1)
    gate.offer("a", "twin", metadata=True)
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "unlink", refused)
    assert gate.register("a")[0].messages == ("twin", 1)
    gate.deregister("a")
    gate.offer("a", 2)
    monkeypatch.setattr(Path, "unlink", unlink)
    assert gate.register("a")[0].messages == (2,), "and nothing of the old one"
    assert gate.counts["corrupt"] == (0, 0, 0)


def test_on_a_full_disk_telemetry_is_held_in_memory_in_order(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = made(telemetry_per_entity=2)
    gate.offer("a", 1)
    opened = Path.open

    class HalfFull:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> HalfFull:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

        def seek(self, place: int) -> None:
            self.file.seek(place)

        def write(self, data: bytes) -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        Path, "open", lambda path, *mode, **options: HalfFull(opened(path, *mode, **options))
    )
    gate.offer("a", 2)
    gate.offer("b", 2)
    monkeypatch.undo()
    (log,) = files(tmp_path)  # and none that would not be deleted
    assert log.stat().st_size == 9
    gate.offer("a", 3)
    gate.offer("a", 4)
    assert gate.counts["displaced"].telemetry == 1
    assert gate.register("a")[0].messages == (1, 3, 4)
    assert gate.register("b")[0].messages == (2,)
    assert gate.counts["corrupt"].telemetry == 0


def test_an_error_of_the_disk_is_reported_with_the_place(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = made()
    heard: list[Any] = []
    gate.add_listener(heard.append, "error")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "touch", full)
    gate.offer("a", 1)
    monkeypatch.undo()
    gate.close()
    (event,) = heard
    assert (
        event.message
        == f"the early log in {tmp_path / 'early'}: [Errno 28] No space left on device"
    )


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_r7_what_cannot_be_read_for_now_is_not_lost(
    made: Made, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    gate = made(max_bytes=40, max_bytes_per_entity=40)
    for value in (1, 2, 3, 4):
        gate.offer("a", value)
    gate.register("a", parent="b")

    def failing(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", failing)
        gate.offer("a", 5)  # the log is full, and cannot be halved: in memory
        for _ in range(2):
            with pytest.raises(EntityStoreError, match=r"the early log in .* cannot be read"):
                gate.register("b")
    assert gate.counts["registered"] == gate.counts["displaced"] == gate.counts["corrupt"]
    top, below = gate.register("b")
    assert (top.entity, below.messages) == ("b", (1, 2, 3, 4, 5))


def test_options_are_checked(tmp_path: Path) -> None:
    bad: Any
    for bad in ("", None, 7, b"early", "a\0b"):
        with pytest.raises(ValueError, match="directory must be the path of a directory"):
            EarlyMessageLog(bad, max_bytes=1, max_age=1)
    for bad in ({"max_bytes": 0}, {"max_age": -1}, {"max_bytes_per_entity": 0}):
        (name,) = bad
        with pytest.raises(ValueError, match=f"{name} must"):
            EarlyMessageLog(tmp_path, **{"max_bytes": 1, "max_age": 1, **bad})
    (tmp_path / "file").touch()
    with pytest.raises(EntityStoreError, match="directory must be one that can be written to"):
        EarlyMessageLog(tmp_path / "file", max_bytes=1, max_age=1)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(40, 400),
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 40), st.sampled_from("ooooorrw")),
        max_size=80,
    ),
)
def test_r7_whatever_comes_the_newest_come_out_and_all_are_counted(
    tmp_path_factory: pytest.TempPathFactory, max_bytes: int, moves: list[Any]
) -> None:
    directory, clock = tmp_path_factory.mktemp("early"), ManualClock()
    log = EarlyMessageLog(directory, max_bytes=max_bytes, max_age=10, max_bytes_per_entity=200)
    gate = RegistrationGate(
        MemoryEntityStore(), early_log=log, max_age=12, pending_entities=3, clock=clock
    )
    sent: dict[str, list[Any]] = {}
    out = 0
    for number, (entity, length, move) in enumerate(moves):
        if move == "o":
            message = f"{number} {'x' * length}"
            out += len(gate.offer(entity, message))
            sent.setdefault(entity, []).append(message)
        elif move == "r":
            for release in gate.register(entity):
                mine = sent.get(entity, [])
                # In order, and nothing but what was sent.
                assert [one for one in mine if one in release.messages] == list(release.messages)
                out += len(release.messages)
            gate.deregister(entity)
            sent.pop(entity, None)
        else:
            clock.advance(length / 4)
            gate.evict()
        assert log.size == sum(path.stat().st_size for path in directory.rglob("*.early"))
        assert log.size <= max_bytes
    for entity in "abcd":
        gate.register(entity)
    counts = gate.counts
    ends = sum(counts[name].telemetry for name in ("released", "displaced", "dropped", "corrupt"))
    assert counts["held"].telemetry == ends
    gate.close()
