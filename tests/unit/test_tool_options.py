"""Errors of the tools for their command lines, and on how many cores they run."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError

import pytest

from tests.loop.cores import cores
from tests.loop.options import positive, seed, whole


@pytest.mark.parametrize("text", ["0", "-3", "1.5", "x", ""])
def test_a_count_is_at_least_one(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"at least 1, not .* \(by make: N\)"):
        whole(make="N")(text)
    assert whole()("1") == 1


def test_a_count_may_have_another_least() -> None:
    with pytest.raises(ArgumentTypeError, match="at least 10, not '9'"):
        whole(10)("9")
    assert whole(10)("10") == 10


@pytest.mark.parametrize("text", ["0", "-0.5", "nan", "inf", "x", ""])
def test_minutes_are_positive_and_finite(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="must be a number above 0"):
        positive()(text)
    assert positive()("0.001") == 0.001


@pytest.mark.parametrize("text", ["-1", str(2**32), "x"])
def test_a_seed_is_one_that_python_takes_for_hashes(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="from 0 to 4294967295"):
        seed(text)
    assert [seed("0"), seed(str(2**32 - 1))] == [0, 2**32 - 1]


def test_where_the_system_does_not_report_which_cores_are_ours_all_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cores() >= 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores() == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1
