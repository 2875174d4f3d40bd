"""What all sinks have in common: what foreachBatch calls, once for each micro-batch."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.spark._ledger.claims import Place, QueryRun, Redis, SendClaim, finish
from dispatcher.spark._options import SinkOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.progress import Counter
from dispatcher.spark._task.sums import SCHEMA, together
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks._query import Stream, is_connect
from dispatcher.spark.sinks._replay import check_sequences
from dispatcher.spark.sinks._run_options import RunOptions
from limiters._support.callables import notify
from limiters._support.validation import (
    UNSHOWN,
    ArgumentError,
    in_seconds,
    seconds,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("dispatcher.spark")


@dataclass(frozen=True)
class Prepared:
    """A micro-batch, ready to be sent by the tasks of one action."""

    frame: DataFrame
    columns: Columns
    cut: Cut
    time_kind: str


class Sink:
    """The base of SubjectSink and EventTimeSink, which say what is sent in which order."""

    def __init__(self, sending: SinkOptions, how: RunOptions) -> None:
        self._sending = sending
        self._query = how.query
        self._checkpoint = how.checkpoint
        self._url = how.url(None if sending.limiter is None else sending.limiter.url)
        self._ledger = how.ledger
        self._prefix = how.prefix
        self._lease = seconds("lease_time", how.lease_time)
        self._remember = seconds("remember", how.remember)
        self._partitions = how.partitions
        self._on_micro_batch = how.on_micro_batch
        self._begin()

    def _begin(self) -> None:
        self._redis: Redis | None = None
        self._run = QueryRun()
        self._in_checkpoint: Stream | None = None
        self.last: MicroBatch | None = None
        """The last micro-batch that has ended. With Connect the sink lives in another process."""

    def __getstate__(self) -> dict[str, Any]:
        running = ("_redis", "_run", "_in_checkpoint", "last")
        return {name: value for name, value in vars(self).items() if name not in running}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Sends a micro-batch, and returns when all of it is acknowledged."""
        if self._ledger and is_connect(df) and self._checkpoint is None:
            raise ArgumentError(
                "checkpoint",
                UNSHOWN,
                "be given here, the same path as checkpointLocation: Spark Connect does not tell "
                "a sink whose micro-batch it is, and what was sent from one checkpoint must not "
                "be taken for sent from another",
            )
        self.send(df, batch_id)

    def send(self, df: DataFrame, batch_id: int, counter: Counter | None = None) -> MicroBatch:
        """The same; its tasks tell `counter` how far they are."""
        began = time.monotonic()
        stream = self._stream_of(df)
        query = self._query_name(stream)
        prepared = self._prepare(df)
        kind = prepared.time_kind
        claim = self._claim(query, stream, batch_id, kind) if self._ledger else None
        if claim is not None:
            check_sequences(
                prepared.frame, prepared.columns.sequence, claim, self._sending.patience
            )
        claimed = time.monotonic()
        job = TaskJob(
            self._sending.for_tasks(),
            prepared.columns,
            prepared.cut,
            kind,
            query,
            batch_id,
            claim,
            counter,
        )
        parts = prepared.frame.mapInArrow(job.run, SCHEMA).collect()
        sums = together(part.asDict() for part in parts)
        ended = time.monotonic()
        if claim is not None and self._redis is not None:
            told = {**sums, "micro_batches": 1, "seconds": ended - began}
            del told["longest_wait"]
            finish(self._redis, claim, told)
        summary = self._summary(query, stream, batch_id, sums, began, claimed, ended)
        self._tell(summary)
        return summary

    def _stream_of(self, df: DataFrame) -> Stream:
        if self._checkpoint is None or not is_connect(df):
            return Stream.of(df)
        if self._in_checkpoint is None:
            self._in_checkpoint = Stream.in_checkpoint(df, self._checkpoint)
        return self._in_checkpoint

    def _prepare(self, df: DataFrame) -> Prepared:
        """`df` in the order in which it is sent. ValueError if it lacks something."""
        raise NotImplementedError

    def _signature(self) -> str:
        """What decides in which order rows are sent, and where they are cut."""
        raise NotImplementedError

    def _query_name(self, stream: Stream) -> str:
        if self._query is not None:
            return self._query
        if not stream.query_id:
            if not self._ledger:
                return ""
            raise ArgumentError(
                "query",
                UNSHOWN,
                "be given here, a name that no other sink has: outside a stream there is none, "
                "and Spark Connect does not tell it",
            )
        if stream.name is None and self._ledger:
            raise ArgumentError(
                "query",
                UNSHOWN,
                "be given here, a name that no other sink has: the query's own is in the "
                "description of its jobs, in place of which there is another (setJobGroup or "
                "setJobDescription)",
            )
        return stream.name or stream.query_id

    def _claim(self, query: str, stream: Stream, batch_id: int, time_kind: str) -> SendClaim:
        assert self._url is not None
        place = Place(self._url, self._prefix, query, stream.query_id)
        if self._redis is None:
            self._redis = Redis(place, self._sending.patience)
        if stream.run_id and stream.run_id != self._run.token:
            self._run = QueryRun(stream.run_id)
        return self._run.claim(
            self._redis,
            place,
            batch_id,
            signature=self._signature(),
            time_kind=time_kind,
            lease=self._lease,
            remember=self._remember,
        )

    def _summary(
        self,
        query: str,
        stream: Stream,
        batch_id: int,
        sums: dict[str, float],
        began: float,
        claimed: float,
        ended: float,
    ) -> MicroBatch:
        limiter = self._sending.limiter
        used = None
        if limiter is not None and limiter.shared_capacity and ended > claimed:
            periods = (ended - claimed) / in_seconds(limiter.period)
            used = sums["cost"] / (limiter.shared_capacity * periods)
        begun = sums["batches"] or 1
        counts = {name: int(number) for name, number in sums.items()}
        return MicroBatch(
            query=query,
            query_id=stream.query_id,
            run_id=stream.run_id,
            batch_id=batch_id,
            rows=counts["rows"],
            batches=counts["batches"],
            sent_rows=counts["sent_rows"],
            replayed_rows=counts["replayed_rows"],
            late_rows=counts["late_rows"],
            rejected_rows=counts["rejected_rows"],
            held_rows=counts["held_rows"],
            retries=counts["retries"],
            throttled=counts["throttled"],
            cost=sums["cost"],
            waited=sums["waited"] / begun,
            longest_wait=sums["longest_wait"],
            seconds=ended - began,
            claiming=claimed - began,
            used=used,
        )

    def _tell(self, micro_batch: MicroBatch) -> None:
        self.last = micro_batch
        _log.info("%s", micro_batch, extra={"happening": "micro-batch", **micro_batch.as_dict()})
        if self._on_micro_batch is not None:
            try:
                notify(self._on_micro_batch, micro_batch)
            except Exception:
                facts = {"happening": "on-micro-batch-raised"}
                _log.exception(
                    "on_micro_batch raised; the micro-batch is sent all the same", extra=facts
                )
