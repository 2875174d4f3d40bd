"""Evicting an instance on the command line, and what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from dispatcher import Batcher, BatcherStoppedError, Operation, Watcher
from limiters import Event, RedisLeaseManager, SharedResource
from tests.commands import (
    COMMAND,
    Run,
    asks,
    hold,
    outside,
    resource,
)
from tests.processes import Processes
from tests.processes.plan import Plan
from tests.terminals import Terminal
from tests.waiting import until

# leases --evict


@pytest.mark.parametrize("given", ["abd", "abc123", "here:1"])
def test_evict_takes_the_one_that_is_meant(
    run: Run, manager: RedisLeaseManager, given: str
) -> None:
    hold(
        manager,
        asks("abc123", 300, label="here:1"),
        asks("abc1234", 300, label="here:13"),
        asks("abd2", 300, label="here:12"),
    )
    assert run("leases", "orders", "--evict", given, "--yes").code == 0
    evicted = {
        one["instance"]
        for one in run("leases", "orders", "--json").json["instances"]
        if one["evicted"]
    }
    assert evicted == {"abd2" if given == "abd" else "abc123"}


def test_evict_says_what_that_means(run: Run, manager: RedisLeaseManager) -> None:
    hold(manager, asks("abc", need=300, label="here:1"))
    said = run("leases", "orders", "--evict", "a", "--yes")
    assert said.out.startswith("abc (here:1) is evicted.\n")
    assert "comes back when it next asks, or when its lease ends" in said.out
    assert "Restart it" in said.out
    assert "evicted" in run("leases", "orders").out
    assert "1 evicted" in run("limit", "show", "orders").out
    assert "was evicted before" in run("leases", "orders", "--evict", "a", "--yes").out
    again = run("leases", "orders", "--evict", "a", "--yes", "--json").json
    assert again == {"evicted": "abc", "label": "here:1", "again": True}


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 1)])
def test_evict_asks_on_a_terminal(manager: RedisLeaseManager, answer: str, code: int) -> None:
    hold(manager, asks("abc", 300, label="here:1"))
    with Terminal([*COMMAND, "leases", "orders", "--evict", "abc"]) as terminal:
        asked = terminal.read_until("Type yes: ")
        assert "Evict abc (here:1) from limit orders? It holds " in asked
        assert " of 10 partitions (" in asked
        terminal.type(f"{answer}\n")
        assert terminal.end() == code
    view = manager.look()
    assert view is not None
    assert view.instances[0].evicted == (answer == "yes")


def test_evict_does_not_guess_an_answer(manager: RedisLeaseManager) -> None:
    hold(manager, asks("abc", 300, label="here:1"))
    said = outside("leases", "orders", "--evict", "abc")
    assert (said.code, said.out) == (1, "")
    assert "nothing was evicted: there is no terminal to ask on" in said.err


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ("b", 3, "no instance is called 'b'; there are abc1 (here:1), abc2 (here:1)"),
        ("", 3, "no instance is called ''"),
        ("ab", 1, "'ab' may be any of 2: abc1 (here:1), abc2 (here:1); give more of its name"),
        ("here:1", 1, "'here:1' may be any of 2"),
    ],
)
def test_evict_does_not_guess(
    run: Run, manager: RedisLeaseManager, given: str, code: int, message: str
) -> None:
    hold(manager, asks("abc1", 300, label="here:1"), asks("abc2", 300, label="here:1"))
    said = run("leases", "orders", "--evict", given, "--yes")
    assert (said.code, said.out) == (code, "")
    assert message in said.err
    assert not any(one["evicted"] for one in run("leases", "orders", "--json").json["instances"])


def test_an_instance_that_is_evicted_goes_on_with_what_is_reserved(run: Run, url: str) -> None:
    errors: list[str] = []

    def note(event: Event) -> None:
        errors.append(event.message)

    with (
        resource(url, reserved_capacity=50) as limiter,
        resource(url) as other,
        ExitStack() as stack,
    ):
        limiter.add_listener(note, "error")
        done = feed(stack, limiter)
        until(lambda: limiter.partitions)
        assert run("leases", "orders", "--evict", limiter.instance[:10], "--yes").code == 0
        until(lambda: errors and not limiter.partitions)
        assert limiter.capacity == 50
        other.give_me(100_000)
        until(lambda: other.partitions == pytest.approx(10))
        batches = done()
        until(lambda: done() >= batches + 100)  # which take a few seconds, and some syncs
        assert limiter.partitions == 0
        assert len([error for error in errors if "evicted by an operator" in error]) == 1


def test_an_instance_that_is_evicted_stays_so_until_it_is_restarted(run: Run, url: str) -> None:
    def instances() -> set[str]:
        return {one["instance"] for one in run("leases", "orders", "--json").json["instances"]}

    # While no instance sends a request for longer than two intervals
    with resource(url, max_interval=0.5) as limiter, resource(url, max_interval=0.5) as other:
        limiter.give_me(100_000)
        other.give_me(100_000)
        until(lambda: [limiter.partitions, other.partitions] == pytest.approx([5, 5]))
        assert run("leases", "orders", "--evict", limiter.instance, "--yes").code == 0
        limiter.give_me(0)
        until(lambda: instances() == {other.instance})  # the other one is forgotten
        limiter.give_me(100_000)
        other.give_me(100_000)
        until(lambda: other.partitions == pytest.approx(10))
        assert limiter.partitions == 0
        assert instances() == {other.instance}


def feed(stack: ExitStack, limiter: SharedResource) -> Callable[[], int]:
    """A Batcher with a backlog that does not end; how many batches it has raised."""
    raised: list[int] = []

    def enqueue() -> None:
        with suppress(BatcherStoppedError):
            while True:
                batcher.enqueue(Operation(watcher, 1, None))

    batcher = Batcher(rate_limiter=limiter, max_buffer_size=1_000)
    watcher = Watcher(lambda batch: raised.append(len(batch)))
    feeder = threading.Thread(target=enqueue, daemon=True)
    batcher.start()
    feeder.start()
    stack.callback(feeder.join)
    stack.callback(batcher.stop, drain=False)
    return lambda: len(raised)


# A cluster of real processes


def test_real_processes_are_shown_changed_and_evicted(run: Run, url: str) -> None:
    plan = Plan(url, log="", shared_capacity=1_000, factor=100, max_interval=0.1, operations=None)
    with Processes(plan) as processes:
        processes.start([["i0"], ["i1"]])

        def instances() -> dict[str, Any]:
            told = run("leases", "orders", "--json").json["instances"]
            return {one["label"]: one for one in told}

        def sizes() -> list[float]:
            return sorted(one["held"] for one in instances().values())

        until(lambda: run("limit", "show", "orders").code == 0)
        until(lambda: sizes() == pytest.approx([5, 5], rel=0.1))
        run("limit", "set", "orders", "--shared-capacity", "2000")
        until(lambda: sizes() == pytest.approx([10, 10], rel=0.1))
        until(lambda: run("leases", "orders", "--json").json["spend"] > 1_000)
        evicted = next(iter(instances()))
        assert run("leases", "orders", "--evict", evicted, "--yes").code == 0
        assert instances()[evicted]["evicted"]
        # It holds nothing any more, and is forgotten in the end.
        until(lambda: sizes()[-1] > 19)
