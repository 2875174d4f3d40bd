"""`python -m benchmarks` says what it is about to do, and which parts there are."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as benchmarks


def test_a_part_that_does_not_exist_is_refused_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "thruput"])
    with pytest.raises(SystemExit):
        benchmarks.main()
    assert "error: no part thruput; there are: throughput, " in capsys.readouterr().err


def test_all_parts_are_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    monkeypatch.setattr(benchmarks, "GROUPS", {"throughput": "throughput"})
    monkeypatch.setitem(sys.modules, "benchmarks.throughput", SimpleNamespace(run=list))
    assert benchmarks.main() == 0
    assert capsys.readouterr().out.startswith("1 parts, one after the other: that takes long")
