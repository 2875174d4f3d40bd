"""`make storms` runs seeds, notes them, goes on behind them, and names what fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from limiters.verifier import Verdict, verify
from tests import reproduce
from tests.simulation import __main__ as program
from tests.simulation import seeds, storms, trials

GOOD = verify([(0.0, "a", 1)], 10)
BAD = verify([(0.0, "a", 11)], 10)


def breaks_at_four(seed: int) -> Verdict:
    if seed == 5:
        raise AssertionError("two leases for one partition")
    return BAD if seed == 4 else GOOD


@pytest.fixture
def storm(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(storms.STORMS, "gale", breaks_at_four)
    return "gale"


def test_what_breaks_a_rule_is_named_and_what_raises_too(storm: str) -> None:
    assert program.judge(storm, 3) == (1, "")
    assert program.judge(storm, 4) == (1, str(BAD))
    assert program.judge(storm, 5) == (0, "AssertionError: two leases for one partition")


def test_it_goes_on_where_it_was_and_prints_how_to_see_a_failure_again(
    storm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "storms.tsv"
    words = ["storms", "--minutes", "0.001", "--storm", storm, "--file", str(path)]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr(trials, "version", lambda paths: "abc")
    assert program.main() == 1
    told = capsys.readouterr().out
    assert "python -m tests.reproduce storm gale 4\n" in told
    assert "python -m tests.reproduce storm gale 5\n" in told
    before = len(seeds.read(path))
    program.main()
    blocks = seeds.read(path)
    assert len(blocks) > before
    assert [block.first for block in blocks] == [10 * at for at in range(len(blocks))]
    assert [block.failed for block in blocks if block.failed] == [(4, 5)]
    assert "failed: 4 5" in capsys.readouterr().out


def test_a_line_of_its_file_that_is_no_block_is_named(
    storm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "storms.tsv"
    path.write_text("<<<<<<< HEAD\n")
    monkeypatch.setattr("sys.argv", ["storms", "--storm", storm, "--file", str(path)])
    with pytest.raises(SystemExit, match="2"):
        program.main()
    assert f"{path}, line 1: not a block of seeds" in capsys.readouterr().err


def test_a_seed_that_failed_fails_again(storm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main(["storm", storm, "4"]) == 1
    assert f"gale, seed 4: {BAD}" in capsys.readouterr().out
    assert reproduce.main(["storm", storm, "3"]) == 0
