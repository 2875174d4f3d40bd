"""The whole cluster: what is wrong, and where to look next."""

from collections.abc import Iterator

from grafana import measures, units
from grafana.alerts import ALERTS
from grafana.boards.choices import CLUSTER
from grafana.boards.limit import changed_limits
from grafana.measures import by, here
from grafana.questions import (
    AMBER,
    RED,
    YES_IS_GOOD,
    Board,
    Choice,
    Group,
    Link,
    Query,
    Question,
)

LIMIT = here('limit=~"$limit"')
TOPIC = here('topic=~"$topic"')
BY_DIMENSION = by("limit", "dimension")
BY_LIMIT, BY_TOPIC, BY_PROCESS = by("limit"), by("topic"), by("instance")
TO_LIMIT = (Link("dispatcher-limit", ("limit",)),)
TO_TOPIC = (Link("dispatcher-topic", ("topic",)),)
TO_QUERY = (Link("dispatcher-spark", ("query",)),)
TO_WORKER = (Link("dispatcher-worker", ("instance",)),)

FIRING = 'cluster=~"$cluster|", alertstate="firing"'
"""An alert that says that a cluster is not watched has the label only of one that was."""
ABOUT = ("alertname", "limit", "dimension", "batcher", "topic", "query", "instance", "job")


def _firing() -> Iterator[Query]:
    """The alerts that one panel explains have one query, which leads to it."""
    by_link: dict[tuple[Link, str], list[str]] = {}
    for alert in ALERTS:
        shared = "" if alert.seen_of_batcher is None else ', batcher=""'
        by_link.setdefault((alert.seen, shared), []).append(alert.name)
        if alert.seen_of_batcher is not None:
            own = (alert.seen_of_batcher, ', batcher!=""')
            by_link.setdefault(own, []).append(alert.name)
    called = " ".join(f"{{{{{label}}}}}" for label in ABOUT)
    for (link, which), names in by_link.items():
        condition = f'{FIRING}, alertname=~"{"|".join(names)}"{which}'
        yield Query(f"max {by(*ABOUT)} (ALERTS{{{condition}}})", called, links=(link,))


WRONG = Group(
    "What is wrong?",
    (
        Question(
            "Is Redis there?",
            "No: only reserved capacity is used until it is back. Look at the server and the way "
            "to it. Nothing has to be restarted.",
            (Query(f"min(dispatcher_redis_up{{{here()}}})", ""),),
            unit=units.WORD,
            look="number",
            width=4,
            height=4,
            words=YES_IS_GOOD,
        ),
        Question(
            "What calls for you?",
            "The number of alerts that are firing. Each says in its annotations what to do; the "
            "panel below says which they were.",
            (
                Query(
                    f'sum(ALERTS{{{FIRING}, alertname=~"Dispatcher.*", severity!="info"}}) '
                    "or vector(0)",
                    "",
                ),
            ),
            unit=units.ALERTS,
            look="number",
            width=4,
            height=4,
            steps=((1, RED),),
        ),
        Question(
            "What was refused?",
            "429s within the time shown. Any: the limit is higher than what the datastore allows, "
            "or other clients use it too. Lower it: `dispatcher limit set`.",
            (
                Query(
                    f"ceil(sum(max {BY_LIMIT} (increase(dispatcher_cluster_throttled_total"
                    f"{{{LIMIT}}}[$__range]))))",
                    "",
                ),
            ),
            unit=units.REFUSALS,
            look="number",
            width=4,
            height=4,
            steps=((1, AMBER), (100, RED)),
        ),
        Question(
            "What was given up?",
            "Operations that failed for good or were abandoned within the time shown. The log "
            "has them with their tracebacks.",
            (
                Query(
                    f"ceil(sum(max {by('limit', 'outcome')} (increase("
                    "dispatcher_cluster_operations_total"
                    f'{{{LIMIT}, outcome=~"failed|abandoned"}}[$__range]))))',
                    "",
                ),
            ),
            unit=units.OPERATIONS,
            look="number",
            width=4,
            height=4,
            steps=((1, AMBER), (100, RED)),
        ),
        Question(
            "What is dead?",
            "Messages that were given up and wait for a decision: see them with "
            "`dispatcher timeline dead`, then requeue or delete them.",
            (
                Query(
                    f'sum(max {BY_TOPIC} (dispatcher_timeline_messages{{{TOPIC}, state="dead"}}))',
                    "",
                ),
            ),
            unit=units.MESSAGES,
            look="number",
            width=4,
            height=4,
            steps=((1, RED),),
        ),
        Question(
            "How wrong is a clock?",
            "The largest distance between a machine's clock and that of Redis. Above a second, "
            "set it right: what it schedules comes that much too early or too late.",
            (Query(f"max(abs(dispatcher_clock_drift_seconds{{{here()}}}))", ""),),
            unit=units.SECONDS,
            look="number",
            width=4,
            height=4,
            steps=((0.5, AMBER), (1, RED)),
        ),
        Question(
            "What was alerting?",
            "Which alerts were firing, when, and about what. Click on one: it leads to the panel "
            "that explains it. Its annotations say what to do.",
            tuple(_firing()),
            unit=units.WORD,
            words={1: ("firing", RED)},
            look="timeline",
            width=24,
            height=8,
        ),
    ),
)

LIMITS = Group(
    "Limits",
    (
        Question(
            "Are the limits used?",
            "Near 100 % for long: what comes on top waits; raise the limit if the datastore "
            "allows more. Low while others wait (right): click on it to open its own dashboard. Of "
            "several dimensions, the fullest one.",
            (
                Query(
                    f"max {BY_LIMIT} ("
                    f"{measures.bound_used(BY_DIMENSION, '$__rate_interval', LIMIT)})",
                    "{{limit}}",
                ),
            ),
            unit=units.SHARE,
            steps=((0.9, AMBER), (1.001, RED)),
            most=1,
            links=TO_LIMIT,
        ),
        Question(
            "Who has to wait for capacity?",
            "How much of its limit could be used now. Above 100 % work waits, and its waiting "
            "grows as long as it is there. Of several dimensions, the one of which most is wanted.",
            (
                Query(
                    f"max {BY_LIMIT} ({measures.wanted(BY_DIMENSION, LIMIT)})",
                    "{{limit}}",
                ),
            ),
            unit=units.SHARE,
            steps=((1, AMBER),),
            links=TO_LIMIT,
        ),
        Question(
            "What gets done?",
            "A fall without a fall of what is wanted: look at what fails.",
            (
                Query(
                    f"max {BY_LIMIT} (rate(dispatcher_cluster_operations_total"
                    f'{{{LIMIT}, outcome="done"}}[$__rate_interval]))',
                    "{{limit}}",
                ),
            ),
            unit=units.OPERATION_RATE,
            links=TO_LIMIT,
        ),
        Question(
            "What fails?",
            "Batches that failed or were abandoned. Each is in the log with its traceback, and "
            "costs capacity again when it is retried.",
            (
                Query(
                    f"max {by('limit', 'outcome')} (rate(dispatcher_cluster_batches_total"
                    f'{{{LIMIT}, outcome!="done"}}[$__rate_interval]))',
                    "{{limit}} {{outcome}}",
                ),
            ),
            unit=units.BATCH_RATE,
            links=TO_LIMIT,
        ),
    ),
)

TOPICS = Group(
    "Topics",
    (
        Question(
            "What waits?",
            "Messages that are due and not leased. Growing: more workers, or a higher limit.",
            (Query(measures.due(BY_TOPIC, TOPIC), "{{topic}}"),),
            unit=units.MESSAGES,
            links=TO_TOPIC,
        ),
        Question(
            "How late is it?",
            "For how long the oldest message has been due. Growing by a second each second: "
            "no consumer takes it. Click on it to open the topic's own dashboard.",
            (
                Query(
                    f"max {BY_TOPIC} (dispatcher_timeline_oldest_due_seconds{{{TOPIC}}})",
                    "{{topic}}",
                ),
            ),
            unit=units.SECONDS,
            steps=((60, AMBER), (300, RED)),
            links=TO_TOPIC,
        ),
    ),
)

QUERIES = Group(
    "Queries of Spark",
    (
        Question(
            "What do they send?",
            "Rows by query. None while its source brings some: click on it to see what holds it "
            "up.",
            (
                Query(
                    f"max {by('query')} (rate(dispatcher_spark_rows_total"
                    f'{{{here()}, outcome="sent"}}[$__rate_interval]))',
                    "{{query}}",
                ),
            ),
            unit=units.ROW_RATE,
            links=TO_QUERY,
        ),
        Question(
            "What do they reject?",
            "Rows that handlers refused for good, or that came too late. They are among the dead "
            "letters of the sink: correct them, or the handler.",
            (
                Query(
                    f"max {by('query')} (rate(dispatcher_spark_rows_total"
                    f'{{{here()}, outcome="rejected"}}[$__rate_interval]))',
                    "{{query}}",
                ),
            ),
            unit=units.ROW_RATE,
            steps=((0.001, RED),),
            links=TO_QUERY,
        ),
    ),
)

PROCESSES = Group(
    "Processes",
    (
        Question(
            "How do processes do?",
            "Those that Prometheus scrapes, at the end of the time shown. A full buffer: "
            "`enqueue` blocks. No answer from Redis of one: its network; of all: Redis. A clock "
            "that is more than a second off: set it right. Click on one to open its dashboard; the "
            "exporter has none.",
            (
                Query(
                    f"max {BY_PROCESS} (dispatcher_buffer_operations{{{here()}}} "
                    f"/ dispatcher_buffer_size_operations{{{here()}}})",
                    "Buffer used",
                    units.SHARE,
                ),
                Query(
                    f"sum {BY_PROCESS} (dispatcher_inflight_batches{{{here()}}})",
                    "In flight",
                    units.BATCHES,
                ),
                Query(
                    f"sum {BY_PROCESS} (rate(dispatcher_batches_total"
                    f'{{{here()}, outcome!="done"}}[$__rate_interval]))',
                    "Fails",
                    units.BATCH_RATE,
                ),
                Query(
                    f"min {BY_PROCESS} (dispatcher_redis_up{{{here()}}})",
                    "Redis answers",
                    units.WORD,
                    words=YES_IS_GOOD,
                ),
                Query(
                    f"max {BY_PROCESS} (dispatcher_clock_drift_seconds{{{here()}}})",
                    "Clock ahead of Redis'",
                    units.SECONDS,
                ),
            ),
            unit=units.WORD,
            look="table",
            width=24,
            height=10,
            least=None,
            labels={"instance": ("Process", TO_WORKER), "cluster": ("Cluster", ())},
        ),
        Question(
            "Is everything watched?",
            "Exporters that Prometheus scrapes. None: start `dispatcher exporter`, for without it "
            "this dashboard is empty, and no alert about limits and topics can fire. Two do no "
            "harm.",
            (
                Query(
                    f"count {by()} (dispatcher_exporter_read_seconds{{{here()}}})",
                    "exporters",
                ),
                Query(
                    f"max {by()} (dispatcher_exporter_read_seconds{{{here()}}})",
                    "a look at Redis takes",
                    units.SECONDS,
                ),
            ),
            unit=units.EXPORTERS,
        ),
        Question(
            "What cannot be read?",
            "Limits, topics and queries whose data in Redis the exporter does not understand, or "
            "may not read: they are missing on all dashboards. Its log says why.",
            (
                Query(
                    f"max {by('what')} (dispatcher_unreadable{{{here()}}})",
                    "{{what}}",
                ),
            ),
            unit=units.UNREADABLE,
            look="stacked",
            steps=((1, RED),),
        ),
    ),
)

BOARD = Board(
    "dispatcher-overview",
    "Dispatcher / Overview",
    "Whether the limits are used, what waits, what fails: everything in one place.",
    (
        CLUSTER,
        Choice("limit", "Limits", "dispatcher_cluster_capacity", here(), several=True),
        Choice("topic", "Topics", "dispatcher_timeline_messages", here(), several=True),
    ),
    (WRONG, LIMITS, TOPICS, QUERIES, PROCESSES),
    (changed_limits(LIMIT),),
)
