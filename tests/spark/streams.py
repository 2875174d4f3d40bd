"""Streams whose micro-batches a test decides: each file is one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

Step = Callable[[DataFrame], DataFrame]


LONG = 600
"""Tenths of a second after which a test gives up."""


class Crash(Exception):
    """What a test has a micro-batch raise."""


class Stream:
    """Files in, and what came out of a step, by micro-batch."""

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
        """Each becomes a file, after those that are there."""
        for rows in micro_batches:
            number = len(list(self.rows_at.iterdir()))
            path = self.place / "unfinished"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (1_000_000 + number,) * 2)
            path.rename(self.rows_at / f"{number:04}.json")
        return self

    def read(self) -> DataFrame:
        """The files, one a micro-batch."""
        files = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return files.json(str(self.rows_at))

    def start(self, step: Step, **trigger: Any) -> StreamingQuery:
        """Runs the step; every file once and then to its end, unless told another trigger."""
        self.query = (
            step(self.read())
            .writeStream.foreachBatch(self._see)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        return self.query

    def run(self, step: Step) -> list[Row]:
        """Every file that is there; what came out, in order."""
        before = len(self.seen)
        self.start(step).awaitTermination()
        return [row for _, rows in self.seen[before:] for row in rows]

    def run_until(self, step: Step, condition: Callable[[], bool]) -> None:
        """On and on, with empty micro-batches too, until then."""
        query = self.start(step, processingTime="50 milliseconds")
        try:
            for _ in range(LONG):
                if condition() or query.awaitTermination(0.1):
                    break
            else:
                raise AssertionError("it never came about")
        finally:
            query.stop()
        if query.exception() is not None:
            raise AssertionError(query.exception())

    def _see(self, rows: DataFrame, number: int) -> None:
        if number == self.crash_at:
            raise Crash
        self.seen.append((number, rows.collect()))

    @property
    def out(self) -> list[Row]:
        """All that came out; a micro-batch that was replayed counts once."""
        return [row for _, rows in sorted(dict(self.seen).items()) for row in rows]

    def micro_batches(self) -> list[tuple[int, int]]:
        """Number and processing time (in milliseconds) of each that was finished."""
        found = []
        for path in (self.checkpoint / "commits").iterdir():
            if path.name.isdigit():
                offsets = (self.checkpoint / "offsets" / path.name).read_text().splitlines()
                found.append((int(path.name), json.loads(offsets[1])["batchTimestampMs"]))
        return sorted(found)
