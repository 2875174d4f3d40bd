"""A stream of measurements, sent in order for each device, by all executors under one limit.

Each Python worker of an executor takes its part of a micro-batch: the rows of a device, in order
of time, one batch after the other; as fast as the limit allows that all of them share through
Redis. What was acknowledged is written down there, so that a replay sends only the rest.

Needs the extras `spark` and `embedded`, and Java 17. It ends by itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

from dispatcher.spark import Context, LimiterConfig, SubjectSink
from limiters.embedded import EmbeddedRedis


def send(rows: list[Any], context: Context) -> None:
    """Where the datastore would be called. `context.key` is the same if a batch comes again."""
    print(f"device {context.subject}: {len(rows)} rows from {rows[0].at} on", flush=True)


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    with EmbeddedRedis() as redis, tempfile.TemporaryDirectory() as folder:
        measurements = spark.range(1_000).selectExpr(
            "cast(id % 5 as string) as device",
            "timestamp_seconds(1767225600 + id) as at",
            "id as value",
        )
        measurements.write.json(f"{folder}/measurements")
        stream = spark.readStream.schema(measurements.schema).json(f"{folder}/measurements")

        sink = SubjectSink(
            send,
            subject="device",
            time="at",
            max_batch_size=100,
            cost=10,  # request units a row
            limiter=LimiterConfig(
                url=redis.url,
                name="datastore",
                shared_capacity=20_000,
                factor=1_000,
                # Shorter than as a rule: a Redis that has just started grants nothing for as long
                # as leases may be out that it has forgotten.
                lease_time=1,
                max_interval=0.25,
            ),
            on_micro_batch=print,  # on the driver, after each
        )
        query = (
            stream.writeStream.foreachBatch(sink)
            .queryName("measurements")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()
    print("done")


if __name__ == "__main__":
    main()
