"""Damaged files of entities: no record that is whole is lost, and none that is not goes unsaid.

The judge has the bytes of each record: one whose bytes are all in the damaged file is whole.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sqlite3
import stat
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dispatcher.registration import EntityStoreError, RegistrationGate, SqliteEntityStore
from dispatcher.registration._model.reports import Report
from tests.hostile import files
from tests.samples import grid, sample

ENTITIES = 300


class Kept(NamedTuple):
    """A file of entities as a process has left it, and what is in it."""

    path: Path
    records: dict[str, str]
    marks: dict[str, bytes]
    """Of each record, the bytes that it is made of. Those of a long one are only its beginning:
    the rest lies in pages of its own."""

    def copied(self, to: Path) -> Path:
        path = to / "entities.db"
        for ending in ("", "-wal"):
            if (one := Path(f"{self.path}{ending}")).exists():
                shutil.copyfile(one, f"{path}{ending}")
        return path

    def hurt(self, path: Path) -> None:
        """Damages one record that is not outdated, wherever it lies."""
        mark = next(mark for mark in self.marks.values() if len(mark) < 150)
        for one in (path, Path(f"{path}-wal")):
            if one.exists() and mark in (data := one.read_bytes()):
                one.write_bytes(data.replace(mark, mark[:-8] + b"?" + mark[-7:]))


def record(number: int, turn: int) -> str:
    """Of various lengths: some lie in more than one page."""
    length = 9_000 if number % 50 == 7 else number * 37 % 400
    return f'["top",{{"dict":[["n",{number}],["turn",{turn}],["text","{"x" * length}"]]}}]'


def churned(store: SqliteEntityStore) -> dict[str, str]:
    """Fills a store as life does: updates, removals, new ones."""
    chance = random.Random(5)
    store.load()
    records: dict[str, str] = {}
    for turn in range(6):
        some = {
            f"device/{number}": record(number, turn)
            for number in chance.sample(range(ENTITIES), ENTITIES // 3)
        }
        gone = chance.sample(sorted(records), len(records) // 6)
        store.save(some)
        records |= some
        store.save({}, removed=gone)
        for one in gone:
            del records[one]
    return records


def size_of(text: str) -> bytes:
    """The kind and size of a text, as SQLite writes it."""
    number = 13 + 2 * len(text)
    return bytes([number]) if number < 128 else bytes([128 | number >> 7, number & 127])


def number_of(value: int) -> tuple[bytes, bytes]:
    """The kind of a number, and its bytes."""
    widths = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
    kind = next(kind for kind, width in widths.items() if value < 1 << 8 * width - 1)
    return bytes([kind]), value.to_bytes(widths[kind])


def log_of(path: Path) -> bytes:
    log = Path(f"{path}-wal")
    return log.read_bytes() if log.exists() else b""


def bytes_of(path: Path, records: dict[str, str]) -> dict[str, bytes]:
    with sqlite3.connect(path) as connection:
        found = {
            entity: (sequence, checksum)
            for sequence, entity, checksum in connection.execute(
                "SELECT sequence, entity, checksum FROM entities"
            )
        }
    connection.close()
    marks = {}
    for entity, text in records.items():
        sequence, checksum = found[entity]
        assert checksum == zlib.crc32(f"{sequence} {entity}{text}".encode())
        numbers = number_of(sequence), number_of(checksum)
        sizes = numbers[0][0] + size_of(entity) + size_of(text) + numbers[1][0]
        body = numbers[0][1] + f"{entity}{text}".encode() + numbers[1][1]
        whole = bytes([len(sizes) + 1]) + sizes + body
        assert len(text) > 4_000 or whole in path.read_bytes() + log_of(path)
        marks[entity] = whole[:150] if len(text) > 4_000 else whole
    return marks


def left_by(place: Path, *, killed: bool) -> Kept:
    """The files of a process that was `killed` or closed its store."""
    path = place / "open" / "entities.db"
    path.parent.mkdir()
    store = SqliteEntityStore(path)
    records = churned(store)
    if not killed:
        store.close()
    left = Kept(path, records, {}).copied(place)
    store.close()
    return Kept(left, records, bytes_of(path, records))


@pytest.fixture(scope="module")
def of_killed(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    made = left_by(tmp_path_factory.mktemp("killed"), killed=True)
    assert Path(f"{made.path}-wal").stat().st_size > 0
    return made


@pytest.fixture(scope="module")
def of_closed(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return left_by(tmp_path_factory.mktemp("closed"), killed=False)


@pytest.fixture(params=["of_closed", "of_killed"])
def filled(request: Any) -> Kept:
    made: Kept = request.getfixturevalue(request.param)
    return made


class Loaded(NamedTuple):
    known: dict[str, str]
    reports: list[Report]
    sequence: int


def loaded(path: Path) -> Loaded:
    store = SqliteEntityStore(path)
    try:
        return Loaded(*store.load(), store.sequence)
    finally:
        store.close()


def judged(filled: Kept, path: Path, before: Loaded, *, log: bool = False) -> None:
    """The result of loading a file that was damaged; or of one whose `log` of writes was, so that
    the last changes may be gone without a trace."""
    known, reports, _ = before
    asides = [one for one in sorted(path.parent.iterdir()) if ".damaged-" in one.name]
    left = b"".join(one.read_bytes() for one in asides)
    gone = {
        entity
        for entity, mark in filled.marks.items()
        if asides and (mark not in left or len(filled.records[entity]) > 4_000)
    }
    wrong = {entity for entity in known if known[entity] != filled.records.get(entity)}
    lost = filled.records.keys() - known.keys()
    assert not lost - gone, "its bytes are all there"
    if log:
        assert not (wrong & filled.records.keys()) - gone, "there is a later one"
        assert reports
    else:
        assert not wrong, "it was never so, or is not so any more"
        assert bool(reports) == bool(asides)
        told = sum(one.registrations for one in reports)
        assert told == len(lost) or "how many" in reports[0].reason
        assert told or not lost
    again = loaded(path)
    assert again.known == known
    assert not again.reports
    assert again.sequence >= before.sequence


@pytest.mark.parametrize(("kind", "seed"), grid(list(files.KINDS), range(6), every=6))
def test_r6_no_whole_record_of_a_damaged_file_is_lost_and_no_other_goes_unsaid(
    filled: Kept, tmp_path: Path, kind: str, seed: int
) -> None:
    path = filled.copied(tmp_path)
    damaged = files.damage(path, kind, random.Random(f"{kind} {seed}"))
    log_before = log_of(path)
    found = loaded(path)
    aside = tmp_path / "entities.db.damaged-1"
    if found.reports:
        assert str(aside) in found.reports[0].reason
        assert aside.read_bytes() == damaged, "it was touched"
        if log_before:
            assert Path(f"{aside}-wal").read_bytes() == log_before
    judged(filled, path, found)


@pytest.mark.parametrize(("kind", "seed"), grid(list(files.KINDS), range(6), every=6))
def test_r6_nor_of_a_file_whose_log_of_writes_is_damaged(
    of_killed: Kept, tmp_path: Path, kind: str, seed: int
) -> None:
    path = of_killed.copied(tmp_path)
    log = Path(f"{path}-wal")
    damaged = files.damage(log, kind, random.Random(f"{kind} {seed}"))
    found = loaded(path)
    if kind in ("cut_short", "cut_by_pages", "empty") and not found.reports:
        return  # as one that was killed before it wrote the rest: nothing can tell them apart
    if found.reports:
        assert Path(f"{tmp_path / 'entities.db.damaged-1'}-wal").read_bytes() == damaged
        judged(of_killed, path, found, log=True)
    else:
        assert found.known == of_killed.records, "what it says it has is all there"


def test_r6_after_churn_one_flipped_bit_costs_one_record(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    for turn in range(400):
        store.save({f"e{number}": f'[null,"{turn} of {number}"]' for number in range(100)})
        store.save({}, removed=[f"e{number}" for number in range(99)])
    store.save({f"e{number}": f'[null,"last of {number}"]' for number in range(100)})
    store.close()
    data = path.read_bytes()
    at = data.index(b"last of 50") + 3
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    known, reports, _ = loaded(path)
    assert known.keys() == {f"e{number}" for number in range(100)} - {"e50"}
    assert [(one.entity, one.registrations) for one in reports if one.registrations] == [("e50", 1)]


def moment(path: Path, stop_at: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Loads in a child that is killed at the so-manieth call of the system that changes a file;
    how it ended. What it logs is in the file `said`."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    logging.getLogger("dispatcher").addHandler(logging.FileHandler(path.with_name("said")))
    calls = iter(range(stop_at))

    def killing(call: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            if next(calls, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return run

    for name in ("open", "link", "replace", "rename", "unlink", "fsync", "chmod"):
        monkeypatch.setattr(os, name, killing(getattr(os, name)))
    SqliteEntityStore(path).load()
    os._exit(0)


def test_r6_sigkill_at_any_moment_of_salvaging_loses_no_whole_record_and_none_goes_unsaid(
    filled: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stop_at in range(100):
        place = tmp_path / str(stop_at)
        place.mkdir()
        path = filled.copied(place)
        filled.hurt(path)
        end = moment(path, stop_at, monkeypatch)
        first = loaded(path)
        assert len(first.known) >= len(filled.records) - 1
        lost = filled.records.keys() - first.known.keys()
        if first.reports:
            judged(filled, path, first, log=True)
        else:
            lost_told = "at least 1, how many is not known" if log_of(filled.path) else "1"
            assert f"lost: {lost_told}; the damaged file is" in (place / "said").read_text()
            assert len(lost) <= 1
        assert len([one for one in place.iterdir() if one.name.endswith("damaged-1")]) == 1
        assert not any(one.name.endswith("damaged-2") for one in place.iterdir())
        assert {one.stat().st_nlink for one in place.iterdir()} == {1}
        if end == 0:
            assert stop_at > 5
            return
    raise AssertionError("it never came to its end")


def test_r6_sigkill_at_any_moment_of_writing_a_file_again_loses_nothing(
    filled: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stop_at in range(100):
        place = tmp_path / str(stop_at)
        place.mkdir()
        path = filled.copied(place)
        os.link(path, place / "another name")
        end = moment(path, stop_at, monkeypatch)
        assert loaded(path)[:2] == (filled.records, [])
        assert {one.stat().st_nlink for one in place.iterdir()} == {1}
        assert not any(".damaged" in one.name for one in place.iterdir())
        if end == 0:
            assert stop_at > 5
            return
    raise AssertionError("it never came to its end")


def test_r6_a_disk_that_is_full_while_salvaging_loses_nothing(
    filled: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled.copied(tmp_path)
    filled.hurt(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for _ in range(2):
            with pytest.raises(EntityStoreError, match="its disk is full"):
                loaded(path)
    now = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    assert before.items() <= now.items()
    found = loaded(path)
    judged(filled, path, found, log=True)
    assert sum(one.registrations for one in found.reports) == 1


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    old = os.umask(0)
    try:
        store = SqliteEntityStore(path)
        store.load()
        store.save({"a": "[null,1]"})
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
        store.close()
        path.chmod(0o644)
        path.write_bytes(b"x" + path.read_bytes()[1:])
        loaded(path)
        modes |= {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    finally:
        os.umask(old)
    assert {"entities.db", "entities.db-wal", "entities.db.damaged-1"} <= modes.keys()
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("damaged", [False, True])
def test_names_of_the_format_before_stay_as_they_are(tmp_path: Path, damaged: bool) -> None:
    path = tmp_path / "entities.db"
    names = ["a\x7f0a", "a\n", "b\x7f7f", "b\x7f", "c"]
    records = {name: f"[null,{number}]" for number, name in enumerate(names)}
    of_the_format_before(path, records)
    if damaged:
        path.write_bytes(path.read_bytes().replace(b"c[null,4]", b"c[null,5]"))
        del records["c"]
    assert loaded(path).known == records
    assert loaded(path).known == records


def test_a_file_of_the_format_before_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    records = {f"e{number}": f"[null,{number}]" for number in range(50)}
    of_the_format_before(path, records)
    old = path.read_bytes()
    assert loaded(path) == (records, [], 70)
    assert loaded(path) == (records, [], 70)
    path.write_bytes(old.replace(b"[null,17]", b"[null,18]"))
    known, reports, sequence = loaded(path)
    assert records.keys() - known.keys() == {"e17"}
    assert [one.entity for one in reports if one.registrations] == ["e17"]
    assert sequence > 70


def of_the_format_before(path: Path, records: dict[str, str]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE entities (sequence INTEGER NOT NULL, entity TEXT NOT NULL UNIQUE, "
        "record TEXT NOT NULL, checksum INTEGER NOT NULL)"
    )
    connection.execute("CREATE TABLE numbering (last INTEGER NOT NULL)")
    connection.execute("INSERT INTO numbering VALUES (70)")
    for number, (entity, text) in enumerate(records.items(), 11):
        checksum = zlib.crc32(f"{number} {entity}{text}".encode())
        connection.execute(
            "INSERT INTO entities VALUES (?, ?, ?, ?)", (number, entity, text, checksum)
        )
    connection.execute("PRAGMA user_version = 2")
    connection.close()


def test_removed_ones_do_not_come_back_and_are_not_kept_without_end(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    sizes = []
    for turn in range(4):
        names = [f"turn {turn} number {number}" for number in range(3_000)]
        store.save(dict.fromkeys(names, '[null,"text"]'))
        store.save({}, removed=names)
        store.close()
        store.load()
        sizes.append(path.stat().st_size)
    store.close()
    assert max(sizes) <= 1.5 * min(sizes) + 100_000
    assert loaded(path).known == {}
    with RegistrationGate(SqliteEntityStore(path)) as gate:
        assert gate.counts["corrupt"] == (0, 0, 0)


@pytest.mark.parametrize("bit", sample([1, 128], every=2))
def test_r6_no_letter_of_what_the_tables_are_keeps_a_gate_from_starting(
    tmp_path: Path, bit: int
) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    store.save({"a": "[null,1]"})
    store.close()
    data = path.read_bytes()
    start = data.index(b"tableentities")
    for at in range(start - 8, min(start + 190, files.PAGE)):
        path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        assert loaded(path).known == {"a": "[null,1]"}, at
        for one in tmp_path.glob("*.damaged-*"):
            one.unlink()


def registers_with_flipped_bits(path: Path, data: bytes, bits: list[int]) -> None:
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        for entity in ("c", "d"):
            store = SqliteEntityStore(path)
            store.load()
            store.save({entity: "[null,1]"})
            assert all(isinstance(one.record, str) for one in store.emitted(0)), bit
            store.close()
        assert loaded(path).known.keys() >= {"c", "d"}, bit
        for one in path.parent.glob("*.damaged-*"):
            one.unlink()


def test_r6_a_bit_that_sqlite_takes_for_another_kind_of_file_or_column_is_damage(
    tmp_path: Path,
) -> None:
    path, data = closed_with_two(tmp_path)
    totals, row = data.index(b"[3, "), data.index(b"a[null,1]")
    bits = [8 * 18 + 3, 8 * 18 + 7, 8 * (totals - 3), 8 * (row - 2)]
    registers_with_flipped_bits(path, data, bits)


@pytest.mark.parametrize("part", sample(range(64), every=64))
def test_r6_no_bit_of_a_file_keeps_a_gate_from_registering(tmp_path: Path, part: int) -> None:
    path, data = closed_with_two(tmp_path)
    head = [8 * at + bit for at in (18, 19, 60, 63) for bit in range(8)]
    rows = range(8 * (data.index(b"[3, ") - 10), 8 * 2 * files.PAGE)
    registers_with_flipped_bits(path, data, [*head, *rows][part::64])


def closed_with_two(directory: Path) -> tuple[Path, bytes]:
    path = directory / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    store.save({"a": "[null,1]", "b": "[null,1]"})
    store.close()
    return path, path.read_bytes()


def test_r6_without_its_totals_a_file_says_that_it_is_not_known_how_many_are_lost(
    of_closed: Kept, tmp_path: Path
) -> None:
    path = of_closed.copied(tmp_path)
    data = path.read_bytes()
    page = data.index(b"[3, ") // files.PAGE * files.PAGE
    for zeros in (100, files.PAGE - 200):
        path.write_bytes(data[: page + 100] + b"\0" * zeros + data[page + 100 + zeros :])
        totals_are_gone = b"[3, " not in path.read_bytes()
        found = loaded(path)
        judged(of_closed, path, found)
        assert not totals_are_gone or "how many is not known" in found.reports[0].reason
        assert all(one.entity.isprintable() and one.entity != "?" for one in found.reports)
        for one in tmp_path.glob("*.damaged-*"):
            one.unlink()
    assert totals_are_gone


def test_r6_no_flipped_bit_before_a_page_of_the_log_of_writes_loses_it_in_silence(
    tmp_path: Path,
) -> None:
    path = tmp_path / "open" / "entities.db"
    path.parent.mkdir()
    store = SqliteEntityStore(path)
    store.load()
    for number in range(4):
        store.save({f"e{number}": "[null,1]"})
    kept = Kept(path, {f"e{number}": "[null,1]" for number in range(4)}, {})
    left = kept.copied(tmp_path)
    store.close()
    whole = log_of(left)
    frame = len(whole) - files.PAGE - 24
    for at in range(frame, frame + 24):
        kept._replace(path=left).copied(tmp_path / "open")
        Path(f"{path}-wal").write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
        )
        found = loaded(path)
        assert found.known == kept.records, at - frame
        assert found.reports, at - frame
        unknown = "how many" in found.reports[0].reason
        assert unknown == (not 8 <= at - frame < 16), "the sums prove that no page is missing"
        for one in path.parent.iterdir():
            one.unlink()


def test_r6_no_flipped_bit_hides_the_end_of_a_transaction(tmp_path: Path) -> None:
    path = tmp_path / "open" / "entities.db"
    path.parent.mkdir()
    store = SqliteEntityStore(path)
    store.load()
    records: dict[str, str] = {}
    pages = 0
    while pages != 8:
        records[f"e{len(records)}"] = f'[null,"{"x" * 400}"]'
        store.save(dict(list(records.items())[-1:]))
        at = len(log_of(path)) - files.PAGE - 24
        pages = int.from_bytes(log_of(path)[at + 4 : at + 8])
    left = Kept(path, records, {}).copied(tmp_path)
    store.close()
    whole = log_of(left)
    Path(f"{left}-wal").write_bytes(whole[: at + 7] + b"\0" + whole[at + 8 :])
    known, reports, _ = loaded(left)
    assert known == records
    assert reports


def test_r6_a_log_of_writes_cut_in_its_head_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "open" / "entities.db"
    path.parent.mkdir()
    store = SqliteEntityStore(path)
    store.load()
    store.save({"a": "[null,1]"})
    left = Kept(path, {}, {}).copied(tmp_path)
    store.close()
    os.truncate(f"{left}-wal", 10)
    assert "its log of writes is cut short" in loaded(left).reports[0].reason


def test_a_log_of_writes_that_begins_again_before_pages_of_an_earlier_one_is_no_damage(
    tmp_path: Path,
) -> None:
    path = tmp_path / "open" / "entities.db"
    path.parent.mkdir()
    store = SqliteEntityStore(path)
    store.load()
    records: dict[str, str] = {}
    assert store._connection is not None
    for number in range(60):
        records[f"e{number % 7}"] = f"[null,{number}]"
        store.save({f"e{number % 7}": f"[null,{number}]"})
        if number % 13 == 7:
            store._connection.execute("PRAGMA wal_checkpoint(RESTART)")
        if number % 5 == 2:
            place = tmp_path / str(number)
            place.mkdir()
            assert loaded(Kept(path, records, {}).copied(place))[:2] == (records, [])
    store.close()


def test_r6_a_whole_copy_of_a_damaged_record_is_used(tmp_path: Path) -> None:
    path = tmp_path / "open" / "entities.db"
    path.parent.mkdir()
    store = SqliteEntityStore(path)
    store.load()
    records = {f"e{number}": f'[null,"text of {number}"]' for number in range(300)}
    store.save(records | {"e150": '[null,"outdated"]'})
    store.save({"e150": records["e150"]})
    assert store._connection is not None
    store._connection.execute("PRAGMA wal_checkpoint(RESTART)")
    store.save({"e299": "[null,1]"})  # the log begins again, and pages of the earlier one stay
    records["e299"] = "[null,1]"
    left = Kept(path, records, {}).copied(tmp_path)
    store.close()
    data = left.read_bytes()
    at = data.index(b"text of 150")
    assert b"text of 150" in log_of(left)
    for where in range(at - 15, at + 17, 3):
        left.write_bytes(data[:where] + bytes([data[where] ^ 2]) + data[where + 1 :])
        copy = Kept(left, records, {}).copied(tmp_path / "open")
        found = loaded(copy)
        assert found.known == records, where - at
        assert len(found.reports) == 1, where - at
        assert found.reports[0].registrations == 0
        for one in copy.parent.iterdir():
            one.unlink()
    # Where there is no such copy, an outdated one is not used.
    log = Path(f"{left}-wal")
    log.write_bytes(log.read_bytes().replace(b"text of 150", b"???? ?? ???"))
    copy = Kept(left, records, {}).copied(tmp_path / "open")
    found = loaded(copy)
    del records["e150"]
    assert found.known == records
    assert [one.entity for one in found.reports if one.registrations] == ["e150"]


def looks_like_a_row(entity: str, record: str) -> str:
    """A text that stands for a row of a file, with a right checksum."""
    for number in range(1 << 16):
        sequence = 0x7E7F7F7F7F7F0000 | number >> 7 << 8 | number & 0x7F
        checksum = zlib.crc32(f"{sequence} {entity}{record}".encode())
        tail = sequence.to_bytes(8) + f"{entity}{record}".encode() + checksum.to_bytes(4)
        if tail.isascii() and checksum >= 1 << 23:
            return (bytes([5, 6]) + size_of(entity) + size_of(record) + b"\4" + tail).decode()
    raise AssertionError("none is all text")


@pytest.mark.parametrize("size", [0, 6_000])
@pytest.mark.parametrize(
    ("entity", "record"),
    [("victim", '[null,"forged"]'), ("victim", ""), ("", "[3, 2000000, 3, 5]")],
)
def test_r6_a_name_that_looks_like_a_row_is_none(
    tmp_path: Path, size: int, entity: str, record: str
) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    name = "x" * size + looks_like_a_row(entity, record) + "y" * (size // 2)
    whole = {"victim": '[null,"mine"]', name: '[null,"its name"]', "e1": "[null,1]"}
    store.save(whole | {"e2": '[null,"text"]'})
    store.close()
    path.write_bytes(path.read_bytes().replace(b'[null,"text"]', b'[null,"tex?"]'))
    found = loaded(path)
    assert found.known == whole
    assert [(one.entity, one.registrations) for one in found.reports] == [("e2", 1)]


def test_any_name_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    names = [chr(number) + text for number in range(0x180) for text in ("", "7f", "0a\x7f", "\\n")]
    store = SqliteEntityStore(path)
    store.load()
    store.save(dict.fromkeys(names, "[null,1]"))
    store.save(dict.fromkeys(names, "[null,2]"), removed=names[1::2])
    assert {one.entity for one in store.emitted(0)} == set(names[::2])
    store.close()
    assert loaded(path)[:2] == (dict.fromkeys(names[::2], "[null,2]"), [])


@pytest.mark.parametrize("seed", range(3))
def test_r6_where_bytes_are_missing_in_a_file_all_that_lies_behind_is_found(
    of_closed: Kept, tmp_path: Path, seed: int
) -> None:
    path = of_closed.copied(tmp_path)
    data = path.read_bytes()
    at = random.Random(seed).randrange(files.PAGE, len(data) // 2)
    path.write_bytes(data[:at] + data[at + 77 :])
    judged(of_closed, path, loaded(path))
