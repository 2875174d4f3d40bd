"""Starts Spark for the tests, in their own process and in those that they kill."""

from __future__ import annotations

from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def started() -> SparkSession:
    """Return a session on two cores."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "Europe/Berlin")
        # `Stream` reads from the checkpoint when rows were fed; by default Spark keeps the last
        # 100.
        .config("spark.sql.streaming.minBatchesToRetain", "10000")
        .getOrCreate()
    )
