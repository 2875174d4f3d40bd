"""A store whose system is short of something: that is no damage, and a gate says what it needs."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dispatcher.registration import EntityStoreError, SqliteEntityStore
from tests.samples import grid
from tests.unit.registration.test_hostile_files import Kept, left_by, loaded


@pytest.fixture(scope="module")
def of_killed(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return left_by(tmp_path_factory.mktemp("killed"), killed=True)


@contextmanager
def limited(kind: int, most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def left_open() -> int:
    """The lowest number that no file of this process has, and so no limit can be below it."""
    free = os.dup(0)
    os.close(free)
    return free


def names(place: Path) -> set[str]:
    return {one.name for one in place.iterdir()}


def links(place: Path) -> list[int]:
    return [one.stat().st_nlink for one in place.iterdir()]


def outcome(path: Path) -> object:
    """The content of a store, or why it cannot be loaded."""
    try:
        known, reports, _ = loaded(path)
    except EntityStoreError as error:
        return str(error)
    return reports or known


NEVER_MORE = {"entities.db", "entities.db-wal", "entities.db-shm", "entities.db.lock"}


def test_r6_a_start_that_has_no_room_for_the_shared_memory_is_no_damage(
    of_killed: Kept, tmp_path: Path
) -> None:
    path = of_killed.copied(tmp_path)
    before = path.read_bytes()
    with (
        limited(resource.RLIMIT_FSIZE, 20_000),
        pytest.raises(EntityStoreError, match=r"its disk is full or failing"),
    ):
        loaded(path)
    assert names(tmp_path) <= NEVER_MORE
    assert set(links(tmp_path)) == {1}
    assert path.read_bytes() == before
    assert loaded(path)[:2] == (of_killed.records, [])


def test_r6_nor_is_one_without_file_handles(of_killed: Kept, tmp_path: Path) -> None:
    path = of_killed.copied(tmp_path)
    loaded(of_killed.copied(tmp_path))  # what is imported is imported
    path = of_killed.copied(tmp_path)
    for more in range(6):
        with limited(resource.RLIMIT_NOFILE, left_open() + more):
            said = outcome(path)
        assert said == of_killed.records or "file handles" in str(said)
        assert names(tmp_path) <= NEVER_MORE, more
    assert outcome(path) == of_killed.records


def whole(_: Kept, __: Path) -> int:
    return 0


def hurt(kept: Kept, path: Path) -> int:
    kept.hurt(path)
    return 1


def linked(_: Kept, path: Path) -> int:
    os.link(path, path.with_name("backup"))
    os.link(f"{path}-wal", path.with_name("backup-wal"))
    return 0


def full_of_removed(kept: Kept, path: Path) -> int:
    """It is written again when it is loaded."""
    store = SqliteEntityStore(path)
    store.load()
    store.save({}, removed=sorted(kept.records)[3:])
    store.close()
    return len(kept.records) - 3


@pytest.mark.parametrize(
    ("prepare", "call"),
    grid(
        [whole, hurt, linked, full_of_removed],
        ["open", "stat", "listdir", "replace", "rename", "unlink", "fsync", "chmod"],
        every=3,
    ),
)
def test_r6_an_error_of_the_system_at_any_moment_loses_nothing(
    of_killed: Kept,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    prepare: Callable[[Kept, Path], int],
) -> None:
    monkeypatch.setattr("dispatcher.registration.stores.sqlite._MOST_REMOVED", 1)
    outdated = int(prepare is hurt)  # of a damaged record there may be an older one
    real = getattr(os, call)
    for fails_at in range(50):
        place = tmp_path / str(fails_at)
        place.mkdir()
        path = of_killed.copied(place)
        expected = len(of_killed.records) - prepare(of_killed, path)
        calls = iter(range(fails_at))
        failed: list[int] = []

        def failing(
            *arguments: Any, calls: Iterator[int] = calls, failed: list[int] = failed, **more: Any
        ) -> Any:
            if next(calls, None) is None and not failed:
                failed.append(1)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments, **more)

        store = SqliteEntityStore(path)
        with monkeypatch.context() as patched, suppress(EntityStoreError):
            patched.setattr(os, call, failing)
            assert expected <= len(store.load()[0]) <= expected + outdated
            store.save({"new": "[null,1]"})
            expected += 1
        store.close()
        assert expected <= len(loaded(path).known) <= expected + outdated
        kept = [one for one in place.iterdir() if one.name.endswith(".damaged-1")]
        assert len(kept) == (prepare is hurt)
        assert set(links(place)) == {1}
        if not failed:
            return
    raise AssertionError("it never came to its end")


def test_r6_what_could_not_be_written_is_not_there_and_the_rest_is(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    for number in range(3):
        store.save({f"before {number}": '[null,"text"]'})
        size = Path(f"{path}-wal").stat().st_size
        with limited(resource.RLIMIT_FSIZE, size + 5_000 * number):
            for _ in range(2):
                with pytest.raises(EntityStoreError, match="then try again"):
                    store.save({f"large {number}": f'[null,"{"x" * 20_000}"]'})
        store.save({f"after {number}": '[null,"text"]'})
    store.close()
    known, reports, _ = loaded(path)
    assert known.keys() == {
        f"{when} {number}" for when in ("before", "after") for number in range(3)
    }
    assert not reports


def test_a_block_that_cannot_be_read_is_no_damage(
    of_killed: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_killed.copied(tmp_path)
    of_killed.hurt(path)
    real = Path.read_bytes

    def failing(one: Path) -> bytes:
        if one == path:
            raise OSError(errno.EIO, "Input/output error")
        return real(one)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", failing)
        with pytest.raises(EntityStoreError, match="copy what can be read"):
            loaded(path)
    assert names(tmp_path) <= NEVER_MORE


def test_r6_a_file_with_another_name_gets_one_of_its_own(of_killed: Kept, tmp_path: Path) -> None:
    path = of_killed.copied(tmp_path)
    linked(of_killed, path)
    assert loaded(path)[:2] == (of_killed.records, [])
    store = SqliteEntityStore(path)
    store.load()
    store.save({f"new/{number}": "[null,1]" for number in range(60)})
    store.close()
    with sqlite3.connect(path.with_name("backup")) as looking:
        looking.execute("SELECT count(*) FROM entities").fetchone()
    looking.close()
    assert len(loaded(path).known) == len(of_killed.records) + 60
    assert set(links(tmp_path)) == {1}


def test_r6_a_store_behind_a_symbolic_link_is_one_store(of_killed: Kept, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = of_killed.copied(tmp_path / "real")
    path = tmp_path / "link.db"
    path.symlink_to(real)
    store = SqliteEntityStore(path)
    assert store.load() == (of_killed.records, [])
    with pytest.raises(EntityStoreError, match="in use by another gate"):
        loaded(real)
    store.close()
    of_killed.hurt(real)
    found = loaded(path)
    assert len(found.known) == len(of_killed.records) - 1
    assert path.is_symlink()
    assert loaded(real) == loaded(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [a_folder, a_pipe])
def test_what_is_no_regular_file_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "entities.db"
    make(path)
    mode = path.stat().st_mode
    with pytest.raises(EntityStoreError, match="is no regular file; give the path of a file"):
        loaded(path)
    assert names(tmp_path) == {"entities.db"}
    assert path.stat().st_mode == mode
    with pytest.raises(EntityStoreError, match="is no regular file"):
        loaded(Path("/dev/null"))


@pytest.mark.parametrize("path", [":memory:", "", "a\0b", b"bytes", 7, None])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ValueError, match="path must be the path of a file"):
        SqliteEntityStore(path)


def with_version(path: Path, number: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {number}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("is_hurt", [False, True])
@pytest.mark.parametrize("version", [4, 5, 99])
def test_a_file_of_a_later_format_is_refused_and_left_as_it_is(
    of_killed: Kept, tmp_path: Path, version: int, is_hurt: bool
) -> None:
    path = of_killed.copied(tmp_path)
    with_version(path, version)
    if is_hurt:
        of_killed.hurt(path)
    before = path.read_bytes()
    with pytest.raises(EntityStoreError, match=f"is of format {version}, and this version reads 3"):
        loaded(path)
    assert path.read_bytes() == before
    assert not any(".damaged" in one for one in names(tmp_path))


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_file_of_another_program_is_refused_and_left_as_it_is(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "entities.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE people (name)")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(EntityStoreError, match="is an SQLite file, but no store of entities"):
        loaded(path)
    assert path.read_bytes() == before


def test_the_log_says_that_it_is_not_known_how_many_are_lost_in_one_line(
    of_killed: Kept, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "entities.db"
    store = SqliteEntityStore(path)
    store.load()
    store.save(of_killed.records)
    store.close()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\0" * 4096 + data[8192:])
    found = loaded(path)
    (line,) = [one for one in caplog.records if "is damaged" in one.message]
    assert "\n" not in line.message
    told = sum(one.registrations for one in found.reports)
    unknown = any("how many" in one.reason for one in found.reports)
    assert (f"lost: at least {told}, how many is not known" in line.message) == unknown
    assert unknown or f"lost: {told};" in line.message
