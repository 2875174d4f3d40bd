"""Where dead letters go, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dispatcher.spark import Context, DeadLetterTable

CONTEXT = Context("orders", 7, "a", 1, 2, "key", 0, reason="not wanted")


@pytest.mark.parametrize("name", ["dead", "dead letters", "dead#1", "dead%20letters", "dead?"])
def test_a_table_is_in_the_folder_that_was_named(tmp_path: Path, name: str) -> None:
    DeadLetterTable(str(tmp_path / name))([{"n": 1}], CONTEXT)

    [row] = pq.read_table(tmp_path / name / "key.parquet").to_pylist()
    assert row == {"n": 1, "dead_reason": "not wanted", "dead_query": "orders", "dead_batch_id": 7}


def test_a_table_may_be_named_by_a_uri(tmp_path: Path) -> None:
    DeadLetterTable(f"{tmp_path.as_uri()}/dead%20letters")([{"n": 1}], CONTEXT)

    assert (tmp_path / "dead letters" / "key.parquet").exists()


@pytest.mark.parametrize("path", ["dead", "", None, "./dead"])
def test_a_place_that_is_another_on_each_executor_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path must be a URI or an absolute path"):
        DeadLetterTable(path)
