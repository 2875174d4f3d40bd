"""Many registrations in one call: the same as one by one, in one write, and all of them or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatcher.registration import (
    AutoRegistrationConflictError,
    EntityStoreError,
    MemoryEntityStore,
    Registration,
    RegistrationCycleError,
    RegistrationGate,
    Release,
    SqliteEntityStore,
)
from tests.examples import examples

NAMES = st.sampled_from("abcde")
REGISTRATIONS = st.builds(Registration, NAMES, st.none() | NAMES, st.integers(0, 1))
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), NAMES),
        st.tuples(st.just("register"), st.lists(REGISTRATIONS, max_size=8)),
        st.tuples(st.just("deregister"), NAMES),
    ),
    max_size=12,
)


def one_by_one(gate: RegistrationGate, registrations: list[Registration]) -> list[Release]:
    return [
        release
        for entity, parent, data in registrations
        for release in gate.register(entity, parent=parent, data=data)
    ]


A, C, B = Registration("a", "b"), Registration("c", "b"), Registration("b")


@example([("register", [A, C, A, B])])
@example([("register", [A, C, A]), ("register", [B])])
@example([("register", [A, C]), ("register", [A, B])])
@example([("register", [A]), ("register", [C, A]), ("register", [B])])
@example([("register", [A, C, Registration("a", "d"), A, B])])
@example([("register", [A, C]), ("register", [Registration("a", "d"), A]), ("register", [B])])
@example(
    [
        ("register", [A, C, B]),
        ("deregister", "b"),
        ("register", [A, C]),
        ("register", [Registration("a"), Registration("c"), A, Registration("a"), A]),
        ("register", [B]),
    ]
)
@settings(max_examples=examples(500), deadline=None)
@given(MOVES)
def test_r3_r4_many_in_one_call_are_as_one_after_the_other(moves: list[Any]) -> None:
    bulk, single = (RegistrationGate(MemoryEntityStore()) for _ in range(2))
    for number, (kind, what) in enumerate(moves):
        if kind == "offer":
            assert bulk.offer(what, number) == single.offer(what, number)
        elif kind == "deregister":
            assert sorted(bulk.deregister(what)) == sorted(single.deregister(what))
        else:
            before = bulk.emissions_since(0), bulk.pending
            try:
                released = bulk.register_many(what)
            except RegistrationCycleError as error:
                assert (bulk.emissions_since(0), bulk.pending) == before, "nothing has changed"
                with pytest.raises(RegistrationCycleError, match=str(error)):
                    one_by_one(single, what)
                return
            assert released == one_by_one(single, what)
        assert bulk.pending == single.pending
        assert bulk.counts["registered"] == single.counts["registered"]
        assert bulk.counts["updated"] == single.counts["updated"]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_r6_one_that_waits_and_is_seen_again_keeps_its_place(store: str, tmp_path: Path) -> None:
    for number, calls in enumerate(
        ([[A, C, A, B]], [[A, C, A], [B]], [[A, C], [A, B]], [[A, C], [A], [B]])
    ):
        path = tmp_path / f"{number}.db"
        entities = SqliteEntityStore(path) if store == "sqlite" else MemoryEntityStore()
        with RegistrationGate(entities) as gate:
            released = [release for call in calls for release in gate.register_many(call)]
            assert [release.entity for release in released] == ["b", "a", "c"]
            assert gate.counts["displaced"] == (0, 0, 0)


def test_r6_one_that_waits_and_has_changed_comes_behind_the_others() -> None:
    for calls in ([[A, C, Registration("a", "b", 1), B]], [[A, C], [Registration("a", "d"), A, B]]):
        gate = RegistrationGate(MemoryEntityStore())
        released = [release for call in calls for release in gate.register_many(call)]
        assert [release.entity for release in released] == ["b", "c", "a"]


def test_r6_many_in_one_call_are_one_transaction(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    many = [Registration(f"e{number}", f"e{number // 2}") for number in range(1, 500)]
    store = SqliteEntityStore(path)
    with RegistrationGate(store) as gate:
        gate.offer("e7", 1)
        assert store._connection is not None
        statements: list[str] = []
        store._connection.set_trace_callback(statements.append)
        released = gate.register_many([*many, Registration("e0")])
    assert [text for text in statements if text in ("BEGIN IMMEDIATE", "COMMIT")] == [
        "BEGIN IMMEDIATE",
        "COMMIT",
    ]
    assert len(released) == 500
    with RegistrationGate(SqliteEntityStore(path)) as gate:
        assert gate.register_many(many) == []
        assert len(gate.offer_many((f"e{number}", 1) for number in range(500))) == 500


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        (Registration("a", "c"), RegistrationCycleError),
        (Registration("", None), ValueError),
        (Registration("d", ""), ValueError),
        (Registration("d", None, {1}), ValueError),
    ],
)
def test_if_one_is_refused_nothing_has_changed(
    last: Registration, problem: type[Exception]
) -> None:
    gate = RegistrationGate(MemoryEntityStore())
    gate.offer("b", 1)
    many = [Registration("a"), Registration("b", "a"), Registration("c", "b")]
    with pytest.raises(problem):
        gate.register_many([*many, last])
    assert gate.pending == 1
    assert gate.sequence == 0
    assert gate.counts["registered"] == (0, 0, 0)
    assert [release.messages for release in gate.register_many(many)] == [(), (1,), ()]


def test_what_is_no_registration_is_refused() -> None:
    many: Any = [Registration("a"), "ab"]
    gate = RegistrationGate(MemoryEntityStore())
    with pytest.raises(ValueError, match="must be of Registration objects, not 'ab'"):
        gate.register_many(many)
    assert gate.sequence == 0


def test_a_store_that_fails_changes_nothing() -> None:
    class FullStore(MemoryEntityStore):
        def save(self, records: Any, removed: Any = ()) -> None:
            raise EntityStoreError("the disk is full")

    gate = RegistrationGate(FullStore())
    gate.offer("a", 1)
    with pytest.raises(EntityStoreError):
        gate.register_many([Registration("x", "y"), Registration("a")])
    assert gate.pending == 1
    assert gate.offer("a", 2) == []


def test_explicit_registrations_are_refused_while_auto_registration_is_on() -> None:
    gate = RegistrationGate(MemoryEntityStore(), auto_register=True)
    with pytest.raises(AutoRegistrationConflictError):
        gate.register_many([Registration("a")])
    assert gate.register_many([]) == []


def test_those_that_wait_displace_none_that_go_on() -> None:
    gate = RegistrationGate(MemoryEntityStore(), pending_entities=1)
    gate.offer("a", 1)
    released = gate.register_many([Registration("x", "y"), Registration("a")])
    assert released == [Release("a", Registration("a"), (1,))]
    assert gate.pending == 1
