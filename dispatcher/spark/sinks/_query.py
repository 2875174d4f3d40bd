"""Whose micro-batch it is, as far as Spark tells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limiters._support.validation import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def is_connect(df: DataFrame) -> bool:
    """Whether it is one of Spark Connect, which has no context to be asked."""
    session: Any = df.sparkSession
    try:
        return not hasattr(session.sparkContext, "getLocalProperty")
    except Exception:
        return True


@dataclass(frozen=True, slots=True)
class Stream:
    """A query and its run. Outside a stream all is empty."""

    query_id: str = ""
    """It stays the same as long as the checkpoint does."""
    run_id: str = ""
    name: str | None = ""
    """None: it cannot be known, nor which run it is."""

    @classmethod
    def of(cls, df: DataFrame) -> Stream:
        """The stream that `df` is a micro-batch of."""
        if is_connect(df):
            return cls()
        tell: Any = df.sparkSession.sparkContext.getLocalProperty
        query_id = tell("sql.streaming.queryId")
        if not query_id:
            return cls()
        # Only the description of its jobs tells a query's name, before its id. Who has put another
        # in its place may have put another group in place of the run as well.
        described = tell("spark.job.description") or ""
        name, found, _ = described.rpartition(f"id = {query_id}\n")
        if not found:
            return cls(query_id, name=None)
        return cls(query_id, tell("spark.jobGroup.id") or "", name.removesuffix("\n"))

    @classmethod
    def in_checkpoint(cls, df: DataFrame, path: str) -> Stream:
        """The stream that `path` is the checkpoint of."""
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
