"""Law K5 with a driver that is killed while batches are open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.processes.spark_stream import SCHEMA, STEP, TIMEOUT, WINDOW
from tests.spark import plainly
from tests.spark.streams import Stream, wait_for

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)  # it starts two Sparks, one after the other
def test_k5_a_driver_killed_with_open_batches_loses_none_and_repeats_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    files: list[list[dict[str, Any]]] = [
        [{"s": f"s{s}", "k": f"k{n}", "t": 10 * n + s, "n": n} for s in range(20)] for n in range(4)
    ]
    stream = Stream(spark, tmp_path, SCHEMA).write(*files[:2])
    (tmp_path / "out").mkdir()
    killed = subprocess.Popen(
        [sys.executable, "-m", "tests.processes.spark_stream", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    )
    try:
        wait_for(lambda: len(stream.finished()) >= 2 or killed.poll() is not None)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)  # and its JVM, and its Python workers
        killed.wait()
    before: dict[int, list[list[Any]]] = {
        int(path.stem): json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()
    }
    assert sum(len(batches) for batches in before.values()) < 40, "it was killed too late"
    stream.write(*files[2:])

    def all_closed() -> bool:
        told = [one for number in stream.finished() for one in before.get(number, [])]
        messages = [one[3] for one in told] + [row.messages for row in stream.out]
        return sum(map(len, messages)) >= 80

    stream.run_until(STEP, all_closed)
    after = {number: plainly.told(rows) for number, rows in stream.seen}
    ids = {number: [row.id for row in rows] for number, rows in stream.seen}
    out: list[Any] = []
    for number in stream.finished():
        told = [tuple(row[:4]) for row in before.get(number, [])]
        if number in before and number in after:  # replayed: the same, to the letter
            assert sorted(told) == sorted(after[number])
            assert sorted(row[4] for row in before[number]) == sorted(ids[number])
        out += told if number in before else after.get(number, [])
    expected = plainly.batches(stream.fed(files), WINDOW, TIMEOUT * 1000)
    assert plainly.by_subject(out) == plainly.by_subject(expected)
    assert sum(len(batch[3]) for batch in out) == 80
