"""Spark: rows to a model's API with three limits: calls a minute, tokens a minute and calls in
flight. Each batch is charged what it may cost at most, and settled when its answer says what it
has cost."""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat, lit, repeat

from dispatcher.spark import Context, LimiterConfig, dispatch
from limiters import InFlight, Limits, Rate
from limiters.embedded import EmbeddedRedis

LIMITS = Limits(
    requests=Rate(600, per=60, burst=60),
    tokens=Rate(90_000, per=60, burst=30_000),
    calls=InFlight(4),
)


def embed(rows: list[dict[str, str]], context: Context) -> None:
    """Stands for one call of the API, which says afterwards what it has charged."""
    tokens = sum(len(row["text"]) // 4 for row in rows)
    context.settle({"tokens": tokens})


def main() -> None:
    """Send 300 texts of 30 customers."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with EmbeddedRedis() as redis:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        texts = spark.range(300).select(
            concat(lit("customer "), col("id") % 30).alias("customer"),
            col("id").alias("at"),
            repeat(lit("word "), (col("id") % 40).cast("int") + 1).alias("text"),
        )
        done = dispatch(
            texts,
            embed,
            subject="customer",
            time="at",
            rows="dict",
            cost={"tokens": "length(text) / 2"},  # at most
            batch_cost={"requests": 1, "calls": 1},
            max_batch_cost={"tokens": 1_500},
            limiter=LimiterConfig(
                url=redis.url,
                name="model",
                shared_capacity=LIMITS,
                # A Redis that has just started grants nothing while leases may be in use.
                lease_time=1,
                max_interval=0.25,
            ),
            progress=False,
        )
        spark.stop()
    print(f"{done.sent_rows} rows in {done.calls} calls, charged {done.cost}")
    print("nothing lost:", done.sent_rows == 300)
    print("done")


if __name__ == "__main__":
    main()
