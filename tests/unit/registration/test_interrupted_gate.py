"""A gate whose calls are ended by exceptions of signal handlers, at any moment: it goes on, its
counts say what became of each message, and a registration that is sent again comes out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatcher.registration import (
    EarlyMessageLog,
    MemoryEntityStore,
    Registration,
    RegistrationGate,
    SqliteEntityStore,
)
from tests.interrupting import ERRORS, each_point


def memory(directory: Path) -> RegistrationGate:
    return RegistrationGate(MemoryEntityStore())


def small(directory: Path) -> RegistrationGate:
    return RegistrationGate(
        MemoryEntityStore(),
        telemetry_limit=6,
        telemetry_per_entity=3,
        metadata_limit=4,
        pending_entities=4,
    )


def on_disk(directory: Path) -> RegistrationGate:
    store = SqliteEntityStore(directory / "entities.db")
    log = EarlyMessageLog(
        directory / "early", max_bytes=300, max_age=1_000, max_bytes_per_entity=60
    )
    gate = RegistrationGate(store, early_log=log)
    assert store._connection is not None
    store._connection.execute("PRAGMA synchronous = OFF")  # no test cuts the power
    return gate


@pytest.fixture(params=[memory, small, on_disk])
def gate(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistrationGate]:
    with request.param(tmp_path) as made:
        yield made


def waiting(gate: RegistrationGate) -> list[int]:
    counts = gate.counts
    ends = ("released", "displaced", "dropped", "corrupt")
    return [
        held - sum(counts[name][kind] for name in ends) for kind, held in enumerate(counts["held"])
    ]


def emptied(gate: RegistrationGate, where: str) -> None:
    """Each message that is counted as waiting comes out."""
    left = waiting(gate)
    names = [f"{name}{number}" for name in ("a", "b", "c") for number in range(3)]
    releases = [one for name in names for one in gate.register(name)]
    messages = [message for one in releases for message in one.messages]
    assert len(set(messages)) == len(messages), where
    assert len(messages) == left[1] + left[2], where
    assert waiting(gate) == [0, 0, 0], where
    assert gate.pending == 0, where
    for name in names:
        gate.deregister(name)


@pytest.mark.parametrize("error", ERRORS)
def test_an_interrupted_offer_holds_its_message_or_not_and_says_which(
    gate: RegistrationGate, error: type[BaseException]
) -> None:
    numbers = itertools.count()

    def prepare() -> Callable[[], object]:
        number = next(numbers)
        if number % 9 == 0:
            gate.register("b1", parent="b0")
        name = f"{'abc'[number // 2 % 3]}{number % 3}"
        return lambda: gate.offer(name, number, metadata=number % 5 == 4)

    for turn, where in enumerate(each_point(prepare, error=error, step=3)):
        if turn % 10 == 9:
            emptied(gate, where)
    emptied(gate, "the end")
    assert gate.counts["corrupt"] == (0, 0, 0)


@pytest.mark.parametrize("error", ERRORS)
def test_r6_an_interrupted_registration_comes_out_when_it_is_sent_again(
    gate: RegistrationGate, error: type[BaseException]
) -> None:
    family = [Registration("a0", None, 7), Registration("a1", "a0"), Registration("a2", "a1")]
    numbers = itertools.count()

    def prepare() -> Callable[[], object]:
        for name in ("a0", "a1", "b0"):
            gate.offer(name, next(numbers))
        gate.register("a2", parent="a1")
        return lambda: gate.register_many(family)

    for where in each_point(prepare, error=error, step=5):
        again = gate.register_many(family)
        came = [one.registration for one in again]
        # It had come to its end, but for the way back to the caller.
        assert came == family or (not again and where.startswith(("_Telling", "RegistrationGate")))
        assert gate.register_many(family) == []
        assert [gate.offer(name, "x")[0].messages for name in ("a0", "a1", "a2")] == [("x",)] * 3
        assert gate.topmost("a2") == "a0", where
        assert gate.deregister("a0") == ["a0", "a1", "a2"], where
        emptied(gate, where)


def test_an_interrupted_deregistration_is_carried_out_or_not(gate: RegistrationGate) -> None:
    def prepare() -> Callable[[], object]:
        gate.register_many([Registration("a0"), Registration("a1", "a0"), Registration("a2", "a1")])
        return lambda: gate.deregister("a0")

    for where in each_point(prepare, step=2):
        assert len(gate.emissions_since(0)) in (0, 3), where
        gate.offer("a0", "x")
        stored = {one.registration.entity for one in gate.emissions_since(0)}
        held = gate.pending
        assert held == (0 if stored else 1), where
        assert gate.deregister("a0") == (["a0", "a1", "a2"] if stored else []), where
        emptied(gate, where)


def test_r6_an_interrupted_registration_that_waits_is_held_or_not() -> None:
    gate = RegistrationGate(MemoryEntityStore())

    def prepare() -> Callable[[], object]:
        gate.deregister("a0")
        return lambda: gate.register("a1", parent="a0")

    for where in each_point(prepare, every_bytecode=True):
        came = [one.entity for one in gate.register("a0")]
        assert came in (["a0"], ["a0", "a1"]), where
        assert waiting(gate) == [0, 0, 0], where
        gate.register("a1", parent="a0")
        assert gate.topmost("a1") == "a0", where
