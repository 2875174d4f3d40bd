"""Whose micro-batch it is, as far as Spark tells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    name: str = ""

    @classmethod
    def of(cls, df: DataFrame) -> Stream:
        """The stream that `df` is a micro-batch of."""
        if is_connect(df):
            return cls()
        tell: Any = df.sparkSession.sparkContext.getLocalProperty
        query_id = tell("sql.streaming.queryId")
        if not query_id:
            return cls()
        # A query's name is the first line of what its jobs are called; if it has one.
        name = (tell("spark.job.description") or "").partition("\n")[0]
        unnamed = name.startswith("id = ")
        return cls(query_id, tell("spark.jobGroup.id") or "", "" if unnamed else name)

    @classmethod
    def in_checkpoint(cls, df: DataFrame, path: str) -> Stream:
        """The stream that `path` is the checkpoint of."""
        try:
            (row,) = df.sparkSession.read.text(f"{path.rstrip('/')}/metadata").collect()
            return cls(str(json.loads(row[0])["id"]))
        except Exception as error:
            raise ValueError(
                f"checkpoint={path!r} holds no metadata of a query ({error}); give the same path "
                "as the option checkpointLocation"
            ) from error
