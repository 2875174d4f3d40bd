"""Spark: a stream of measurements into a store with a limit, each meter's in order of time, many
meters in a batch, at the pace that all executors share. The query is stopped and started; what was
sent is not sent again."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dispatcher.spark import Context, LimiterConfig, MicroBatch, SubjectSink
from limiters.embedded import EmbeddedRedis


def send(rows: list[dict[str, Any]], context: Context) -> None:
    """Stands for one call of the store. It runs on the executors, and has to open connections
    there."""
    path = Path(os.environ["SENT_TO"], context.key)  # a key that is the same in every replay
    meters = {one.subject: rows[one.start : one.end] for one in context.subjects}
    times = {meter: [row["at"] for row in mine] for meter, mine in meters.items()}
    path.write_text(json.dumps(times))


def run(readings: DataFrame, checkpoint: str, redis: str) -> None:
    """Run the query once, for all available rows."""
    sink = SubjectSink(
        send,
        subject="meter",
        time="at",
        cost=10,  # the cost of a row
        max_batch_size=40,
        rows="dict",
        limiter=LimiterConfig(
            url=redis,
            name="store",
            shared_capacity=20_000,
            factor=500,
            # A Redis that has just started grants nothing while leases may be in use.
            lease_time=1,
            max_interval=0.25,
        ),
        query="measurements",
        on_micro_batch=tell,
    )
    query = (
        readings.writeStream.foreachBatch(sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def tell(done: MicroBatch) -> None:
    """Print the result of a micro-batch."""
    print(f"{done.rows} rows in {done.batches} batches, sent {done.sent_rows}")


def main() -> None:
    """Deliver twice, with a run of the query after each."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as directory, EmbeddedRedis() as redis:
        rows, sent = Path(directory, "rows"), Path(directory, "sent")
        rows.mkdir()
        sent.mkdir()
        os.environ["SENT_TO"] = str(sent)  # before Spark starts: its workers inherit it
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        readings = spark.readStream.schema("meter string, at bigint").json(str(rows))
        for number in range(2):
            times = range(number * 50, number * 50 + 50)
            lines = [json.dumps({"meter": f"m{at % 3}", "at": at}) for at in reversed(times)]
            (rows / f"{number}.json").write_text("\n".join(lines))
            run(readings, str(Path(directory, "checkpoint")), redis.url)
        spark.stop()
        batches = [json.loads(path.read_text()) for path in sent.iterdir()]
    sequences: list[list[int]] = [one for meters in batches for one in meters.values()]
    print("nothing lost:", sorted(at for one in sequences for at in one) == list(range(100)))
    print("in order:", all(one == sorted(one) for one in sequences))
    print("done")


if __name__ == "__main__":
    main()
