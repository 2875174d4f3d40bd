"""The state that the parts of one worker share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from dispatcher.timeline import Consumer, Timeline
from dispatcher.worker._messages import Holds
from dispatcher.worker.totals import WorkerTotals
from limiters._redis.outages import Outage


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnvironment:
    """Created before the parts, and passed to them: no part receives the worker itself."""

    timeline: Timeline
    consumer: Consumer
    holds: Holds
    totals: WorkerTotals
    failed: Callable[[BaseException], None]
    """Ends the worker, because its own code has failed."""
    concurrency: int
    """How many batches may be in the handler at the same time."""
    batch_size: int
    lease_time: float

    def outage(self, logger: logging.Logger) -> Outage:
        """Return the log of Redis outages for one thread."""
        topic = self.timeline.topic
        return Outage(logger, self.timeline.where, f"topic {topic}", topic=topic)
