"""All metrics: names, labels and meaning. Pure, and the only place.

Labels are bounded: by what a program has (limits, Batchers, topics), never by what it works on
(keys, partitions, operations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from limiters._stats.histogram import SECONDS

PREFIX = "dispatcher_"

Kind = Literal["counter", "gauge", "histogram", "summary"]
Together = Literal["sum", "max", "min"]

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 5, 10)
COSTS = (*SIZES, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, as Prometheus has it."""

    name: str
    """The name in queries; that of a counter ends in _total."""
    kind: Kind
    labels: tuple[str, ...]
    """A `dimension` is the last, and only values of limits that have several have it: at most one
    for each window and each number of calls in flight, of which a limit has 16 at most."""
    text: str
    together: Together = "sum"
    """How values with the same labels are combined: in one process, or of several."""
    bounds: tuple[float, ...] = ()


def _counter(name: str, labels: str, text: str, together: Together = "sum") -> Metric:
    return Metric(f"{PREFIX}{name}_total", "counter", tuple(labels.split()), text, together)


def _gauge(name: str, labels: str, text: str, together: Together = "sum") -> Metric:
    return Metric(f"{PREFIX}{name}", "gauge", tuple(labels.split()), text, together)


def _histogram(name: str, labels: str, text: str, bounds: tuple[float, ...] = SECONDS) -> Metric:
    return Metric(f"{PREFIX}{name}", "histogram", tuple(labels.split()), text, "sum", bounds)


def _summary(name: str, labels: str, text: str) -> Metric:
    return Metric(f"{PREFIX}{name}", "summary", tuple(labels.split()), text)


# A Batcher. `limit` is that of its limiter, "" if it has none of a name.

OPERATIONS = _counter(
    "operations", "batcher limit outcome", "Operations ended: done, failed, abandoned, returned."
)
BATCHES = _counter("batches", "batcher limit outcome", "Batches ended: done, failed, abandoned.")
BATCH_SIZE = _histogram("batch_size", "batcher limit", "Operations in a raised batch.", SIZES)
BATCH_COST = _histogram(
    "batch_cost",
    "batcher limit dimension",
    "Cost of a raised batch, its operations and the batch itself.",
    COSTS,
)
SETTLED = _counter(
    "settled_cost",
    "batcher limit kind dimension",
    "Cost of batches that were settled: estimated, and actual.",
)
SETTLED_RATIO = _histogram(
    "settled_cost_ratio",
    "batcher limit dimension",
    "Actual cost of a settled batch, as a share of its estimate.",
    RATIOS,
)
OPERATION_WAIT = _histogram(
    "operation_wait_seconds",
    "batcher limit",
    "From when an operation was enqueued first until it is raised, estimated for each batch.",
)
CALLBACK = _histogram(
    "callback_seconds", "batcher limit", "From when a batch is raised until its callback ends."
)
BUFFER = _gauge("buffer_operations", "batcher limit", "Operations accepted and not in flight.")
BUFFER_SIZE = _gauge("buffer_size_operations", "batcher limit", "Operations that may wait.")
NEEDS = _gauge(
    "needs_capacity",
    "batcher limit dimension",
    "Cost of all operations that have not ended.",
)
INFLIGHT = _gauge("inflight_batches", "batcher limit", "Batches raised and not ended.")
PAUSED = _gauge("paused", "batcher limit", "Whether the Batcher is paused.", "max")
THROTTLED = _counter("throttled", "batcher limit", "Refusals of the datastore (429).")
RETRIES = _counter("retries", "batcher limit", "Operations that are raised again after a failure.")
PAUSES = _counter("pauses", "batcher limit", "Pauses begun.")

# A cost that is learned.

LEARNED = _gauge(
    "learned_cost",
    "learned kind dimension",
    "What the next operation of a kind is estimated to cost.",
    "max",
)
LEARNED_FROM = _counter(
    "learned_settlements", "learned kind", "Settlements from which a kind has learned."
)

# A limiter.

CAPACITY = _gauge(
    "capacity",
    "limit kind dimension",
    "What may be spent in a period: shared (held now), reserved, max (could be had at most).",
)
SPENT = _counter(
    "spent_cost",
    "limit kind dimension",
    "Estimated cost of callbacks begun, shared and reserved.",
)
REFUNDED = _counter(
    "refunded_cost",
    "limit kind dimension",
    "By how much settled calls that have ended cost less than estimated.",
)
EXCESS = _counter(
    "excess_cost",
    "limit kind dimension",
    "By how much settled calls that have ended cost more than estimated.",
)
PARTITIONS = _gauge(
    "partitions", "limit state dimension", "Partitions held, and wanted, with fractions."
)
SLOTS = _gauge(
    "inflight_slots",
    "limit state dimension",
    "Calls that it may have in flight: busy (they run), idle (they may begin).",
)
LIMITER_INFO = _gauge(
    "limiter_info",
    "limit member",
    "1, with the name that the exporter and `dispatcher leases` have for this instance.",
    "max",
)
DEMAND = _gauge("demand", "limit dimension", "Cost that waits to be spent.")
FAIR_SHARE = _gauge("fair_share", "limit dimension", "Fair share of this process, in partitions.")
PERMITS = _counter("permits", "limit", "Permits granted.")
PERMIT_WAIT = _gauge(
    "permit_wait_seconds",
    "limit",
    "For how long it has waited for a permit; 0 if it does not.",
    "max",
)
PERMIT_TURN = _gauge(
    "permit_turn", "limit", "Its place among those who wait for a permit; 0 if it does not.", "max"
)
UNCERTAIN = _gauge(
    "uncertain_seconds",
    "limit cause",
    "For how long nothing is granted, by the last answer.",
    "max",
)
LEASE_SKEW = _gauge(
    "lease_clock_skew_seconds",
    "limit",
    "Time of the lease manager's clock that no instance confirmed.",
    "max",
)
REFUSED = _gauge(
    "refused",
    "limit",
    "Whether its lease time, windows or dimensions are not those of the limit.",
    "max",
)
SYNC = _histogram("sync_seconds", "limit", "How long the lease manager took to answer.")
SYNC_FAILURES = _counter("sync_failures", "limit", "Calls to the lease manager without an answer.")
LIMIT_REDIS_UP = _gauge("redis_up", "limit", "Whether the lease manager answers.", "min")

# A gate, and builders.

PENDING = _gauge("registration_pending", "gate", "Entities that wait for a registration.")
GATE_HELD = _counter("registration_held", "gate", "Messages and registrations held.")
GATE_RELEASED = _counter("registration_released", "gate", "Held ones that were released.")
GATE_DROPPED = _counter(
    "registration_dropped", "gate reason", "Held ones that were lost: dropped, displaced, corrupt."
)
BUILDER_OPEN = _gauge("builder_open_batches", "builder", "Batches open, by event time.")
BUILDER_MESSAGES = _gauge("builder_messages", "builder", "Measurements not built yet, by subject.")
BUILDER_DROPPED = _counter(
    "builder_dropped", "builder reason", "Messages left out: duplicate, out_of_time."
)

# A topic.

TOPIC_MESSAGES = _gauge(
    "timeline_messages",
    "topic state",
    "Messages: new and lost (both due now), waiting, processing, dead.",
    "max",
)
TOPIC_LATE = _gauge(
    "timeline_late_messages",
    "topic longer_than",
    "Messages that have been due for longer than so many seconds, and are not leased.",
    "max",
)
TOPIC_OLDEST = _gauge(
    "timeline_oldest_due_seconds", "topic", "For how long the oldest message has been due.", "max"
)
TOPIC_CREATED = _counter("timeline_created", "topic", "Messages created.", "max")
TOPIC_DELETED = _counter("timeline_deleted", "topic", "Messages deleted: done.", "max")
TOPIC_DEAD = _counter("timeline_dead", "topic", "Messages given up, whatever the reason.", "max")
TOPIC_CONSUMERS = _gauge("timeline_consumers", "topic", "Consumers that show themselves.", "max")
LATENESS = _histogram(
    "timeline_lateness_seconds", "topic", "From when a message was due until it was leased."
)
DRIFT = _gauge(
    "clock_drift_seconds", "topic", "By how much this machine's clock is ahead of Redis'.", "max"
)

# The cluster, as `dispatcher exporter` sees it. The names differ from those of the instances, so
# that a sum over both counts nothing twice.

REDIS_UP = _gauge("redis_up", "", "Whether Redis answers.", "min")
EXPORTER_DRIFT = _gauge(
    "clock_drift_seconds", "", "By how much this machine's clock is ahead of Redis'.", "max"
)
READ_SECONDS = _gauge("exporter_read_seconds", "", "How long reading all of it from Redis took.")
READ_FAILURES = _counter("exporter_read_failures", "", "Reads that Redis did not answer.")
UNREADABLE = _gauge(
    "unreadable", "what", "1 for each limit, topic and query whose data cannot be read.", "max"
)
OF_INSTANCES = " ".join(("limit", "member", "dimension"))
"""Labels of each instance: `member`, since Prometheus itself has a label `instance`."""

CLUSTER_CAPACITY = _gauge(
    "cluster_capacity",
    "limit kind dimension",
    "Of a period: shared (in force), reserved (of all instances), max (what shared rises to).",
)
CLUSTER_PERIOD = _gauge(
    "cluster_period_seconds", "limit dimension", "The period of the limit; calls have none."
)
CLUSTER_LEASE = _gauge("cluster_lease_seconds", "limit", "The lease time of the limit.")
CLUSTER_PARTITION = _gauge(
    "cluster_partition_cost", "limit dimension", "What one partition is worth."
)
CLUSTER_PARTITIONS = _gauge(
    "cluster_partitions",
    "limit state dimension",
    "Partitions, with fractions: held, free, overdue (of instances whose lease is over).",
)
CLUSTER_SLOTS = _gauge(
    "cluster_inflight_slots",
    "limit state dimension",
    "Calls in flight: busy (they run), idle (held, none runs), free, overdue (lease is over).",
)
CLUSTER_DEMAND = _gauge(
    "cluster_demand", "limit dimension", "Cost that all instances could spend in a period."
)
CLUSTER_SPENT_NOW = _gauge(
    "cluster_spent_last_period_cost",
    "limit dimension",
    "Shared cost that counted in the period before the last request of each instance.",
)
CLUSTER_MEMBERS = _gauge(
    "cluster_members", "limit state", "Instances with a recent request: active, overdue, evicted."
)
CLUSTER_UNCERTAIN = _gauge(
    "cluster_uncertain_seconds", "limit cause", "For how long nothing new will be granted."
)
CLUSTER_SKEW = _gauge(
    "cluster_clock_skew_seconds",
    "limit",
    "Time of Redis' clock that no instance confirmed.",
    "max",
)
CLUSTER_WAITING = _gauge("cluster_permit_waiters", "limit", "Instances that wait for a permit.")
CLUSTER_WAITING_COST = _gauge(
    "cluster_permit_wait_cost", "limit dimension", "Cost of those permits."
)
CLUSTER_WAITING_LONGEST = _gauge(
    "cluster_permit_wait_seconds", "limit", "For how long the first of them has waited."
)
MEMBER_PARTITIONS = _gauge("member_partitions", OF_INSTANCES, "Partitions held, with a fraction.")
MEMBER_DEMAND = _gauge("member_demand", OF_INSTANCES, "Cost it could spend in a period.")
MEMBER_SPENT = _gauge(
    "member_spent_last_period_cost",
    OF_INSTANCES,
    "Shared cost that counted in the period before its last request.",
)
MEMBER_SHARE = _gauge("member_fair_share", OF_INSTANCES, "Fair share, in partitions.")
MEMBER_WAIT = _gauge(
    "member_permit_wait_seconds",
    "limit member",
    "For how long it has waited for a permit; 0 if it does not.",
)
MEMBER_SILENT = _gauge(
    "member_silent_seconds", "limit member", "How long ago its last request came."
)
CLUSTER_OPERATIONS = _counter(
    "cluster_operations", "limit outcome", "Operations ended, of all instances there ever were."
)
CLUSTER_BATCHES = _counter("cluster_batches", "limit outcome", "Batches ended.")
CLUSTER_THROTTLED = _counter("cluster_throttled", "limit", "Refusals of the datastore (429).")
CLUSTER_RETRIES = _counter("cluster_retries", "limit", "Operations raised again.")
CLUSTER_PAUSES = _counter("cluster_pauses", "limit", "Pauses begun.")
CLUSTER_SPENT = _counter(
    "cluster_spent_cost",
    "limit kind dimension",
    "Estimated cost of callbacks begun, shared and reserved.",
)
CLUSTER_REFUNDED = _counter(
    "cluster_refunded_cost",
    "limit kind dimension",
    "By how much settled calls that have ended cost less than estimated.",
)
CLUSTER_EXCESS = _counter(
    "cluster_excess_cost",
    "limit kind dimension",
    "By how much settled calls that have ended cost more than estimated.",
)
CLUSTER_SYNC_FAILURES = _counter(
    "cluster_sync_failures", "limit", "Calls of instances that Redis did not answer."
)

# The sinks of Spark, as the exporter sees them.

SPARK_ROWS = _counter(
    "spark_rows",
    "query outcome",
    "Rows: sent, replayed (had been sent before), rejected; late ones are of these, too.",
)
SPARK_SECONDS = _summary(
    "spark_micro_batch_seconds", "query", "How long the sink had a micro-batch."
)
SPARK_INPUT = _counter("spark_input_rows", "query", "Rows that micro-batches consisted of.")
SPARK_BATCHES = _counter("spark_batches", "query", "Batches acknowledged.")
SPARK_CALLS = _counter("spark_calls", "query", "Calls of the handler, those that failed included.")
SPARK_HANDLING = _counter(
    "spark_handler_seconds", "query", "For how long calls of the handler took, all together."
)
SPARK_COST = _counter("spark_cost", "query dimension", "Cost of batches begun, again too.")
SPARK_WAITED = _counter(
    "spark_waited_seconds", "query", "For how long batches waited for capacity, all together."
)
SPARK_RETRIES = _counter("spark_retries", "query", "Batches sent again after a failure.")
SPARK_THROTTLED = _counter("spark_throttled", "query", "Refusals of the datastore (429).")

METRICS = tuple(one for one in dict(globals()).values() if isinstance(one, Metric))
