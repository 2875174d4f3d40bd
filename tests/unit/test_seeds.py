"""The file of `make storms`: it goes on where it was, and a seed that failed is not forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.loop.lines import RecordError
from tests.simulation.seeds import HEADER, Block, append, next_seed, read, summary

GALE = Block("abc", "gale", 0, 9, 5_000, ())
WORSE = Block("abc", "gale", 10, 19, 6_000, (12, 17))


def test_a_block_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "storms.tsv"
    assert read(path) == []
    append(path, GALE)
    append(path, WORSE)
    assert read(path) == [GALE, WORSE]
    assert path.read_text().startswith(HEADER)


def test_a_last_line_that_was_left_open_is_not_glued_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "storms.tsv"
    path.write_text(HEADER + GALE.line().rstrip("\n"))
    append(path, WORSE)
    assert read(path) == [GALE, WORSE]


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "abc\tgale\t10\t1", "abc\tgale\tx\t9\t1\t"])
def test_a_line_that_is_no_block_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "storms.tsv"
    path.write_text(HEADER + GALE.line() + line)
    message = f"{path}, line 3: not a block of seeds, correct or delete it: {line!r}"
    with pytest.raises(RecordError, match=re.escape(message)):
        read(path)


def test_it_goes_on_behind_the_last_seed_of_this_storm_at_this_commit() -> None:
    others = [Block("def", "gale", 0, 99, 1, ()), Block("abc", "calm", 0, 99, 1, ())]
    assert next_seed([GALE, WORSE, *others], "abc", "gale") == 20
    assert next_seed(others, "abc", "gale") == 0


def test_the_summary_names_what_failed_also_earlier() -> None:
    told = "gale at abc: 20 seeds, 11,000 windows, failed: 12 17"
    assert summary([GALE, WORSE, Block("def", "gale", 0, 9, 1, (3,))], "abc", "gale") == told
    assert summary([GALE], "abc", "gale").endswith("none failed")
