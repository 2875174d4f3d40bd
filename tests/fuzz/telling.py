"""Summarizes the log of a fuzzer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_ROUND = re.compile(r"cov: (\d+) ft: \d+ corp: (\d+)/")
_PLAYED = re.compile(r"stat::number_of_executed_units: +(\d+)")
_WRITTEN = re.compile(r"Test unit written to (\S+)")
_ERROR = re.compile(r"^(\w[\w.]*(?:Error|Exception|Warning|Interrupt)\b.*)$", re.MULTILINE)
_OF_THE_FUZZER = re.compile(r"ERROR: libFuzzer: (.*)")


def summary(name: str, code: int, log: Path) -> Iterator[str]:
    """Return lines for people: how much was played, and which input failed, with the command that
    plays it."""
    text = log.read_text(errors="replace")
    played = _PLAYED.findall(text)[-1:] or ["0"]
    covered, kept = (_ROUND.findall(text)[-1:] or [("0", "0")])[0]
    found = f"{int(played[0]):,} inputs, {int(covered):,} edges, {int(kept):,} kept"
    if not code:
        yield f"{name}: {found}"
        return
    errors = [*_ERROR.findall(text), *_OF_THE_FUZZER.findall(text), f"exit code {code}"]
    yield f"{name}: FAILED after {found}: {errors[0]}"
    for path in _WRITTEN.findall(text):
        yield f"  .venv/bin/python -m tests.reproduce fuzz {name} {path}"
    yield f"  all output: {log}"
