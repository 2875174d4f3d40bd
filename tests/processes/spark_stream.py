"""A Spark query in a process of its own, to be killed: batches by event time, sent by a sink.

Arguments: the directory of a `Stream`, and the Redis. What is sent is noted in the directory.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from dispatcher.spark import EventTimeSink, event_time_batches
from tests.spark.handlers import notes, noting, take
from tests.spark.sessions import started
from tests.spark.streams import Stream

SCHEMA = "s string, k string, t bigint, n int"
WINDOW, TIMEOUT = 50, 2.5
STEP = functools.partial(
    event_time_batches, subject="s", key="k", time="t", window=WINDOW, timeout=TIMEOUT
)
PARTITIONS, CONCURRENCY = 2, 2
LOG, HOLD = "sent", "hold"
HELD = 10
"""After so many batches the handler does not return, as long as there is the file HOLD: it is
killed in its middle."""


def take_slowly(rows: Any, context: Any, *, path: str) -> None:
    """Notes the numbers of its rows, and returns unless it is held."""
    take(rows, context, path=path)
    while Path(path).with_name(HOLD).exists() and len(notes(Path(path))) >= HELD:
        time.sleep(0.02)


def sent(stream: Stream, redis: str) -> StreamingQuery:
    """Start the query, and return it."""
    sink = EventTimeSink(
        noting(take_slowly, stream.place / LOG),
        rows="dict",
        redis=redis,
        partitions=PARTITIONS,
        concurrency=CONCURRENCY,
        lease_time=1,
    )
    return (
        STEP(stream.read())
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(stream.checkpoint))
        .trigger(processingTime="50 milliseconds")
        .start()
    )


def run(place: Path, redis: str) -> None:
    """Runs until it is killed."""
    sent(Stream(started(), place, SCHEMA), redis).awaitTermination()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
