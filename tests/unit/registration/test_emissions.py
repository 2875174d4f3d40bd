"""Emissions, asked for again: nothing that a consumer has not handled is left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.registration import (
    Emission,
    MemoryEntityStore,
    Registration,
    RegistrationCycleError,
    RegistrationGate,
    SqliteEntityStore,
)
from tests.examples import examples
from tests.unit.registration.test_sqlite_store import loaded

NAMES = st.sampled_from("abcde")
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("register"), NAMES, st.none() | NAMES, st.integers(0, 2)),
        st.tuples(st.just("deregister"), NAMES),
    ),
    max_size=30,
)


def test_all_registrations_come_out_again_with_numbers_and_parents_before_children() -> None:
    one = RegistrationGate(MemoryEntityStore())
    assert one.sequence == 0
    assert one.emissions_since(0) == []
    one.register("meter", parent="house", data={"id": 7})
    assert one.sequence == 0, "it waits"
    one.register("house")
    one.offer("house", 1)
    assert one.sequence == 2
    assert one.emissions_since(0) == [
        Emission(1, Registration("house")),
        Emission(2, Registration("meter", "house", {"id": 7})),
    ]
    assert one.emissions_since(1) == [Emission(2, Registration("meter", "house", {"id": 7}))]
    assert one.emissions_since(2) == []


def test_a_parent_that_was_updated_still_comes_before_its_children() -> None:
    one = RegistrationGate(MemoryEntityStore())
    one.register("house")
    one.register("meter", parent="house")
    one.register("shed")
    one.register("house", data="new")
    emissions = one.emissions_since(0)
    assert [emission.registration.entity for emission in emissions] == ["house", "meter", "shed"]
    assert emissions[0].registration.data == "new"
    # The mark of the first covers neither of the others.
    assert [emission.sequence for emission in emissions] == [0, 2, 4]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_numbers_outlive_a_restart_and_are_not_given_twice(kind: str, tmp_path: Path) -> None:
    memory = MemoryEntityStore()

    def restarted() -> RegistrationGate:
        store = memory if kind == "memory" else SqliteEntityStore(tmp_path / "entities.db")
        return RegistrationGate(store)

    with restarted() as one:
        one.register("a")
        one.register("b")
        assert one.emissions_since(1) == [Emission(2, Registration("b"))]
        one.deregister("b")
    with restarted() as one:
        assert one.sequence == 0
        assert one.emissions_since(1) == [], "it is not registered any more"
        one.register("b", data=1)
        assert one.sequence == 3
    with restarted() as one:
        assert one.emissions_since(2) == [Emission(3, Registration("b", None, 1))]
        assert one.sequence == 3
        assert one.register("b", data=1) == []
        assert one.emissions_since(3) == []


def test_a_damaged_file_gives_no_number_twice(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    with RegistrationGate(SqliteEntityStore(path)) as one:
        for number in range(50):
            one.register(f"e{number}", data="x" * 500)
    known, _ = loaded(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with RegistrationGate(SqliteEntityStore(path)) as one:
        assert one.counts["corrupt"].registrations
        left = one.emissions_since(0)
        assert {emission.registration.entity for emission in left} < known.keys()
        one.register("new")
        assert one.emissions_since(50) == [Emission(one.sequence, Registration("new"))]
    with path.open("wb") as file:
        file.write(b"nothing that can be read")
    last = one.sequence
    with RegistrationGate(SqliteEntityStore(path)) as one:
        one.register("new")
        assert one.sequence > last
    shutil.rmtree(tmp_path)


@settings(max_examples=examples(300), deadline=None)
@given(MOVES, st.data())
def test_a_consumer_that_is_killed_anywhere_has_all_in_the_end(moves: Any, data: Any) -> None:
    store = MemoryEntityStore()
    one = RegistrationGate(store)
    handled: dict[str, Registration] = {}
    saved = 0

    def handle(registration: Registration) -> None:
        # No child comes before its parent's registration, nor below one it is not registered with.
        assert registration.parent is None or registration.parent in handled
        handled[registration.entity] = registration

    for move in moves:
        if move[0] == "deregister":
            for entity in one.deregister(move[1]):
                handled.pop(entity, None)
            continue
        _, entity, parent, value = move
        try:
            releases = one.register(entity, parent=parent, data=value)
        except RegistrationCycleError:
            continue
        if data.draw(st.integers(0, 3)):
            for release in releases:
                assert release.registration is not None
                handle(release.registration)
            saved = one.sequence or saved
            continue
        # Killed before it could handle all of it; and again, while it catches up.
        for release in releases[: data.draw(st.integers(0, len(releases)))]:
            assert release.registration is not None
            handle(release.registration)
        one = RegistrationGate(store)
        for _ in range(2):
            emissions = one.emissions_since(saved)
            for emission in emissions[: data.draw(st.integers(0, len(emissions)))]:
                handle(emission.registration)
                saved = emission.sequence
        for emission in one.emissions_since(saved):
            handle(emission.registration)
            saved = emission.sequence
    registered = {
        emission.registration.entity: emission.registration for emission in one.emissions_since(0)
    }
    assert handled == registered


@pytest.mark.parametrize("mark", [-1, True, 1.0, "1", None])
def test_a_mark_is_a_whole_number(mark: Any) -> None:
    with pytest.raises(ValueError, match="sequence must be a whole number from 0 on"):
        RegistrationGate(MemoryEntityStore()).emissions_since(mark)


@pytest.mark.parametrize("mark", [2, 10**6, 10**30])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_mark_of_a_store_that_is_gone_hides_nothing(
    kind: str, mark: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It is above all numbers of this one: what came out of this one is not handled."""
    store = (
        MemoryEntityStore()
        if kind == "memory"
        else SqliteEntityStore(tmp_path_factory.mktemp("gate") / "entities.db")
    )
    with RegistrationGate(store) as one:
        one.register("house")
        assert one.emissions_since(mark) == [Emission(1, Registration("house"))]
        assert one.sequence == 1
        one.register("meter")
        assert one.emissions_since(1) == [Emission(2, Registration("meter"))]
