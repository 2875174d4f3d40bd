"""The gate against a plain model of it, whatever comes in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.registration import (
    MemoryEntityStore,
    RegistrationCycleError,
    RegistrationGate,
    Release,
)
from limiters.testing import ManualClock
from tests.examples import examples
from tests.plain_gate import PlainGate, Released

NAMES = st.sampled_from(["a", "b", "c", "d", "ab", "1:a"])
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), NAMES, st.booleans()),
        st.tuples(st.just("register"), NAMES, st.none() | NAMES, st.integers(0, 1)),
        st.tuples(st.just("deregister"), NAMES),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 4.0, 10.0])),
        st.tuples(st.just("restart")),
    ),
    max_size=60,
)
BOUNDS = st.fixed_dictionaries(
    {
        "telemetry_limit": st.integers(1, 6),
        "telemetry_per_entity": st.integers(1, 4),
        "metadata_limit": st.integers(1, 5),
        "pending_entities": st.integers(1, 5),
        "max_age": st.sampled_from([3.0, 10.0, 1000.0]),
    }
)


def told(releases: list[Release]) -> Released:
    return [
        (one.entity, one.registration and one.registration[1:], one.messages) for one in releases
    ]


@settings(max_examples=examples(500), deadline=None)
@given(BOUNDS, MOVES)
def test_r1_to_r6_whatever_comes_it_is_as_the_plain_model_says(
    bounds: dict[str, Any], moves: list[Any]
) -> None:
    clock, store = ManualClock(), MemoryEntityStore()
    gate = RegistrationGate(store, clock=clock, **bounds)
    plain = PlainGate(**bounds)
    for number, move in enumerate(moves):
        now = clock.now()
        if move[0] == "offer":
            _, entity, metadata = move
            expected = plain.offer(entity, number, metadata, now)
            assert told(gate.offer(entity, number, metadata=metadata)) == expected
        elif move[0] == "register":
            _, entity, parent, data = move
            allowed = plain.register(entity, parent, data, now)
            try:
                assert told(gate.register(entity, parent=parent, data=data)) == allowed
            except RegistrationCycleError:
                assert allowed is None
        elif move[0] == "deregister":
            removed = gate.deregister(move[1])
            expected_removed = plain.deregister(move[1])
            assert sorted(removed) == sorted(expected_removed)
            assert removed[:1] == expected_removed[:1]
        elif move[0] == "wait":
            clock.advance(move[1])
            gate.evict()
            plain.evict(clock.now())
        else:
            gate = RegistrationGate(store, clock=clock, **bounds)
            plain = PlainGate(**bounds, known=plain.known)
        assert gate.pending == len(plain.pending)
        for name in ("displaced", "dropped"):
            assert sum(gate.counts[name]) == plain.lost[name]
        check_books(gate, plain)


def check_books(gate: RegistrationGate, plain: PlainGate) -> None:
    """The sum of what was released, displaced or dropped, and what waits, is what was held."""
    waits = (
        sum(bool(held.registration) for held in plain.pending),
        sum(len(held.metadata) for held in plain.pending),
        sum(len(held.telemetry) for held in plain.pending),
    )
    counts = gate.counts
    for held, waiting, *ends in zip(
        counts["held"],
        waits,
        *(counts[name] for name in ("released", "displaced", "dropped")),
        strict=True,
    ):
        assert held == waiting + sum(ends)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(1, 10), st.randoms(use_true_random=False))
def test_r3_and_r4_a_nest_ten_deep_in_any_order_of_arrival(depth: int, chance: Any) -> None:
    gate = RegistrationGate(MemoryEntityStore())
    parts: list[tuple[str, str]] = []
    for level in range(depth):
        for kind in ("registration", "metadata", "telemetry", "telemetry"):
            parts.append((f"e{level}", kind))
    chance.shuffle(parts)
    out: list[Any] = []
    sent: dict[tuple[str, str], list[int]] = {}
    for number, (entity, kind) in enumerate(parts):
        sent.setdefault((entity, kind), []).append(number)
        level = int(entity[1:])
        if kind == "registration":
            releases = gate.register(entity, parent=f"e{level - 1}" if level else None)
        else:
            releases = gate.offer(entity, (kind, number), metadata=kind == "metadata")
        for release in releases:
            if release.registration:
                out.append((release.entity, "registration"))
            out += [(release.entity, *message) for message in release.messages]
    assert gate.pending == 0
    assert len(out) == len(parts)
    for level in range(depth):
        mine = [one[1:] for one in out if one[0] == f"e{level}"]
        assert mine[0] == ("registration",)
        for kind in ("metadata", "telemetry"):
            assert [one[1] for one in mine if one[0] == kind] == sent[(f"e{level}", kind)]
        if level:
            assert out.index((f"e{level - 1}", "registration")) < out.index(
                (f"e{level}", "registration")
            )
