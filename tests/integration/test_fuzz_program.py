"""The tools around the fuzz targets: what they print, and how an input is played again. The fuzzer
itself is not installed for tests."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests import reproduce
from tests.fuzz import __main__ as program
from tests.fuzz.playing import ROOM, bounded
from tests.fuzz.targets import redis_url
from tests.fuzz.telling import summary

LOG = """\
INFO: seed corpus: files: 7 min: 9b max: 99b total: 400b rss: 90Mb
#8\tINITED cov: 61 ft: 90 corp: 6/300b exec/s: 0 rss: 91Mb
#99\tNEW    cov: 97 ft: 171 corp: 19/1200b lim: 99 exec/s: 49 rss: 92Mb
"""
FAILED = """\
 === Uncaught Python exception: ===
ValueError: no URL
Traceback (most recent call last):
==7== ERROR: libFuzzer: fuzz target exited
artifact_prefix='.fuzz/redis_url.'; Test unit written to .fuzz/redis_url.crash-1f3a
"""
STATS = "stat::number_of_executed_units: 2486\n"


def test_it_says_how_much_was_played_and_kept(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG + STATS)
    said = list(summary("redis_url", 0, tmp_path / "log"))
    assert said == ["redis_url: 2,486 inputs, 97 edges, 19 kept"]


def test_it_says_what_failed_and_how_to_see_it_again(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG + FAILED + STATS)
    assert list(summary("redis_url", 77, tmp_path / "log")) == [
        "redis_url: FAILED after 2,486 inputs, 97 edges, 19 kept: ValueError: no URL",
        "  .venv/bin/python -m tests.reproduce fuzz redis_url .fuzz/redis_url.crash-1f3a",
        f"  all output: {tmp_path / 'log'}",
    ]


def test_one_that_could_not_begin_says_why(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("ModuleNotFoundError: No module named 'x'\n")
    assert "FAILED after 0 inputs, 0 edges, 0 kept: ModuleNotFoundError: No module named 'x'" in (
        next(iter(summary("redis_url", 1, tmp_path / "log")))
    )


def test_without_the_fuzzer_it_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        program.main([])
    assert "make fuzz" in capsys.readouterr().err


def test_an_input_is_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "crash-1f3a"
    path.write_bytes(b"redis://\xff")
    command = ["fuzz", "redis_url", str(path)]
    assert reproduce.main(command) == 0
    assert "it holds" in capsys.readouterr().out
    monkeypatch.setattr(redis_url, "SECRET", "\udcff")  # which is no secret, and is shown
    monkeypatch.setattr(redis_url, "_is_secret", lambda url: True)
    assert reproduce.main(command) == 1
    said = capsys.readouterr()
    assert said.out.endswith("tests/fuzz/regressions/redis_url.txt:\nb'redis://\\xff'\n")
    assert "AssertionError" in said.err
    assert reproduce.main(["fuzz", "redis_url", str(tmp_path / "none")]) == 1
    assert "cannot be read: No such file" in capsys.readouterr().out


def test_too_much_memory_is_an_error_and_the_bound_ends_with_the_block() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), bounded():
        bytes(2 * ROOM)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
