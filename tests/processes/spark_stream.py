"""A Spark query in a process of its own, to be killed: batches by event time, into files.

Arguments: the directory of a `Stream`. Each micro-batch that gave batches leaves one file.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from dispatcher.spark import event_time_batches
from tests.spark.sessions import started
from tests.spark.streams import Stream

SCHEMA = "s string, k string, t bigint, n int"
WINDOW, TIMEOUT = 50, 2.5
STEP = functools.partial(
    event_time_batches, subject="s", key="k", time="t", window=WINDOW, timeout=TIMEOUT
)


def run(place: Path) -> None:
    """Runs until it is killed."""

    def write(batches: DataFrame, number: int) -> None:
        told = [
            [row.subject, row.start, row.end, [m.asDict() for m in row.messages], row.id]
            for row in batches.collect()
        ]
        unfinished = place / f"unfinished {number}"
        unfinished.write_text(json.dumps(told))
        unfinished.rename(place / "out" / f"{number}.json")

    stream = Stream(started(), place, SCHEMA)
    query = (
        STEP(stream.read())
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(stream.checkpoint))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
