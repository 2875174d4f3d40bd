"""Finds the query and the run of a micro-batch, as far as Spark shows them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limiters._support.validation import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def is_connect(df: DataFrame) -> bool:
    """Whether `df` is a DataFrame of Spark Connect, which has no SparkContext."""
    session: Any = df.sparkSession
    try:
        return not hasattr(session.sparkContext, "getLocalProperty")
    except Exception:
        return True


@dataclass(frozen=True, slots=True)
class Stream:
    """A query and its run. All fields are empty outside a stream."""

    query_id: str = ""
    """The id of the query, which stays the same as long as the checkpoint does."""
    run_id: str = ""
    name: str | None = ""
    """The name of the query; None: neither the name nor the run can be found."""

    @classmethod
    def of(cls, df: DataFrame) -> Stream:
        """Return the stream whose micro-batch `df` is."""
        if is_connect(df):
            return cls()
        read: Any = df.sparkSession.sparkContext.getLocalProperty
        query_id = read("sql.streaming.queryId")
        if not query_id:
            return cls()
        # Only the description of the jobs has the query's name, before its id. A user who has
        # replaced the description may have replaced the job group, which is the run's id, as well.
        described = read("spark.job.description") or ""
        name, found, _ = described.rpartition(f"id = {query_id}\n")
        if not found:
            return cls(query_id, name=None)
        return cls(query_id, read("spark.jobGroup.id") or "", name.removesuffix("\n"))

    @classmethod
    def in_checkpoint(cls, df: DataFrame, path: str) -> Stream:
        """Return the stream whose checkpoint is at `path`."""
        try:
            (row,) = df.sparkSession.read.text(f"{path.rstrip('/')}/metadata").collect()
            return cls(str(json.loads(row[0])["id"]))
        except Exception as error:
            raise ArgumentError(
                "checkpoint",
                path,
                "hold the metadata of a query",
                f"give the same path as the option checkpointLocation ({error})",
            ) from error
