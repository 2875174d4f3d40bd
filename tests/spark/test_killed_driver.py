"""Laws K3 and K5 with a driver that is killed while some batches are open and others are being
sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from limiters.embedded import EmbeddedRedis
from tests.processes.spark_stream import (
    CONCURRENCY,
    HELD,
    HOLD,
    LOG,
    PARTITIONS,
    SCHEMA,
    TIMEOUT,
    WINDOW,
    sent,
)
from tests.spark import plainly
from tests.spark.handlers import notes
from tests.spark.streams import Stream, wait_for

ROOT = Path(__file__).parents[2]
SUBJECTS = 20


@pytest.mark.timeout(600)  # it starts two Sparks, one after the other
def test_k3_k5_a_driver_killed_with_open_batches_loses_none_and_repeats_only_those_in_flight(
    spark: SparkSession, tmp_path: Path, shared_redis: EmbeddedRedis
) -> None:
    # The third file joins a batch that the second one has opened, if it is still open.
    files: list[list[dict[str, Any]]] = [
        [{"s": f"s{s}", "k": f"k{n}", "t": at + s, "n": n} for s in range(SUBJECTS)]
        for n, at in enumerate([0, 100, 110, 300])
    ]
    log = tmp_path / LOG
    stream = Stream(spark, tmp_path, SCHEMA).write(*files[:2])
    hold = tmp_path / HOLD
    hold.touch()
    killed = subprocess.Popen(
        [sys.executable, "-m", "tests.processes.spark_stream", str(tmp_path), shared_redis.url],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    )
    try:
        wait_for(lambda: len(notes(log)) >= HELD or killed.poll() is not None)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)  # and its JVM, and its Python workers
        killed.wait()
    assert HELD <= len(notes(log)) < 2 * SUBJECTS, "it was killed too early or too late"
    hold.unlink()
    stream.write(*files[2:])

    query = sent(stream, shared_redis.url)

    def all_sent() -> bool:
        noted = notes(log)
        messages = {(one["subject"], number) for one in noted for number in one["numbers"]}
        return len(messages) == 4 * SUBJECTS and noted[-1]["batch"] in stream.finished()

    wait_for(lambda: all_sent() or not query.isActive)
    query.stop()
    assert query.exception() is None

    noted = notes(log)
    once = {one["key"]: one for one in reversed(noted)}  # the first call of each
    again = [one for one in noted if one is not once[one["key"]]]
    for one in again:
        assert batch_of(one) == batch_of(once[one["key"]])
    assert len(again) <= PARTITIONS * CONCURRENCY
    assert max(Counter(one["subject"] for one in again).values(), default=0) <= 1
    assert not any(one["late"] for one in noted)

    out = [batch_of(one) for one in noted if one is once[one["key"]]]
    built = plainly.batches(stream.fed(files), WINDOW, TIMEOUT)
    expected = [
        (s, start, end, [one["n"] for one in messages]) for s, start, end, messages in built
    ]
    assert plainly.by_subject(out) == plainly.by_subject(expected)
    assert sum(len(batch[3]) for batch in out) == 4 * SUBJECTS


def batch_of(note: dict[str, Any]) -> Any:
    """Return the batch that was sent, in the form of the builders."""
    return note["subject"], note["first"], note["last"], note["numbers"]
