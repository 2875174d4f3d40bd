"""The alerts: what is wrong, how it is seen, and what to do. The only place. Pure.

docs/dashboards.md explains each in more detail, under its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from grafana import measures
from grafana.measures import RULES
from grafana.pace import Pace
from grafana.questions import Link

MINUTE = 60.0
DAY = 86_400.0

OFTEN = 0.01
"""Calls a second of one instance: each loses one now and then, and of a hundred one always has."""

WHOSE = "{{ with $labels.limit }}limit {{ . }}{{ else }}Batcher {{ $labels.batcher }}{{ end }}"
"""The object of an alert: the shared limit, or the Batcher if it has none."""

LIMIT_NAMED = "limit {{ $labels.limit }}{{ with $labels.dimension }} ({{ . }}){{ end }}"
LIMIT_NAMED_FIRST = LIMIT_NAMED.replace("limit ", "Limit ", 1)
"""A shared limit, and which of its dimensions, if it has several."""

ALL_USED = "dispatcher:limit_used:ratio or dispatcher:slots_used:ratio"
"""Of each limit and dimension, calls in flight included."""

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Record:
    """A rule that records what others need."""

    name: str
    expression: Callable[[Pace], str]


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that notifies people."""

    name: str
    severity: Severity
    expression: Callable[[Pace], str]
    hold: float
    """Seconds for which the condition has to hold."""
    summary: str
    what_to_do: str
    seen: Link
    """The panel that explains it."""
    seen_of_batcher: Link | None = None
    """The panel that explains it for a Batcher whose limit is not shared."""


OVERVIEW, LIMIT, TOPIC = "dispatcher-overview", "dispatcher-limit", "dispatcher-topic"
SPARK, WORKER = "dispatcher-spark", "dispatcher-worker"


def _of_limit(panel: str) -> Link:
    return Link(LIMIT, ("limit",), panel)


def _of_topic(panel: str) -> Link:
    return Link(TOPIC, ("topic",), panel)


RECORDS = (
    Record(
        "dispatcher:limit_used:ratio",
        lambda pace: measures.used(RULES, pace.window(2 * MINUTE)),
    ),
    Record(
        "dispatcher:limit_taken:ratio",
        lambda pace: measures.taken(RULES, pace.window(2 * MINUTE)),
    ),
    Record("dispatcher:slots_used:ratio", lambda pace: measures.slots_used(RULES)),
    Record("dispatcher:limit_wanted:ratio", lambda pace: measures.wanted(RULES)),
    Record("dispatcher:failed_batches:ratio", lambda pace: measures.failed(pace.window(300))),
    Record("dispatcher:topic_due:messages", lambda pace: measures.due(RULES)),
)

ALERTS = (
    Alert(
        "DispatcherRedisAway",
        "critical",
        lambda pace: "count without (instance, pod) (dispatcher_redis_up == 0)",
        MINUTE,
        "Redis does not answer: {{ $value }} of {{ $labels.job }} say so",
        "Leases have run out: only reserved capacity is used, and nothing is shared. Look at the "
        "server, and at the way to it (network, password, full memory). Nothing has to be "
        "restarted: with Redis the capacity is back within two sync intervals.",
        Link(OVERVIEW, panel="How do processes do?"),
    ),
    Alert(
        "DispatcherUnwatched",
        "critical",
        lambda pace: measures.unwatched(pace.window(DAY)),
        5 * MINUTE,
        "No exporter{{ with $labels.cluster }} of cluster {{ . }}{{ end }} is scraped: no other "
        "alert about the cluster can fire",
        "See whether `dispatcher exporter` runs, and whether Prometheus reaches it "
        "(Status, Targets). The instances go on without it.",
        Link(OVERVIEW, panel="Is everything watched?"),
    ),
    Alert(
        "DispatcherSyncFailing",
        "warning",
        lambda pace: measures.unanswered(pace.window(5 * MINUTE), OFTEN),
        10 * MINUTE,
        "Instances of limit {{ $labels.limit }} get no answer when they ask for their leases",
        "A lost request is sent again and costs nothing; ten minutes of it cost capacity. Compare "
        "dispatcher_sync_seconds of the instances: if all are slow it is Redis, if one is, "
        "its network. An instance that is cut off falls back to what it has reserved.",
        _of_limit("Do instances reach Redis?"),
    ),
    Alert(
        "DispatcherLimitNearlyUsed",
        "info",
        lambda pace: "dispatcher:limit_used:ratio > 0.9",
        30 * MINUTE,
        f"{LIMIT_NAMED_FIRST} has been used to {{{{ $value | humanizePercentage }}}}",
        "It is kept to, but there is no room left: what comes on top waits. See who uses it in the "
        "dashboard of the limit. Raise what the datastore allows and then the limit "
        "(`dispatcher limit set`), or give the less urgent instances a smaller weight. Of several "
        "dimensions, only the one that is named has to be raised.",
        _of_limit("Which dimension binds?"),
    ),
    Alert(
        "DispatcherSlotsTaken",
        "warning",
        lambda pace: "dispatcher:slots_used:ratio >= 1",
        10 * MINUTE,
        f"All calls in flight that {LIMIT_NAMED} allows are taken",
        "New calls wait until one ends. If calls end as quickly as usual, the limit does its work: "
        "raise it if the API allows more. If few end, callbacks hang: see "
        "dispatcher_callback_seconds, and give your client a time-out. Overdue ones are of an "
        "instance that was killed: they are free max_operation_time after its lease.",
        _of_limit("How many calls are in flight?"),
    ),
    Alert(
        "DispatcherDimensionNeverBinds",
        "info",
        lambda pace: measures.never_binds(pace.window(DAY)),
        60 * MINUTE,
        f"{LIMIT_NAMED_FIRST} was taken to {{{{ $value | humanizePercentage }}}} at most "
        "within a day, while another dimension was full",
        "Perhaps operations do not name this dimension in their costs, so that it limits nothing, "
        "or name it in a smaller unit; compare its spending with what the API reports. If that is "
        "right, the limit allows far more of it than the other dimensions let through, and nothing "
        "has to be done: silence this alert.",
        _of_limit("Which dimension binds?"),
    ),
    Alert(
        "DispatcherThrottled",
        "warning",
        lambda pace: f"({measures.refused(pace.window(5 * MINUTE))}) > 0",
        0,
        f"The datastore refuses what {WHOSE} allows (429)",
        "The limit is set higher than what the datastore allows, or other clients use it too. "
        "Lower it with `dispatcher limit set`; then find clients that do not use the limit, or "
        "whether operations cost more than they say.",
        _of_limit("Does the datastore refuse?"),
        Link(WORKER, panel="What fails?"),
    ),
    Alert(
        "DispatcherEstimatesOff",
        "warning",
        lambda pace: f"abs(({measures.cost_ratios(pace.window(15 * MINUTE))}) - 1) > 0.2",
        30 * MINUTE,
        f"Actual costs of {WHOSE}"
        "{{ with $labels.dimension }} ({{ . }}){{ end }} "
        "differ from their estimates by {{ $value | humanizePercentage }}",
        "See whether they are higher or lower. Lower: part of the limit is not used while calls "
        "run; estimate less, or let `Learned` do it. Higher: windows may be over by what calls in "
        "flight cost beyond their estimates, and the next ones wait for it; estimate more.",
        _of_limit("Are estimates right?"),
        Link(WORKER, panel="Are estimates right?"),
    ),
    Alert(
        "DispatcherCapacityIdle",
        "warning",
        lambda pace: (
            f"max without (dimension) ({ALL_USED}) < 0.7 and "
            "max without (dimension) (dispatcher:limit_wanted:ratio) > 1"
        ),
        10 * MINUTE,
        "Limit {{ $labels.limit }} is used to {{ $value | humanizePercentage }} only, while "
        "instances wait for it",
        "Some instance holds what it does not use, estimates are far above actual costs, or "
        "nothing is granted. In the dashboard of the limit see who holds much and spends little "
        "(a callback that hangs, a program that asks and does not spend), whether more counts than "
        "is spent (then estimate less: see DispatcherEstimatesOff), whether partitions are "
        "overdue, and whether anything is granted. `dispatcher leases --evict` takes from one what "
        "it holds.",
        _of_limit("Who shares it?"),
    ),
    Alert(
        "DispatcherNothingGranted",
        "warning",
        lambda pace: f"max {RULES} (dispatcher_cluster_uncertain_seconds) > 0",
        5 * MINUTE,
        "Limit {{ $labels.limit }} grants nothing for another {{ $value | humanizeDuration }}: "
        "{{ $labels.cause }}",
        "It is not known who holds what, so nothing new is granted until every lease that may be "
        "out has ended; instances keep what they prove. With long leases or periods that takes "
        "long. If it comes again and again, Redis loses its state or changes its server: make it "
        "keep its state (appendonly), and see why it restarts or fails over.",
        _of_limit("Is nothing granted?"),
    ),
    Alert(
        "DispatcherRefused",
        "warning",
        lambda pace: "max without (instance, pod) (dispatcher_refused) == 1",
        5 * MINUTE,
        "An instance of limit {{ $labels.limit }} gets no shared capacity: its lease time, windows "
        "or dimensions are others",
        "Instances with two lease times, periods or sets of dimensions cannot share a limit. Its "
        "log says which ones differ, and has the command (`dispatcher limit set`) that changes "
        "them for all: use it before you deploy instances with other ones, or correct their "
        "configuration.",
        _of_limit("Who shares it?"),
    ),
    Alert(
        "DispatcherBufferNearlyFull",
        "warning",
        lambda pace: "dispatcher_buffer_operations / dispatcher_buffer_size_operations > 0.9",
        10 * MINUTE,
        "The buffer of {{ $labels.batcher }} in {{ $labels.instance }} is nearly full",
        "`enqueue` blocks or is refused soon. If the limit is used up, raise it or enqueue "
        "less; if it is not, the callbacks are slow: see dispatcher_callback_seconds, and raise "
        "max_concurrent_batches.",
        Link(WORKER, ("instance",), "What waits?"),
    ),
    Alert(
        "DispatcherBatchesFailing",
        "warning",
        lambda pace: "dispatcher:failed_batches:ratio > 0.05",
        10 * MINUTE,
        f"{{{{ $value | humanizePercentage }}}} of the batches of {WHOSE} fail",
        "The log says why: `batch-failed`, of a worker `handler-failed`. They are retried as the "
        "watcher's `retry` says, and cost capacity each time. Abandoned ones took too long: raise "
        "max_operation_time, or find out why the datastore is slow.",
        _of_limit("What fails?"),
        Link(WORKER, panel="What fails?"),
    ),
    Alert(
        "DispatcherBacklogGrowing",
        "warning",
        lambda pace: (
            "dispatcher:topic_due:messages > 100 and "
            f"deriv(dispatcher:topic_due:messages[{pace.window(15 * MINUTE)}]) > 0"
        ),
        15 * MINUTE,
        "More falls due in topic {{ $labels.topic }} than is done: {{ $value }} messages wait",
        "If the limit of its workers is used up, raise it; if it is not, start more workers, or "
        "raise their concurrency. See also whether messages fail and come again.",
        _of_topic("What waits?"),
    ),
    Alert(
        "DispatcherTopicLate",
        "warning",
        lambda pace: (
            f"max {RULES} (dispatcher_timeline_oldest_due_seconds) > {pace.late(5 * MINUTE)}"
        ),
        5 * MINUTE,
        "The oldest message of topic {{ $labels.topic }} has been due for "
        "{{ $value | humanizeDuration }}",
        "Are there consumers? Do they get capacity? A single old message that is always "
        "the same: look at it with `dispatcher timeline peek {{ $labels.topic }}`.",
        _of_topic("How late is the latest?"),
    ),
    Alert(
        "DispatcherNobodyConsumes",
        "critical",
        lambda pace: (
            "dispatcher:topic_due:messages > 0 and "
            f"max {RULES} (dispatcher_timeline_consumers) == 0"
        ),
        5 * MINUTE,
        "Messages of topic {{ $labels.topic }} are due, and it has no consumer",
        "Start a worker: `dispatcher worker --topic {{ $labels.topic }}`. If some are running, see "
        "their /readyz and their log, and whether they use the same Redis and prefix.",
        _of_topic("Who consumes?"),
    ),
    Alert(
        "DispatcherDeadLetters",
        "warning",
        lambda pace: f'max {RULES} (dispatcher_timeline_messages{{state="dead"}}) > 0',
        0,
        "{{ $value }} messages of topic {{ $labels.topic }} were given up",
        "They failed too often, or were refused for good; each has its reason. See them "
        "with `dispatcher timeline dead {{ $labels.topic }}`, repair the cause, then "
        "`dispatcher timeline requeue` or delete them: they stay until then.",
        _of_topic("What is dead?"),
    ),
    Alert(
        "DispatcherClockDrift",
        "warning",
        lambda pace: "abs(dispatcher_clock_drift_seconds) > 1",
        5 * MINUTE,
        "The clock of {{ $labels.instance }} is {{ $value | humanizeDuration }} off that of Redis",
        "No limit depends on it: an instance's own clock is compared with nothing but itself, and "
        "Redis' clock is believed only as far as instances confirm it. But what is scheduled "
        "by this machine's clock falls due that much too early or too late. Set the clock right "
        "(chrony, ntpd), of this machine or, if all say so, of Redis'.",
        Link(OVERVIEW, panel="How do processes do?"),
    ),
    Alert(
        "DispatcherSparkRowsRejected",
        "warning",
        lambda pace: (
            f"max {RULES} (increase(dispatcher_spark_rows_total"
            f'{{outcome="rejected"}}[{pace.window(15 * MINUTE)}])) > 0'
        ),
        0,
        "Query {{ $labels.query }} has rejected rows",
        "The handler refused them for good (Reject), or they came too late for a sink that does "
        "not send late ones. Look at the dead letters of the sink, and correct the rows or "
        "the handler; the query itself goes on.",
        Link(SPARK, ("query",), "What is rejected?"),
    ),
)
