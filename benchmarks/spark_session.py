"""The Spark session for benchmarks: two cores, and without what is only for people to see."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.servers import pypi_java

IN_ONE_PROCESS = "local[2]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"
"""Two executors, each a process with one core."""


@contextmanager
def spark_session(master: str = IN_ONE_PROCESS) -> Iterator[SparkSession]:
    """Run one session until the end of the block. Its Python workers use this interpreter."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    pypi_java.provide()
    spark = (
        SparkSession.builder.master(master)
        .config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parents[1]))
        .config("spark.executor.memory", "512m")
        # Do not begin with one executor alone.
        .config("spark.cores.max", "2")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()
