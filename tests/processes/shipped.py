"""A program as a user writes it, for `spark-submit`: it finds nothing of this project but what was
shipped. Sends all there is, and ends.

Its argument is a JSON object: `redis`, `source`, `checkpoint`, `log` and `modules`, a file that
gets a line for each process: where it has found this project. With `remote` and `archive` it is a
client of Spark Connect that brings its packages along.
"""

import functools
import json
import os
import sys
import time

from pyspark.sql import SparkSession

import dispatcher
from dispatcher.spark import Context, LimiterConfig, SubjectSink


def send(rows: list, context: Context, *, told: dict) -> None:  # type: ignore[type-arg]
    """Stands for a call of an API."""
    append(told["modules"], dispatcher.__file__)
    for what in ("began", "ended"):
        for one in context.subjects:
            noted = {
                "what": what,
                "when": time.monotonic(),
                "pid": os.getpid(),
                "subject": one.subject,
                "batch": context.batch_id,
                "key": one.key,
                "call": context.key,
                "late": one.late,
                "seqs": [rows[one.start]["seq"], rows[one.end - 1]["seq"], one.end - one.start],
            }
            append(told["log"], json.dumps(noted))


def append(path: str, line: str) -> None:
    """One line, in one piece."""
    with open(path, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def main() -> None:
    """One run of the query."""
    told = json.loads(sys.argv[1])
    if told.get("remote"):
        spark = SparkSession.builder.remote(told["remote"]).getOrCreate()
        spark.addArtifacts(told["archive"], pyfile=True)
    else:
        spark = SparkSession.builder.getOrCreate()
    sink = SubjectSink(
        functools.partial(send, told=told),
        subject="subject",
        time="at",
        rows="dict",
        max_batch_size=10,
        partitions=2,
        query="measurements",
        checkpoint=told["checkpoint"],
        limiter=LimiterConfig(
            url=told["redis"], name="orders", shared_capacity=4_000, factor=200, lease_time=2.0
        ),
    )
    rows = spark.readStream.schema("subject string, seq long, at timestamp").json(told["source"])
    query = (
        rows.writeStream.foreachBatch(sink)
        .option("checkpointLocation", told["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
