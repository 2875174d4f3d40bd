"""Spark: a device's measurements, gathered by the time at which they were made. Open batches live
in the query's checkpoint: the query is stopped in between, and goes on as if it had not been."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dispatcher.spark import event_time_batches, flush_open_batches

COLUMNS: dict[str, Any] = {"subject": "device", "key": "metric", "time": "at"}
DELIVERED = [
    [("pump", "pressure", 100, 110), ("pump", "flow", 115, 120), ("fan", "speed", 90, 121)],
    [("pump", "flow", 115, 122), ("pump", "heat", 145, 150)],  # the first one again
    [("pump", "heat", 155, 210), ("pump", "flow", 149, 225)],  # the second one late
]


def show(batches: DataFrame) -> None:
    """Stands for sending them in foreachBatch."""
    for batch in batches.orderBy("subject", "start").collect():
        told = ", ".join(f"{one.metric} at {one.at}" for one in batch.messages)
        print(f"{batch.subject} from {batch.start} to {batch.end}: {told}")


def main() -> None:
    """Deliver three times, with a run of the query after each."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as directory:
        rows, checkpoint = Path(directory, "rows"), str(Path(directory, "checkpoint"))
        rows.mkdir()
        schema = "device string, metric string, at bigint, arrival bigint"
        readings = spark.readStream.schema(schema).json(str(rows))
        batches = event_time_batches(readings, **COLUMNS, window=50, timeout=100, arrival="arrival")
        for number, delivery in enumerate(DELIVERED):
            lines = [json.dumps(dict(zip(readings.columns, one, strict=True))) for one in delivery]
            (rows / f"{number}.json").write_text("\n".join(lines))
            query = (
                batches.writeStream.foreachBatch(lambda closed, _: show(closed))
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        print("still open:")
        show(flush_open_batches(readings, checkpoint, **COLUMNS))
    spark.stop()
    print("done")


if __name__ == "__main__":
    main()
