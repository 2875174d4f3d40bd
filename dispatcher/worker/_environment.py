"""What the parts of one worker share and none of them owns."""

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
    """Made before the parts, and passed down to them: no part receives the worker itself."""

    timeline: Timeline
    consumer: Consumer
    holds: Holds
    totals: WorkerTotals
    failed: Callable[[BaseException], None]
    """Ends the worker: its own code has failed."""
    concurrency: int
    """How many batches may be in the handler at once."""
    batch_size: int
    lease_time: float

    def outage(self, logger: logging.Logger) -> Outage:
        """What one thread has to say of the Redis of its topic."""
        topic = self.timeline.topic
        return Outage(logger, self.timeline.where, f"topic {topic}", topic=topic)
