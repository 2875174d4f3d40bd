"""The base of all sinks, which foreachBatch calls once for each micro-batch."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dispatcher.spark._ledger.claims import Place, QueryRun, Redis, SendClaim, finish
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._options import DeliveryOptions, for_tasks
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.gating import GateSource
from dispatcher.spark._task.progress import Counter
from dispatcher.spark._task.sums import NAMES, actual_of, cost_of, schema, stored, together, used
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark.micro_batch import MicroBatch
from dispatcher.spark.sinks._job_description import described, description
from dispatcher.spark.sinks._query import Stream, is_connect
from dispatcher.spark.sinks._replay import check_sequences
from dispatcher.spark.sinks._run_options import StreamOptions
from limiters._redis.url import checked
from limiters._support.callables import notify
from limiters._support.validation import UNSHOWN, ArgumentError, in_seconds, named
from limiters.limits import Limits

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
    gate: GateSource | None = None
    packs: Division | None = None
    """How subjects share batches; None: each subject has batches of its own."""


@dataclass
class RunningSink:
    """The state of a sink from one micro-batch to the next. It is never sent to another process."""

    redis: Redis | None = None
    run: QueryRun = field(default_factory=QueryRun)
    in_checkpoint: Stream | None = None
    last: MicroBatch | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sink(StreamOptions, DeliveryOptions):
    """The base of sinks. Subclasses decide which rows are sent in which order."""

    _running: RunningSink = field(init=False, default_factory=RunningSink)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ledger and self._url is None:
            raise ArgumentError(
                "redis",
                UNSHOWN,
                "say where it is kept what was sent, such as redis://host:6379/0",
                "or give a limiter with a url, or ledger=False to send everything again in a "
                "replay",
            )
        if self._url is not None:
            with named({"url_or_client": "redis"}):
                checked(self._url)

    @property
    def last(self) -> MicroBatch | None:
        """The last micro-batch that has ended. It is None with Connect, where another process
        sends."""
        return self._running.last

    @property
    def _url(self) -> str | None:
        return self.redis or (None if self.limiter is None else self.limiter.url)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_running"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _running=RunningSink())

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Send a micro-batch, and return when all of it is acknowledged."""
        if self.ledger and is_connect(df) and self.checkpoint is None:
            raise ArgumentError(
                "checkpoint",
                UNSHOWN,
                "be given here, the same path as checkpointLocation: Spark Connect does not "
                "show a sink which query a micro-batch belongs to, and what was sent from one "
                "checkpoint must not be taken for sent from another",
            )
        self.send(df, batch_id)

    def send(self, df: DataFrame, batch_id: int, counter: Counter | None = None) -> MicroBatch:
        """Send a micro-batch as the sink does when it is called, and return its results. Tasks
        report their progress to `counter`."""
        began = time.monotonic()
        stream = self._stream_of(df)
        query = self._query_name(stream)
        division = self._division(df)
        prepared = self._prepare(df, division)
        kind, claim = prepared.time_kind, None
        if self.ledger:
            claim = self._claim(query, stream, batch_id, kind, division)
            if claim.division != division:  # a replay keeps the division
                division = claim.division
                prepared = self._prepare(df, division)
        if claim is not None:
            check_sequences(
                prepared.frame, prepared.columns.sequence, claim, in_seconds(self.patience)
            )
        claimed = time.monotonic()
        job = TaskJob(
            sending=for_tasks(self),
            columns=prepared.columns,
            cut=prepared.cut,
            time_kind=kind,
            query=query,
            batch=batch_id,
            claim=claim,
            counter=counter,
            gate=prepared.gate,
            division=prepared.packs,
        )
        with described(df, description(type(self).__name__, query, batch_id, self.last)):
            parts = prepared.frame.mapInArrow(job.run, schema(job.dimensions)).collect()
        sums = together(part.asDict() for part in parts)
        ended = time.monotonic()
        if claim is not None and self._running.redis is not None:
            totals = {**stored(sums), "micro_batches": 1, "seconds": ended - began}
            finish(self._running.redis, claim, totals)
        summary = self._summary(query, stream, batch_id, sums, began, claimed, ended)
        self._report(summary)
        return summary

    def _stream_of(self, df: DataFrame) -> Stream:
        if self.checkpoint is None or not is_connect(df):
            return Stream.of(df)
        if self._running.in_checkpoint is None:
            self._running.in_checkpoint = Stream.in_checkpoint(df, self.checkpoint)
        return self._running.in_checkpoint

    def _division(self, df: DataFrame) -> Division | None:
        """Return how `df` is divided, unless it is a replay; None: each batch has one subject."""
        return None

    def _prepare(self, df: DataFrame, division: Division | None) -> Prepared:
        """Return `df` in the order in which it is sent. ValueError if it cannot be sent."""
        raise NotImplementedError

    def _signature(self) -> str:
        """Return a text of the options that decide in which order rows are sent and where they are
        cut."""
        raise NotImplementedError

    def _query_name(self, stream: Stream) -> str:
        if self.query is not None:
            return self.query
        if not stream.query_id:
            if not self.ledger:
                return ""
            raise ArgumentError(
                "query",
                UNSHOWN,
                "be given here, a name that no other sink has: outside a stream there is none, "
                "and Spark Connect does not show it",
            )
        if stream.name is None and self.ledger:
            raise ArgumentError(
                "query",
                UNSHOWN,
                "be given here, a name that no other sink has: the query's own is in the "
                "description of its jobs, in place of which there is another (setJobGroup or "
                "setJobDescription)",
            )
        return stream.name or stream.query_id

    def _claim(
        self, query: str, stream: Stream, batch_id: int, time_kind: str, division: Division | None
    ) -> SendClaim:
        assert self._url is not None
        place = Place(self._url, self.prefix, query, stream.query_id)
        if self._running.redis is None:
            self._running.redis = Redis(place, in_seconds(self.patience))
        if stream.run_id and stream.run_id != self._running.run.token:
            self._running.run = QueryRun(stream.run_id)
        return self._running.run.claim(
            self._running.redis,
            place,
            batch_id,
            signature=self._signature(),
            time_kind=time_kind,
            lease=in_seconds(self.lease_time),
            remember=in_seconds(self.remember),
            division=division,
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
        cost = cost_of(sums)
        part = None
        if self.limiter is not None and self.limiter.shared_capacity:
            shared = Limits.of(self.limiter.shared_capacity, in_seconds(self.limiter.period))
            mean = sums["handling"] / (sums["calls"] or 1)
            part = used(shared, actual_of(sums), ended - claimed, mean)
        counts = {name: int(sums[name]) for name in NAMES}
        return MicroBatch(
            query=query,
            query_id=stream.query_id,
            run_id=stream.run_id,
            batch_id=batch_id,
            rows=counts["rows"],
            batches=counts["batches"],
            calls=counts["calls"],
            sent_rows=counts["sent_rows"],
            replayed_rows=counts["replayed_rows"],
            late_rows=counts["late_rows"],
            rejected_rows=counts["rejected_rows"],
            held_rows=counts["held_rows"],
            retries=counts["retries"],
            throttled=counts["throttled"],
            cost=cost,
            waited=sums["waited"] / (sums["batches"] or 1),
            longest_wait=sums["longest_wait"],
            handling=sums["handling"] / (sums["calls"] or 1),
            seconds=ended - began,
            claiming=claimed - began,
            used=part,
        )

    def _report(self, micro_batch: MicroBatch) -> None:
        self._running.last = micro_batch
        _log.info("%s", micro_batch, extra={"happening": "micro-batch", **micro_batch.as_dict()})
        if self.on_micro_batch is not None:
            try:
                notify(self.on_micro_batch, micro_batch)
            except Exception:
                facts = {"happening": "on-micro-batch-raised"}
                _log.exception("on_micro_batch raised; the micro-batch has been sent", extra=facts)
