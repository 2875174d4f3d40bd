"""The description that Spark's UI shows for the jobs of a micro-batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks._query import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DESCRIPTION = "spark.job.description"


@contextlib.contextmanager
def described(df: DataFrame, text: str) -> Iterator[None]:
    """Add `text` to the description of the jobs of `df`, until the end of the block.

    The job group stays as it is: Spark stops a query by cancelling the group. With Connect, which
    has no descriptions, nothing is done.
    """
    if is_connect(df):
        yield
        return
    context: Any = df.sparkSession.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"{before}\n{text}" if before else text)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # the error that ended Spark is more useful
            context.setLocalProperty(_DESCRIPTION, before)


def description(sink: str, query: str, batch_id: int, last: MicroBatch | None) -> str:
    """Return what a sink of the class `sink` does now, with the results of the micro-batch before.

    >>> description("SubjectSink", "orders", 7, None)
    'SubjectSink sends orders #7'
    """
    now = f"{sink} sends {query} #{batch_id}"
    return now if last is None else f"{now}\nbefore: {last}"
