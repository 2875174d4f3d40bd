"""Laws K1, K3 and K4 without a fault: a query that is stopped in the middle of a micro-batch.

`make long` does the same in drivers of their own: tests/acceptance/test_spark_faults.py.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from limiters.embedded import EmbeddedRedis
from tests.acceptance.spark_runs import SIZES, Scene, judge
from tests.processes.spark_sink import Setting, query


def test_k1_k3_k4_a_slow_handler_is_given_each_batch_once_also_over_a_restart(
    spark: SparkSession, shared_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    setting = Setting(
        redis=shared_redis.url,
        source=str(source),
        checkpoint=str(tmp_path / "checkpoint"),
        log=str(tmp_path / "log"),
        slow=0.2,
    )
    scene = Scene(setting, SIZES)
    scene.more(1)
    running = query(spark, setting)
    running.processAllAvailable()
    scene.more(1)
    # What is in flight ends, is written down, and is not sent again.
    scene.wait_for_batches(20)
    running.stop()
    again = query(spark, setting)
    again.processAllAvailable()
    again.stop()
    judge(scene, killed=0)
