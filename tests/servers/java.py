"""How Spark's Java machines start quickly: none of the tests' lives long enough for what optimises
its code to be worth its time, and each would load and check some twelve thousand classes of its
jars again. `python -m tests.servers.java` writes these to an archive that all of them share; `make`
does it once. Without it all runs as well, and later.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.waiting import until

ARCHIVE = Path(sys.prefix) / "spark.jsa"

BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# An archive that does not fit, of another Java for example, is passed over: no word of it may stand
# in what a program reads from the other's output.
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
OPTIONS = f"{BRIEF} -XX:SharedArchiveFile={ARCHIVE} {SILENT}" if ARCHIVE.exists() else BRIEF
"""Options for the environment variable JDK_JAVA_OPTIONS."""

OF_EXECUTORS = (
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.deploy.client.StandaloneAppClient",
)
"""Programs that a driver does not run."""


def write(archive: Path) -> None:
    """Has a driver do what those of the tests do; it writes the classes that it has loaded when it
    ends."""
    os.environ["JDK_JAVA_OPTIONS"] = f"{BRIEF} {SILENT}"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # pyspark starts the driver by a program in Java, which is to write none.
    options = f"-XX:ArchiveClassesAtExit={archive}"
    from pyspark import SparkContext

    from tests.spark.sessions import started

    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options {options} pyspark-shell"
    spark = started()
    with tempfile.TemporaryDirectory() as folder:
        _stream(spark, Path(folder))
    gateway: Any = SparkContext._gateway
    for name in OF_EXECUTORS:
        gateway.jvm.java.lang.Class.forName(name)
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(600)


def _stream(spark: Any, folder: Path) -> None:
    """A query with a state, whose batches are sent."""
    from dispatcher.spark import event_time_batches

    source = folder / "source"
    source.mkdir()
    rows = [{"s": f"s{n % 3}", "k": f"k{n}", "t": 20 * n, "n": n} for n in range(30)]
    (source / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = spark.readStream.schema("s string, k string, t bigint, n int").json(str(source))

    def send(batch: Any, number: int) -> None:
        batch = batch.repartition(2, "subject").sortWithinPartitions("subject")
        batch.mapInArrow(lambda tables: tables, batch.schema).collect()
        batch.write.mode("overwrite").parquet(str(folder / "sent"))

    step = event_time_batches(read, subject="s", key="k", time="t", window=50, timeout=1)
    query = step.writeStream.foreachBatch(send)
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    running = query.trigger(processingTime="50 milliseconds").start()
    until((folder / "sent" / "_SUCCESS").exists, within=240)
    running.stop()


if __name__ == "__main__":
    unfinished = ARCHIVE.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    write(unfinished)
    unfinished.rename(ARCHIVE)
