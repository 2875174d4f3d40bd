"""Exceptions that cannot be closed from one side: each one that the docs name, with its bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.stage import ENDLESS, Stage

SPAN = 3.006
"""A lease of 2 s, a period of 1 s and its guard."""


def over(stage: Stage) -> list[float]:
    """When a window over the limit ended."""
    return [at for at, used in stage.windows() if used > 1 + 1e-6]


def test_x1_what_is_free_at_a_server_that_comes_back_is_granted_twice_for_a_span() -> None:
    h = Stage()
    a = h.server(vouches=True)
    w, x, z = h.player(0), h.player(), h.player()
    h.go(w, a, 0)
    b = h.copy(a)
    h.run(1, 9, {x: b})
    h.run(9, 13, {z: a}, [x])
    assert h.worst() == pytest.approx(2)
    assert max(over(h)) <= 9 + SPAN


def test_x1_a_short_interlude_hides_the_gap() -> None:
    h = Stage()
    a = h.server(vouches=True)
    x, z = h.player(), h.player(0)
    h.go(x, a, 0)
    h.go(z, a, 0.45)
    b = h.copy(a)
    h.go(x, b, 0.5)
    h.go(x, b, 0.9)  # then it is cut off
    h.interval = 0.05
    x.backlog = z.backlog = 0
    h.run(0.95, 2.85, {z: a})
    x.backlog = z.backlog = ENDLESS
    h.run(2.85, 5, {z: a}, [x], step=0.01)
    assert h.worst() <= 2 + 1e-6
    assert not over(h) or max(over(h)) <= 0.95 + SPAN


def test_x2_shorter_terms_come_first_and_the_holder_is_cut_off() -> None:
    h = Stage(lease=5)
    a, b = h.server(vouches=True), h.server()
    x = h.player()
    h.run(0, 1.01, {x: a})
    z = h.player(terms=replace(h.terms, lease=500))
    h.run(1.1, 8, {z: b}, [x])
    assert h.worst() == pytest.approx(2)
    begins, ends = min(over(h)), max(over(h))
    assert begins >= 1.1 + 1.506  # the newcomer's span
    assert ends <= 1 + 6.006  # the holder's
    # With the default span of a server, as long as no lease is longer, nothing of it.
    h = Stage(lease=5, default_span=6.006)
    a, b = h.server(vouches=True), h.server()
    x, z = h.player(), h.player(terms=replace(h.terms, lease=500))
    h.run(0, 1.01, {x: a})
    h.run(1.1, 8, {z: b}, [x])
    assert not over(h)


def test_x2_the_holder_claims_again_and_the_newcomer_is_cut_off() -> None:
    h = Stage(lease=5)
    a, b = h.server(vouches=True), h.server()
    x, z = h.player(), h.player(terms=replace(h.terms, lease=500))
    h.run(0, 1.01, {x: a})
    x.backlog = 0
    h.run(1.1, 5.9, {z: b}, [x])
    z.backlog = 0
    h.go(z, b, 5.9)  # the last time
    assert h.go(x, b, 5.95).units == z.share.units == x.share.units
    z.backlog = 100
    z.spend(6.39)
    x.backlog = ENDLESS
    h.run(7.2, 9, {x: b}, [z], step=0.01)
    assert h.worst() == pytest.approx(2)
    # The holder's span, and the newcomer's lease.
    assert 1 + 6.006 < max(over(h)) <= 1 + 6.006 + 0.5


def test_x3_two_servers_in_charge_at_the_same_time() -> None:
    h = Stage()
    a = h.server(vouches=True)
    x, z = h.player(), h.player()
    h.go(x, a, 0)
    b = h.copy(a)
    for number in range(10, 180):
        now = number * 0.05
        if number % 10 == 0:
            h.go(z, b, now)
            h.go(x, a if now < 6 else b, now)
        x.spend(now)
        z.spend(now)
    assert h.worst() <= 2 + 1e-6
    assert max(over(h)) <= 6 + SPAN


@pytest.mark.parametrize("step", [0.3, 0.9])
def test_x4_newcomers_get_something_earlier_by_a_step_below_two_intervals(step: float) -> None:
    h = Stage()
    a = h.server(vouches=True)
    x = h.player()
    h.go(x, a, 0)  # then it is cut off
    a.step(step)
    given_up = h.lease + 1.006 + 2 * h.interval
    for number in range(250):
        newcomer = h.player()
        h.go(newcomer, a, number * 0.02)
        if newcomer.share.units:
            break
    assert given_up - step - 0.02 <= number * 0.02 <= given_up + 0.02
    assert not over(h)


@pytest.mark.parametrize("step", [0.3, 0.9])
def test_x4_what_changed_hands_is_granted_earlier_by_the_step(step: float) -> None:
    h = Stage()
    a = h.server(vouches=True)
    x, z = h.player(), h.player()
    h.go(x, a, 0)
    a.sync(x.share.leave(0.05), 0.05)  # all of it is in the pool, with what was spent
    a.step(step)
    h.run(0.06, 1.2, {z: a}, step=0.01)
    assert over(h)
    assert max(used for _, used in h.windows(h.period - step)) <= 1 + 1e-6
