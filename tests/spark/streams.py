"""Streams whose micro-batches a test decides: each one is a file."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Step = Callable[[DataFrame], DataFrame]
_1970 = datetime(1970, 1, 1, tzinfo=UTC)

LONG = 240
"""Seconds after which a test fails."""


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; Spark has no event for it."""
    step = threading.Event()
    for _ in range(LONG * 50):
        if condition():
            return
        step.wait(0.02)
    raise AssertionError("the condition never held")


class CrashError(Exception):
    """The error that a test raises in a micro-batch."""


class Stream:
    """Files as input, and the rows that came out of a step, by micro-batch."""

    def __init__(self, spark: SparkSession, place: Path, schema: str) -> None:
        self.spark = spark
        self.place = place
        self.rows_at = place / "rows"
        self.checkpoint = place / "checkpoint"
        self.rows_at.mkdir(exist_ok=True)
        self.schema = schema
        self.seen: list[tuple[int, list[Row]]] = []
        self.crash_at: int | None = None
        self.query: StreamingQuery | None = None

    def write(self, *micro_batches: Iterable[dict[str, Any]]) -> Stream:
        """Write each micro-batch as a file after the existing ones."""
        for rows in micro_batches:
            number = len(list(self.rows_at.iterdir()))
            path = self.place / "unfinished"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (1_000_000 + number,) * 2)
            path.rename(self.rows_at / f"{number:04}.json")
        return self

    def read(self) -> DataFrame:
        """Return a stream of the files, one for each micro-batch."""
        files = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return files.json(str(self.rows_at))

    def start(self, step: Step, **trigger: Any) -> StreamingQuery:
        """Run the step: each file once and then to the end, unless another trigger is given."""
        self.query = (
            step(self.read())
            .writeStream.foreachBatch(self._see)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        return self.query

    def run(self, step: Step) -> list[Row]:
        """Run the step over every file. Return the rows that came out, in order."""
        before = len(self.seen)
        self.start(step).awaitTermination()
        return [row for _, rows in self.seen[before:] for row in rows]

    def run_until(self, step: Step, condition: Callable[[], bool]) -> None:
        """Run the step, also with empty micro-batches, until the condition holds."""
        query = self.start(step, processingTime="50 milliseconds")
        try:
            wait_for(lambda: condition() or not query.isActive)
        finally:
            query.stop()
        if query.exception() is not None:
            raise AssertionError(query.exception())

    def _see(self, rows: DataFrame, number: int) -> None:
        if number == self.crash_at:
            raise CrashError
        self.seen.append((number, rows.collect()))

    @property
    def out(self) -> list[Row]:
        """All rows that came out of finished micro-batches; one that was replayed counts once."""
        seen = dict(self.seen)
        return [row for number in self.finished() for row in seen.get(number, [])]

    def count(self, step: str, what: str) -> int:
        """Return the sum of a step's count in the progress reports of the latest query."""
        assert self.query is not None
        return sum(one["observedMetrics"][step][what] for one in self.query.recentProgress)

    def finished(self) -> list[int]:
        """Return the numbers of the finished micro-batches."""
        commits = self.checkpoint / "commits"
        names = (path.name for path in commits.iterdir()) if commits.exists() else ()
        return sorted(int(name) for name in names if name.isdigit())

    def fed(self, files: list[list[dict[str, Any]]]) -> list[tuple[list[dict[str, Any]], datetime]]:
        """Return the rows and the processing time of each finished micro-batch."""
        found = []
        before = -1
        for number in self.finished():
            rows: list[dict[str, Any]] = []
            lines = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()
            until = json.loads(lines[2])["logOffset"]
            for file in files[before + 1 : until + 1]:
                rows += file
            before = until
            began = timedelta(milliseconds=json.loads(lines[1])["batchTimestampMs"])
            found.append((rows, _1970 + began))
        return found
