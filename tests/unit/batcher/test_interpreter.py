"""Errors of the package in an interpreter in which it cannot run safely."""

from __future__ import annotations

import sys

import pytest

from dispatcher import _interpreter as interpreter


def test_an_interpreter_without_its_lock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(
        RuntimeError, match=r"needs CPython's global interpreter lock.*PYTHON_GIL=1"
    ):
        interpreter.check()


def test_an_interpreter_with_its_lock_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    interpreter.check()
    monkeypatch.delattr(sys, "_is_gil_enabled")
    interpreter.check()
