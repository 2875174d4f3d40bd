"""From the gate through the Batcher to the callback: in order to the end."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any

import pytest

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    ImproperOrderError,
    Operation,
    ProvisionedResource,
    Retry,
    Watcher,
)
from dispatcher.registration import (
    AutoRegistrationConflictError,
    EntityStoreError,
    MemoryEntityStore,
    Registration,
    RegistrationGate,
    Release,
)
from dispatcher.senders import GatedSender
from limiters.testing import ManualClock
from tests.seen import Seen
from tests.waiting import until


def words(operation: Operation) -> Any:
    release = operation.payload
    return (release.entity, release.messages[0] if release.messages else "registered")


def test_r4_an_order_key_is_the_topmost_ancestor(batcher: Batcher) -> None:
    keys: list[Any] = []
    watcher = Watcher(lambda batch: keys.extend(one.key for one in batch))
    gate = RegistrationGate(MemoryEntityStore())
    with GatedSender(gate, batcher, watcher) as sender:
        sender.offer("c", 1)
        sender.register("c", parent="b")
        sender.register("b", parent="a")
        sender.register("a")
        sender.register("other")
        assert watcher.wait(20)
    assert sorted(keys) == ["a", "a", "a", "a", "other"]


def test_many_registrations_and_messages_are_enqueued_together(batcher: Batcher) -> None:
    seen: list[Any] = []
    watcher = Watcher(lambda batch: seen.extend(map(words, batch)))
    gate = RegistrationGate(MemoryEntityStore())
    with GatedSender(gate, batcher, watcher) as sender:
        sender.offer_many([("b", 1), ("a", 2), ("b", 3)])
        sender.register_many([Registration("b", "a"), Registration("a")])
        sender.offer_many([("a", 4), ("b", 5)])
        assert watcher.wait(20)
    registered = [("a", "registered"), ("a", 2), ("b", "registered"), ("b", 1), ("b", 3)]
    assert seen == [*registered, ("a", 4), ("b", 5)]


def test_r4_no_child_overtakes_its_parent_through_retries(batcher: Batcher) -> None:
    chance = random.Random(4)
    out: list[Any] = []
    lock = threading.Lock()

    def on_batch(batch: list[Operation]) -> None:
        with lock:
            if chance.random() < 0.3:
                raise Retry(after=0.001)
            out.extend(map(words, batch))

    watcher = Watcher(on_batch, max_batch_size=3)
    gate = RegistrationGate(MemoryEntityStore())
    moves: list[tuple[str, str | None, int]] = []
    for family in range(10):
        for level in range(4):
            entity = f"{family}.{level}"
            moves += [(entity, None, number) for number in range(5)]
            moves.append((entity, f"{family}.{level - 1}" if level else "", -1))
    chance.shuffle(moves)
    sent: dict[str, list[int]] = {}
    turns = threading.Lock()

    def send(mine: list[tuple[str, str | None, int]]) -> None:
        for entity, parent, number in mine:
            if parent is not None:
                sender.register(entity, parent=parent or None)
            else:
                with turns:
                    sent.setdefault(entity, []).append(number)
                    sender.offer(entity, number)

    with GatedSender(gate, batcher, watcher, batchable=True) as sender:
        threads = [threading.Thread(target=send, args=(moves[part::3],)) for part in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert watcher.wait(20)
    assert len(out) == len(moves)
    for entity, numbers in sent.items():
        tree, depth = entity.split(".")
        mine = [what for name, what in out if name == entity]
        assert mine == ["registered", *numbers]
        if depth != "0":
            above = f"{tree}.{int(depth) - 1}"
            assert out.index((above, "registered")) < out.index((entity, "registered"))


def test_r5_what_is_held_too_long_goes_although_nothing_more_comes(batcher: Batcher) -> None:
    clock = ManualClock()
    gate = RegistrationGate(MemoryEntityStore(), clock=clock, max_age=10)
    with GatedSender(gate, batcher, Watcher(print), evict_interval=0.001) as sender:
        sender.offer("a", 1)
        clock.advance(10)
        until(lambda: gate.pending == 0)
    assert gate.counts["dropped"].telemetry == 1


def test_a_store_that_fails_does_not_end_the_thread_that_evicts(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    gate = RegistrationGate(MemoryEntityStore())
    calls = threading.Semaphore(0)

    def evict(now: float | None = None) -> int:
        calls.release()
        raise EntityStoreError("away")

    gate.evict = evict  # type: ignore[method-assign]
    with (
        caplog.at_level(logging.WARNING),
        GatedSender(gate, batcher, Watcher(print), evict_interval=0.001),
    ):
        assert calls.acquire(timeout=20)
        assert calls.acquire(timeout=20)
    assert "could not drop what it has held too long: away" in caplog.text


def test_a_full_batcher_is_waited_for_and_a_stopped_one_gives_back() -> None:
    seen = Seen(held=True)
    batcher = Batcher(flush_interval=0.01, max_buffer_size=2)
    batcher.start()
    gate = RegistrationGate(MemoryEntityStore())
    watcher = Watcher(seen)
    for number in range(20):
        gate.offer("a", number)
    sender = GatedSender(gate, batcher, watcher)
    caught: list[BaseException] = []

    def register() -> None:
        try:
            sender.register("a")
        except BatcherStoppedError as error:
            caught.append(error)

    thread = threading.Thread(target=register)
    thread.start()
    assert seen.entered.acquire(timeout=20)
    stopping = threading.Thread(target=lambda: batcher.stop(drain=False))
    stopping.start()
    thread.join(20)
    seen.gate.set()
    stopping.join(20)
    assert caught
    everything = [one.messages for batch in seen.batches for one in batch]
    everything += [one.payload.messages for one in batcher.returned + sender.unsent]
    assert everything == [(), *((number,) for number in range(20))]


def test_one_that_costs_too_much_fails_alone() -> None:
    failed: list[Any] = []
    seen = Seen()
    watcher = Watcher(seen, on_failure=lambda operations, error: failed.extend(operations))
    gate = RegistrationGate(MemoryEntityStore())
    for number in range(4):
        gate.offer("a", number)
    with (
        Batcher(rate_limiter=ProvisionedResource(100), flush_interval=0.01) as batcher,
        GatedSender(
            gate, batcher, watcher, cost=lambda release: 1_000 if release.messages == (2,) else 1
        ) as sender,
    ):
        sender.register("a")
        assert watcher.wait(20)
    assert [one.payload.messages for one in failed] == [(2,)]
    assert [one.messages for one in seen.payloads] == [(), (0,), (1,), (3,)]


def test_one_whose_cost_cannot_be_computed_fails_alone(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[Any] = []
    seen = Seen()
    watcher = Watcher(seen, on_failure=lambda operations, error: failed.append((operations, error)))
    gate = RegistrationGate(MemoryEntityStore())
    for message in (0, "what", 2):
        gate.offer("a", message)

    def cost(release: Release) -> float:
        return float(sum(1 + message for message in release.messages))

    with GatedSender(gate, batcher, watcher, cost=cost) as sender:
        sender.register("a")
        assert watcher.wait(20)
    [([operation], error)] = failed
    assert operation.payload.messages == ("what",)
    assert isinstance(error, TypeError)
    assert [one.messages for one in seen.payloads] == [(), (0,), (2,)]


def test_a_failure_callback_may_offer_what_is_cheaper() -> None:
    def halves(operations: list[Operation], error: BaseException) -> None:
        [size] = operations[0].payload.messages
        for _ in range(2):
            sender.offer("a", size // 2)

    seen = Seen()
    watcher = Watcher(seen, on_failure=halves)
    gate = RegistrationGate(MemoryEntityStore())
    for size in (8, 160, 9):
        gate.offer("a", size)
    with (
        Batcher(rate_limiter=ProvisionedResource(100), flush_interval=0.01) as limited,
        GatedSender(gate, limited, watcher, cost=lambda one: sum(one.messages)) as sender,
    ):
        registering = threading.Thread(target=sender.register, args=("a",), daemon=True)
        registering.start()
        registering.join(20)
        assert not registering.is_alive()
        assert watcher.wait(20)
    assert [one.messages for one in seen.payloads] == [(), (8,), (80,), (80,), (9,)]


def test_what_an_interrupt_leaves_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher(Seen())
    gate = RegistrationGate(MemoryEntityStore())
    for number in range(4):
        gate.offer("a", number)
    batcher = Batcher(max_buffer_size=3)
    sender = GatedSender(gate, batcher, watcher)

    sleep, here = time.sleep, threading.current_thread()

    def interrupted(seconds: float) -> None:
        if threading.current_thread() is here:  # others sleep, too
            raise KeyboardInterrupt
        sleep(seconds)

    monkeypatch.setattr("dispatcher.senders._placing.time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sender.register("a")
    assert batcher.operations_in_buffer == 3
    assert [one.payload.messages for one in sender.unsent] == [(2,), (3,)]


def test_what_the_gate_refuses_is_raised(batcher: Batcher) -> None:
    gate = RegistrationGate(MemoryEntityStore(), auto_register=True)
    seen = Seen()
    watcher = Watcher(seen)
    with GatedSender(gate, batcher, watcher) as sender:
        sender.offer("a", 1)
        with pytest.raises(AutoRegistrationConflictError):
            sender.register("a")
        assert sender.deregister("a") == ["a"]
        assert watcher.wait(20)
    assert len(seen.payloads) == 2


def test_options_are_checked(batcher: Batcher) -> None:
    gate: Any = RegistrationGate(MemoryEntityStore())
    for options in ({"gate": 7}, {"cost": 1}, {"evict_interval": 0}):
        (name,) = options
        with pytest.raises(ValueError, match=f"{name} must"):
            GatedSender(**{"gate": gate, "batcher": batcher, "watcher": Watcher(print), **options})
    sender = GatedSender(gate, batcher, Watcher(print))
    sender.stop()
    with sender, pytest.raises(ImproperOrderError):
        sender.start()
