"""What a Batcher shows: its totals and its state as they are, and four distributions."""

from __future__ import annotations

import logging
import time
import weakref
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from dispatcher.batch import Batch
from dispatcher.batcher import Batcher, State
from dispatcher.metrics import names
from dispatcher.metrics.arrivals import Arrivals
from dispatcher.metrics.limits import ForeignLimiterPart
from dispatcher.metrics.parts import ExemplarOf, Options, Part, instrumentable, parts_of
from dispatcher.metrics.readings import Exemplar, Reading
from dispatcher.operation import Operation, ticket_of
from limiters.distribution import Distribution
from limiters.limiter import RateLimiter
from limiters.provisioned import ProvisionedResource
from limiters.shared import SharedResource

_log = logging.getLogger("dispatcher.metrics")

LONGEST_EXEMPLAR = 128
"""Characters of names and values together, as OpenMetrics has it."""


class Watch:
    """The Observer: notes what a Batcher does not know afterwards. A microsecond or two a batch."""

    def __init__(self, options: Options) -> None:
        self.size = Distribution(names.BATCH_SIZE.bounds)
        self.cost = Distribution(options.cost_bounds or names.BATCH_COST.bounds)
        self.wait = Distribution(names.OPERATION_WAIT.bounds)
        self.callback = Distribution(names.CALLBACK.bounds)
        self.exemplars: dict[int, Exemplar] = {}
        self._exemplar = options.exemplar
        self._arrivals = Arrivals()

    def came_in(self, newest: int, waited: bool, now: float) -> None:
        """See dispatcher.observed.Observer; and so for the others."""
        self._arrivals.note(newest, waited, now)

    def raised(self, batch: Batch, now: float) -> None:
        operations, arrival = batch.operations, self._arrivals.at
        count = len(operations)
        self.size.note(count)
        self.cost.note(batch.cost)
        # Those between the oldest and the last have come in between, more or less evenly.
        longest = now - arrival(batch.sequence)
        shortest = now - arrival(ticket_of(operations[-1]))
        self.wait.note_spread(shortest if shortest < longest else longest, longest, count)

    def returned(self, batch: Batch, seconds: float) -> None:
        self.callback.note(seconds)
        if self._exemplar is not None and batch.operations:
            self._note_exemplar(self._exemplar, batch.operations, seconds)

    def _note_exemplar(
        self, exemplar: ExemplarOf, operations: list[Operation], seconds: float
    ) -> None:
        try:
            labels = {str(name): str(value) for name, value in exemplar(operations).items()}
        except Exception:
            _log.exception("exemplar raised, and is called no more: %r", exemplar)
            self._exemplar = None
            return
        if sum(map(len, (*labels, *labels.values()))) <= LONGEST_EXEMPLAR:
            bucket = bisect_left(self.callback.bounds, seconds)
            self.exemplars[bucket] = (labels, seconds, time.time())


class BatcherPart:
    """Reads one Batcher."""

    def __init__(self, batcher: Batcher, options: Options) -> None:
        self._batcher = weakref.ref(batcher)
        self._totals = batcher.live_totals
        self._labels = (options.name or "default", limit_of(batcher.rate_limiter))
        self._watch = Watch(options)
        batcher.observe(self._watch)

    @property
    def subject(self) -> Batcher | None:
        """See Part."""
        return self._batcher()

    def read(self) -> Iterator[Reading]:
        """See Part."""
        totals, watch, labels = self._totals, self._watch, self._labels
        for outcome in ("done", "failed", "abandoned", "returned"):
            yield Reading(names.OPERATIONS, (*labels, outcome), getattr(totals, outcome))
        for outcome in ("done", "failed", "abandoned"):
            yield Reading(names.BATCHES, (*labels, outcome), getattr(totals, f"batches_{outcome}"))
        yield Reading(names.THROTTLED, labels, totals.throttled)
        yield Reading(names.RETRIES, labels, totals.retried)
        yield Reading(names.PAUSES, labels, totals.pauses)
        yield Reading(names.BATCH_SIZE, labels, watch.size.copy())
        yield Reading(names.BATCH_COST, labels, watch.cost.copy())
        yield Reading(names.OPERATION_WAIT, labels, watch.wait.copy())
        yield Reading(names.CALLBACK, labels, watch.callback.copy(), dict(watch.exemplars))
        batcher = self._batcher()
        if batcher is not None:
            yield Reading(names.BUFFER, labels, batcher.operations_in_buffer)
            yield Reading(names.BUFFER_SIZE, labels, batcher.max_buffer_size)
            yield Reading(names.NEEDS, labels, batcher.needs_capacity)
            yield Reading(names.INFLIGHT, labels, batcher.inflight)
            yield Reading(names.PAUSED, labels, batcher.state is State.PAUSED)


def limit_of(limiter: RateLimiter | None) -> str:
    """The name of the limit that is shared through `limiter`."""
    standing = getattr(limiter, "standing", None)
    return standing().name if callable(standing) else ""


@instrumentable(Batcher)
def parts_of_batcher(batcher: Batcher, options: Options) -> Iterable[Part]:
    """A Batcher's own, and those of its limiter."""
    yield BatcherPart(batcher, options)
    limiter = batcher.rate_limiter
    if isinstance(limiter, (ProvisionedResource, SharedResource)):
        yield from parts_of(limiter, options)
    elif limiter is not None:
        yield ForeignLimiterPart(limiter, options)
