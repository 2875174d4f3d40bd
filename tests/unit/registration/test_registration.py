"""The gate's laws, one at a time; those of the seed's diagrams first."""

from __future__ import annotations

import functools
import itertools
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatcher.registration import (
    AutoRegistrationConflictError,
    EarlyMessageLog,
    EntityStoreError,
    MemoryEntityStore,
    Registration,
    RegistrationCycleError,
    RegistrationGate,
    Release,
    Report,
    SqliteEntityStore,
)
from dispatcher.registration._model.written import DEEPEST
from limiters.testing import ManualClock
from tests.waiting import until


def gate(**options: Any) -> RegistrationGate:
    return RegistrationGate(MemoryEntityStore(), **options)


def lines(releases: list[Release]) -> list[Any]:
    """Everything in the order in which it goes on."""
    out: list[Any] = []
    for release in releases:
        if release.registration is not None:
            out.append(release.registration)
        out += release.messages
    return out


# The seed's diagrams.


def test_r2_the_twins_that_come_before_the_registration_are_kept() -> None:
    mapper = gate()
    assert mapper.offer("te/floor1/plc1", "location", metadata=True) == []
    assert mapper.offer("te/floor1/plc1", "hardware_info", metadata=True) == []
    registration = Registration("te/floor1/plc1", None, {"@type": "device"})
    assert lines(mapper.register("te/floor1/plc1", data={"@type": "device"})) == [
        registration,
        "location",
        "hardware_info",
    ]


def test_r8_telemetry_that_comes_first_registers_nothing_with_an_invented_id() -> None:
    mapper = gate()
    assert mapper.offer("device/plc1", "temperature") == []
    (release,) = mapper.register("device/plc1", data={"id": "desired-xid"})
    assert release == Release(
        "device/plc1",
        Registration("device/plc1", None, {"id": "desired-xid"}),
        ("temperature",),
    )


def test_r3_a_nested_child_whose_telemetry_comes_first_keeps_its_parent() -> None:
    mapper = gate()
    mapper.offer("device/nested1", "temperature")
    assert mapper.register("device/nested1", parent="device/child1") == []
    assert lines(mapper.register("device/child1")) == [
        Registration("device/child1"),
        Registration("device/nested1", "device/child1"),
        "temperature",
    ]


# R1.


def test_r1_a_registered_entity_passes_immediately() -> None:
    one = gate()
    one.register("a")
    for metadata in (True, False):
        assert one.offer("a", "m", metadata=metadata) == [Release("a", None, ("m",))]
    assert one.offer_many([("a", 1), ("a", 2)]) == [
        Release("a", None, (1,)),
        Release("a", None, (2,)),
    ]
    assert one.pending == 0


def test_r1_many_in_one_call_hold_those_that_are_early() -> None:
    one = gate()
    one.register("a")
    assert one.offer_many([("a", 1), ("b", 2), ("a", 3)]) == [
        Release("a", None, (1,)),
        Release("a", None, (3,)),
    ]
    assert one.register("b")[0].messages == (2,)


# R2.


def test_r2_newer_telemetry_displaces_older_of_its_entity() -> None:
    one = gate(telemetry_per_entity=3)
    for number in range(5):
        one.offer("a", number)
    assert one.counts["displaced"].telemetry == 2
    assert one.register("a")[0].messages == (2, 3, 4)


def test_r2_telemetry_never_displaces_metadata() -> None:
    one = gate(telemetry_per_entity=2, telemetry_limit=2)
    one.offer("a", "twin", metadata=True)
    for number in range(100):
        one.offer("ab"[number % 2], number)
    assert one.register("a")[0].messages[0] == "twin"


def test_r2_when_there_is_too_much_metadata_the_oldest_of_equal_entities_goes() -> None:
    one = gate(metadata_limit=2)
    for entity in "abc":
        one.offer(entity, entity, metadata=True)
    assert one.counts["dropped"].metadata == 1
    assert [one.register(entity)[0].messages for entity in "abc"] == [(), ("b",), ("c",)]


def test_r2_the_oldest_pending_entity_goes_and_is_reported() -> None:
    one = gate(pending_entities=2)
    heard: list[Any] = []
    with one.add_listener(heard.append, "dropped"):
        one.offer("a", 1)
        one.offer("a", 2, metadata=True)
        one.register("b", parent="x")
        one.offer("c", 3)
        until(lambda: heard)
    (event,) = heard
    assert (event.value, event.message) == (2, "there are too many pending entities")
    assert event.metadata == Report("dropped", "a", 0, 1, 1, event.message)
    assert one.register("a")[0].messages == ()


# R3 and R4.


def test_r4_registration_then_metadata_then_telemetry_then_descendants() -> None:
    one = gate()
    one.offer("child", "child t")
    one.register("child", parent="top")
    one.offer("top", "t1")
    one.offer("top", "m1", metadata=True)
    one.register("grandchild", parent="child")
    one.offer("top", "t2")
    one.offer("grandchild", "gt")
    one.offer("grandchild", "gm", metadata=True)
    one.offer("top", "m2", metadata=True)
    one.register("second", parent="top")
    assert lines(one.register("top")) == [
        *(Registration("top"), "m1", "m2", "t1", "t2"),
        *(Registration("child", "top"), "child t"),
        Registration("second", "top"),
        *(Registration("grandchild", "child"), "gm", "gt"),
    ]
    assert {one.topmost(name) for name in ("top", "child", "second", "grandchild")} == {"top"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_r3_every_order_of_a_nest_of_five(order: tuple[int, ...]) -> None:
    one, out = gate(), []
    for level in order:
        one.offer(f"e{level}", level)
        out += lines(one.register(f"e{level}", parent=f"e{level - 1}" if level else None))
    assert [x for x in out if isinstance(x, int)] == list(range(5))
    assert one.pending == 0


def test_r3_a_held_registration_is_replaced_by_a_newer_one() -> None:
    one = gate()
    one.register("a", parent="x")
    one.register("a", parent="y", data=1)
    assert one.register("x") == [Release("x", Registration("x"), ())]
    assert lines(one.register("y")) == [Registration("y"), Registration("a", "y", 1)]
    assert one.counts["displaced"].registrations == 1


# R5.


def test_r5_what_is_held_too_long_is_dropped_and_counted() -> None:
    clock = ManualClock()
    one = gate(clock=clock, max_age=10)
    one.offer("a", 1)
    one.offer("a", 2, metadata=True)
    one.register("a", parent="x")
    clock.advance(9.9)
    assert one.evict() == 0
    clock.advance(0.1)
    assert one.evict() == 1
    assert one.counts["dropped"] == (1, 1, 1)
    assert one.pending == 0


def test_r5_it_is_dropped_also_without_evict() -> None:
    clock = ManualClock()
    one = gate(clock=clock, max_age=10)
    one.offer("a", 1)
    clock.advance(10)
    assert one.register("a")[0].messages == ()
    assert one.counts["dropped"].telemetry == 1


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("kind", ["telemetry", "registration"])
def test_r5_who_keeps_on_sending_does_not_stay_without_end(each: int, kind: str) -> None:
    clock = ManualClock()
    one = gate(clock=clock, max_age=10, telemetry_per_entity=each, telemetry_limit=1)
    for number in range(10):
        if kind == "telemetry":
            one.offer("rogue", number)
        else:
            one.register("rogue", parent=f"x{number}")
        clock.advance(1)
    assert one.evict() == 1


def test_r2_who_holds_the_most_is_found_however_often_that_has_changed() -> None:
    one = gate(telemetry_limit=60, telemetry_per_entity=40)
    for number in range(5_000):
        for entity in ("a", "b", "c"):
            one.offer(entity, number)
        if number % 50 == 0:
            one.register("c")
            one.deregister("c")
    messages = [one.register(entity)[0].messages for entity in ("a", "b", "c")]
    assert [len(mine) for mine in messages] == [20, 20, 20]
    assert all(mine == tuple(range(4_980, 5_000)) for mine in messages)


def test_r5_a_rogue_sender_harms_only_itself() -> None:
    one = gate(telemetry_limit=10, telemetry_per_entity=8, metadata_limit=10)
    for number in range(2):
        one.offer("good", number)
        one.offer("good", number, metadata=True)
    for number in range(1_000):
        one.offer("rogue", number)
        one.offer("rogue", number, metadata=True)
    assert one.register("good")[0].messages == (0, 1, 0, 1)


def test_r5_now_can_be_given() -> None:
    one = gate(clock=ManualClock(), max_age=10)
    one.offer("a", 1)
    assert one.evict(now=10.0) == 1


# R6.


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_r6_a_registration_seen_again_is_not_emitted_again(kind: str, tmp_path: Path) -> None:
    memory = MemoryEntityStore()

    def restarted() -> RegistrationGate:
        store = memory if kind == "memory" else SqliteEntityStore(tmp_path / "entities.db")
        return RegistrationGate(store)

    data = {"b": [1, 2.5, None, b"x"], "a": ("t", {1: 2})}
    with restarted() as one:
        assert len(one.register("top", data=data)) == 1
        assert len(one.register("child", parent="top")) == 1
        assert one.register("top", data=dict(reversed(data.items()))) == []
    with restarted() as one:
        assert one.offer("child", "at once") == [Release("child", None, ("at once",))]
        assert one.register("top", data=data) == []
        assert one.register("child", parent="top") == []
        changed = one.register("child", parent="top", data="new")
        assert changed == [Release("child", Registration("child", "top", "new"), ())]
        assert one.counts["updated"].registrations == 1
        assert one.topmost("child") == "top"


def test_r6_an_update_below_a_parent_that_is_missing_waits_for_it() -> None:
    one = gate()
    one.register("a")
    assert one.register("a", parent="x") == []
    assert one.offer("a", 1) == [Release("a", None, (1,))]
    assert lines(one.register("x")) == [Registration("x"), Registration("a", "x")]
    assert one.topmost("a") == "x"


def test_r6_a_store_that_fails_acknowledges_nothing_and_loses_nothing_held() -> None:
    class FullStore(MemoryEntityStore):
        full = True

        def save(self, records: Any, removed: Any = ()) -> None:
            if self.full:
                raise EntityStoreError("the disk is full")
            super().save(records, removed)

    store = FullStore()
    one = RegistrationGate(store)
    one.offer("a", 1)
    one.register("b", parent="a")
    with pytest.raises(EntityStoreError):
        one.register("a")
    assert one.offer("a", 2) == []
    assert one.pending == 2
    store.full = False
    assert lines(one.register("a")) == [Registration("a"), 1, 2, Registration("b", "a")]
    store.full = True
    with pytest.raises(EntityStoreError):
        one.deregister("a")
    assert one.offer("b", 3) == [Release("b", None, (3,))]


# R8.


def test_r8_auto_registration_registers_at_the_first_message() -> None:
    one = gate(auto_register=True)
    assert one.offer("a", 1) == [Release("a", Registration("a"), (1,))]
    assert one.offer("a", 2) == [Release("a", None, (2,))]
    assert one.offer("b", 1, metadata=True) == [Release("b", Registration("b"), (1,))]


def test_r8_explicit_registration_is_refused_while_it_is_on_and_says_why() -> None:
    one = gate(auto_register=True)
    one.offer("a", 1)
    for entity in "ab":
        with pytest.raises(AutoRegistrationConflictError, match="overtakes a registration") as it:
            one.register(entity, parent="x")
        assert it.value.entity == entity
    assert one.offer("b", 1)[0].registration == Registration("b")


# Bad input.


def test_an_entity_cannot_be_its_own_ancestor() -> None:
    one = gate()
    with pytest.raises(RegistrationCycleError):
        one.register("a", parent="a")
    one.register("a", parent="b")
    one.register("b", parent="c")
    with pytest.raises(RegistrationCycleError, match="'c' cannot be registered below 'a'"):
        one.register("c", parent="a")
    assert [release.entity for release in one.register("c")] == ["c", "b", "a"]
    with pytest.raises(RegistrationCycleError):
        one.register("c", parent="a")
    assert one.pending == 0


def test_an_update_that_waits_closes_no_cycle() -> None:
    one = gate()
    one.register("a")
    one.register("a", parent="x")
    with pytest.raises(RegistrationCycleError):
        one.register("x", parent="a")
    one.register("b", parent="a")
    with pytest.raises(RegistrationCycleError):
        one.register("a", parent="b")


def test_a_parent_that_is_removed_takes_its_descendants_along() -> None:
    one = gate()
    for entity, parent in [("a", None), ("b", "a"), ("c", "b"), ("d", None)]:
        one.register(entity, parent=parent)
    assert one.deregister("a") == ["a", "b", "c"]
    assert one.counts["deregistered"].registrations == 3
    assert one.offer("d", 1)
    assert one.offer("c", 1) == []
    assert one.register("c", parent="b") == []
    assert one.register("b", parent="a") == []
    assert lines(one.register("a"))[-1] == 1
    assert one.deregister("nobody") == []


def test_deregistering_a_pending_entity_drops_and_counts_what_is_held() -> None:
    one = gate()
    one.offer("a", 1)
    assert one.deregister("a") == []
    assert one.counts["dropped"].telemetry == 1
    assert one.pending == 0


@pytest.mark.parametrize("name", ["", 7, None, [], "\ud800"])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    one = gate()
    for call in (
        lambda: one.offer(name, 1),
        lambda: one.register(name),
        lambda: one.deregister(name),
    ):
        with pytest.raises(ValueError, match="entity must be a text"):
            call()
    if name is not None:
        with pytest.raises(ValueError, match="parent must be a text"):
            one.register("a", parent=name)


def test_data_that_cannot_be_kept_is_refused() -> None:
    one = gate()
    with pytest.raises(ValueError, match=r"data must be made of .* not \{1\}; that is a set"):
        one.register("a", data={1})
    assert one.offer("a", 1) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("telemetry_limit", 0),
        ("telemetry_per_entity", -1),
        ("metadata_limit", 1.5),
        ("pending_entities", True),
        ("max_age", 0),
        ("auto_register", "yes"),
        ("early_log", "directory"),
    ],
)
def test_options_are_checked(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{option} must"):
        gate(**{option: value})


def test_a_store_that_is_none_is_refused() -> None:
    store: Any
    for store in ("entities.db", None, sqlite3):
        with pytest.raises(ValueError, match="store must be an entity store"):
            RegistrationGate(store)


def test_events_report_everything() -> None:
    one = gate(telemetry_per_entity=1)
    heard: list[Any] = []
    with one.add_listener(heard.append):
        one.offer("a", 1)
        one.offer("a", 2)
        one.register("a")
        one.register("a", data=1)
        one.deregister("a")
        until(lambda: len(heard) >= 7)
    assert [(event.name, event.value) for event in heard] == [
        *(("held", 1), ("displaced", 1), ("held", 1)),
        *(("registered", 1), ("released", 1), ("updated", 1), ("deregistered", 1)),
    ]


def test_threads_that_offer_and_register_concurrently_lose_nothing() -> None:
    one = gate(telemetry_per_entity=1_000)
    out: list[Release] = []
    entities = [f"e{number}" for number in range(50)]
    meet = threading.Barrier(4)

    def run(part: int) -> None:
        meet.wait()
        for number, entity in enumerate(entities * 4):
            if number % 4 == part and number >= 100:
                out.extend(one.register(entity, parent="e49" if entity != "e49" else None))
            out.extend(one.offer(entity, (part, number)))

    threads = [threading.Thread(target=run, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.pending == 0
    assert sorted(message for release in out for message in release.messages) == [
        (part, number) for part in range(4) for number in range(200)
    ]
    assert sum(release.registration is not None for release in out) == 50


@pytest.mark.parametrize("nest", [lambda it: [it], lambda it: {"a": it}, lambda it: (it,)])
def test_what_is_kept_elsewhere_is_not_so_deep_that_it_cannot_be_read(
    nest: Callable[[Any], Any], tmp_path: Path
) -> None:
    """How deep Python can read depends on who reads: it may be deeper in its calls than the
    writer was, and what it cannot read would be lost with all that comes with it."""
    log = EarlyMessageLog(tmp_path, max_bytes=10**6, max_age=60)
    with RegistrationGate(MemoryEntityStore(), early_log=log) as gate:
        deepest = functools.reduce(lambda it, _: nest(it), range(DEEPEST), 1)
        gate.offer("meter", deepest)
        with pytest.raises(ValueError, match="must be at most 100 lists, tuples and dicts deep"):
            gate.offer("meter", nest(deepest))
        with pytest.raises(ValueError, match="must be at most 100 lists, tuples and dicts deep"):
            gate.register("meter", data=nest(deepest))
        assert gate.register("meter", data=deepest)[0].messages == (deepest,)
