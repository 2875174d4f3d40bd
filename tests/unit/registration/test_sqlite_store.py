"""The file of entities, and what can be wrong with it: what is whole is used."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dispatcher.registration import (
    EntityStoreError,
    RegistrationGate,
    SqliteEntityStore,
)
from dispatcher.registration._model.reports import Report

COUNT = 2_000


def filled(path: Path, count: int = COUNT) -> dict[str, str]:
    store = SqliteEntityStore(path)
    store.load()
    records = {
        f"device/{number}": f'["top",{{"dict":[["n",{number}]]}}]' for number in range(count)
    }
    store.save(records)
    store.close()
    return records


def test_r6_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    records = filled(path)
    store = SqliteEntityStore(path)
    assert store.load() == (records, [])
    store.save({"device/1": "[null,1]"}, removed=["device/2", "nobody"])
    store.close()
    records["device/1"] = "[null,1]"
    del records["device/2"]
    assert loaded(path) == (records, [])


def test_r6_a_log_of_writes_cut_at_any_byte_gives_what_was_written_before(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    store.save({"e0": "[null,0]"})
    log = Path(f"{path}-wal")
    acknowledged = [(log.stat().st_size, 1)]
    for number in range(1, 6):
        store.save({f"e{number}": f'[null,"{"x" * 500 * number}"]'})
        acknowledged.append((log.stat().st_size, number + 1))
    data, whole = path.read_bytes(), log.read_bytes()
    store.close()
    edges = {size + step for size, _ in acknowledged[1:-1] for step in (-1, 0, 1)}
    for cut in sorted({*range(acknowledged[0][0], len(whole), 1_499), len(whole)} | edges):
        copy = tmp_path / "copy.db"
        copy.write_bytes(data)
        Path(f"{copy}-wal").write_bytes(whole[:cut])
        known, damage = loaded(copy)
        assert not damage
        assert len(known) == max(count for size, count in acknowledged if size <= cut)


def loaded(path: Path) -> tuple[dict[str, str], list[Report]]:
    store = SqliteEntityStore(path)
    try:
        return store.load()
    finally:
        store.close()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_short_gives_what_is_left(tmp_path: Path, share: float) -> None:
    path = tmp_path / "entities.db"
    records = filled(path)
    os.truncate(path, int(path.stat().st_size * share))
    known, damage = loaded(path)
    assert known.items() <= records.items()
    assert damage
    if share >= 0.3:
        assert len(known) >= COUNT * share / 4
    assert (tmp_path / "entities.db.damaged-1").exists()
    assert loaded(path) == (known, [])


@pytest.mark.parametrize("seed", range(8))
def test_a_file_with_pages_overwritten_gives_what_is_whole(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "entities.db"
    records = filled(path)
    with path.open("r+b") as file:
        pages = path.stat().st_size // 4096
        file.seek(4096 * (3 + seed * 7 % (pages - 3)))
        file.write(b"\xa5" * 4096)
    known, damage = loaded(path)
    assert known.items() <= records.items()
    assert len(known) >= COUNT * 0.7
    assert damage or known == records  # some pages are of the index, which is not asked
    store = SqliteEntityStore(path)
    store.load()
    store.save({"new": "[null,1]"})
    store.close()
    assert loaded(path)[0] == known | {"new": "[null,1]"}


def test_a_record_with_a_flipped_bit_is_left_out_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    records = filled(path, 50)
    data = path.read_bytes()
    at = data.index(b'["n",17]')
    path.write_bytes(data[: at + 5] + b"9" + data[at + 6 :])
    heard: list[Any] = []
    gate = RegistrationGate(SqliteEntityStore(path))
    assert gate.counts["corrupt"].registrations == 1
    assert gate.offer("device/17", 1) == []
    assert all(gate.offer(entity, 1) for entity in records if entity != "device/17")
    gate.add_listener(heard.append)
    gate.close()
    assert [event.name for event in heard] == ["corrupt"]
    assert "the record of 'device/17' is damaged" in heard[0].message
    assert loaded(path)[1] == []


def test_what_is_no_store_at_all_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    for number in (1, 2):
        path.write_text(f"something else entirely {number}" * 1_000)
        known, damage = loaded(path)
        assert known == {}
        assert "file is not a database" in damage[0].reason
        assert (tmp_path / f"entities.db.damaged-{number}").exists()
        path.unlink()


def test_two_gates_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    with (
        RegistrationGate(SqliteEntityStore(path)),
        pytest.raises(EntityStoreError, match="in use by another gate"),
    ):
        RegistrationGate(SqliteEntityStore(path))
    RegistrationGate(SqliteEntityStore(path)).close()


def test_a_later_format_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(EntityStoreError, match="is of format 7, and this version reads 3"):
        loaded(path)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5, 7, 99])
def test_the_file_of_another_program_is_not_touched(tmp_path: Path, version: int) -> None:
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE users (name)")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    data = path.read_bytes()
    with pytest.raises(EntityStoreError, match="is an SQLite file, but no store of entities"):
        loaded(path)
    assert path.read_bytes() == data


def test_a_damaged_number_of_the_format_is_damage_if_the_totals_say_so(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    records = filled(path, 20)
    data = path.read_bytes()
    path.write_bytes(data[:60] + b"noise"[:4] + data[64:])
    known, reports = loaded(path)
    assert known == records
    assert [one.registrations for one in reports] == [0]


def test_a_place_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(EntityStoreError, match="cannot be opened; does its directory exist"):
        loaded(tmp_path / "nowhere" / "entities.db")
    for path in ("", 7, None):
        with pytest.raises(ValueError, match="path must be the path of a file"):
            SqliteEntityStore(path)  # type: ignore[arg-type]


def test_a_full_disk_refuses_the_registration_and_keeps_what_is_held(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    gate = RegistrationGate(store)
    gate.register("a")
    gate.offer("b", "early")
    assert store._connection is not None
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(EntityStoreError, match="its disk is full"):
        gate.register("b", data="x" * 100_000)
    assert gate.pending == 1
    assert gate.offer("a", 1)
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert gate.register("b", data="x" * 100_000)[0].messages == ("early",)
    gate.close()


def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    store = SqliteEntityStore(tmp_path / "entities.db")
    gate = RegistrationGate(store)
    gate.close()
    with pytest.raises(EntityStoreError, match="is not open in this process"):
        gate.register("a")
    shutil.rmtree(tmp_path)
