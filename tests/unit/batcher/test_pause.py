"""Law B8 without a clock: how long a pause lasts and what prolongs it."""

from __future__ import annotations

from tenacity import wait_exponential

from dispatcher._core.pause import Pause


def test_b8_pausing_again_does_not_prolong_a_pause() -> None:
    pause = Pause(0.5)
    assert pause.begin(10.0, None) == 0.5
    assert pause.begin(10.4, None) is None
    assert pause.until == 10.5


def test_b8_a_longer_pause_prolongs_the_present_one_and_a_shorter_one_does_not() -> None:
    pause = Pause(0.5)
    pause.begin(10.0, None)
    assert pause.begin(10.1, 0.2) is None
    assert pause.begin(10.1, 2.0) == 2.0
    assert pause.until == 12.1


def test_b8_a_strategy_backs_off_and_a_success_resets_it() -> None:
    pause = Pause(wait_exponential(multiplier=1))
    lengths = []
    now = 0.0
    for _ in range(3):
        length = pause.begin(now, None)
        assert length is not None
        lengths.append(length)
        now += length
        assert pause.over(now)
        assert pause.end(now) == length
    assert lengths == [1, 2, 4]
    pause.succeeded(raised_at=now)
    assert pause.begin(now, None) == 1


def test_b8_the_success_of_a_batch_raised_before_the_pause_resets_nothing() -> None:
    pause = Pause(wait_exponential(multiplier=1))
    pause.begin(10.0, None)
    pause.succeeded(raised_at=9.9)
    pause.end(11.0)
    pause.succeeded(raised_at=9.9)
    assert pause.begin(11.0, None) == 2


def test_ending_a_pause_without_one_returns_none() -> None:
    pause = Pause(0.5)
    assert pause.end(1.0) is None
    assert not pause.over(1.0)
