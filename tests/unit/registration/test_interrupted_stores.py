"""Law R6: the content of a store follows from what was stored, at whatever bytecode an exception
ends a call; so the next call and the next start find what was acknowledged, and no damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dispatcher.registration import MemoryEntityStore, SqliteEntityStore
from dispatcher.registration.stores.memory import LocalStore
from tests.interrupting import each_point


@contextmanager
def opened(path: Path) -> Iterator[SqliteEntityStore]:
    store = SqliteEntityStore(path)
    store.load()
    connection = store._connection
    assert connection is not None
    connection.execute("PRAGMA synchronous = OFF")  # no test cuts the power
    yield store
    store.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalStore]:
    if request.param == "memory":
        yield MemoryEntityStore()
    else:
        with opened(tmp_path / "entities.db") as made:
            yield made


def stored_in(store: LocalStore) -> dict[str, str]:
    return {one.entity: one.record for one in store.emitted(0)}


def test_r6_an_interrupted_save_stores_all_or_nothing_and_the_next_one_goes_on(
    store: LocalStore, tmp_path: Path
) -> None:
    expected: dict[str, str] = {}

    def prepare() -> Callable[[], object]:
        return lambda: store.save(new, gone)

    new: dict[str, str] = {"a": "[null,0]", "b": "[null,0]"}
    gone: list[str] = []
    for turn, where in enumerate(each_point(prepare, every_bytecode=True, step=3), 1):
        before, after = expected, {**expected, **new}
        for one in gone:
            after.pop(one, None)
        found = stored_in(store)
        assert found in (before, after), where
        number = store.sequence
        store.save({"next": f"[null,{turn}]"})
        expected = {**found, "next": f"[null,{turn}]"}
        assert stored_in(store) == expected, where
        assert store.sequence == number + 1 == max(one.sequence for one in store.emitted(0)), where
        new = {f"e{turn % 5}": f"[null,{turn}]", "b": f"[null,{turn}]"}
        gone = [f"e{(turn + 2) % 5}"]
    expected = stored_in(store)
    store.close()
    is_file = isinstance(store, SqliteEntityStore)
    again = SqliteEntityStore(tmp_path / "entities.db") if is_file else store
    assert again.load() == (expected, [])
    again.close()


def test_r6_an_interrupted_look_changes_nothing(store: LocalStore) -> None:
    store.save({"a": "[null,1]"})
    for where in each_point(lambda: lambda: (store.emitted(0), store.sequence)):
        assert stored_in(store) == {"a": "[null,1]"}, where
        store.save({"a": "[null,1]"})


@pytest.mark.parametrize("is_hurt", [False, True])
def test_r6_an_interrupted_load_leaves_the_file_to_the_next_one(
    tmp_path: Path, is_hurt: bool
) -> None:
    with opened(tmp_path / "entities.db") as made:
        made.save({"a": "[null,1]", "b": "[null,2]"})
    data = (tmp_path / "entities.db").read_bytes()
    whole = {"a": "[null,1]"} if is_hurt else {"a": "[null,1]", "b": "[null,2]"}
    path = tmp_path / "copy" / "entities.db"
    stores: list[SqliteEntityStore] = []

    def prepare() -> Callable[[], object]:
        for one in stores:
            one.close()
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        path.write_bytes(data.replace(b"[null,2]", b"[null,3]") if is_hurt else data)
        stores.append(SqliteEntityStore(path))
        return stores[-1].load

    for where in each_point(prepare, step=13 if is_hurt else 5):
        assert stores[-1].load()[0] == whole, where
        names = {one.name for one in path.parent.iterdir()}
        assert ("entities.db.damaged-1" in names) == is_hurt, where
        assert "entities.db.damaged-2" not in names, where
    for one in stores:
        one.close()
