"""The whole cluster: what is wrong, and where to look next."""

from grafana import measures
from grafana.questions import AMBER, GREEN, RED, Board, Choice, Group, Query, Question

LIMIT = 'limit=~"$limit"'
TOPIC = 'topic=~"$topic"'
BY_LIMIT = "by (limit)"

WRONG = Group(
    "What is wrong?",
    (
        Question(
            "Is Redis there?",
            "No: only reserved capacity is used until it is back. Look at the server and the way "
            "to it. Nothing has to be restarted.",
            (Query("min(dispatcher_redis_up)", ""),),
            unit="none",
            look="number",
            width=4,
            height=4,
            words={1: ("yes", GREEN), 0: ("no", RED)},
        ),
        Question(
            "What calls for you?",
            "The number of alerts that are firing. Each says in its annotations what to do; the "
            "panel below says which they were.",
            (
                Query(
                    'sum(ALERTS{alertstate="firing", alertname=~"Dispatcher.*", '
                    'severity!="info"}) or vector(0)',
                    "",
                ),
            ),
            look="number",
            width=4,
            height=4,
            steps=((1, RED),),
        ),
        Question(
            "What was refused?",
            "429s within the time shown. Any: the limit is higher than what the datastore allows, "
            "or somebody spends beside it. Lower it: `dispatcher limit set`.",
            (
                Query(
                    f"sum(max {BY_LIMIT} (increase(dispatcher_cluster_throttled_total"
                    f"{{{LIMIT}}}[$__range])))",
                    "",
                ),
            ),
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
                    "sum(max by (limit, outcome) (increase(dispatcher_cluster_operations_total"
                    f'{{{LIMIT}, outcome=~"failed|abandoned"}}[$__range])))',
                    "",
                ),
            ),
            look="number",
            width=4,
            height=4,
            steps=((1, AMBER), (100, RED)),
        ),
        Question(
            "What is dead?",
            "Messages that were given up and wait for somebody to decide: see them with "
            "`dispatcher timeline dead`, then requeue or delete them.",
            (
                Query(
                    f'sum(max by (topic) (dispatcher_timeline_messages{{{TOPIC}, state="dead"}}))',
                    "",
                ),
            ),
            look="number",
            width=4,
            height=4,
            steps=((1, RED),),
        ),
        Question(
            "How wrong is a clock?",
            "The largest distance between a machine's clock and that of Redis. Above a second, "
            "set it right: what it schedules comes that much too early or too late.",
            (Query("max(abs(dispatcher_clock_drift_seconds))", ""),),
            unit="s",
            look="number",
            width=4,
            height=4,
            steps=((0.5, AMBER), (1, RED)),
        ),
        Question(
            "What was alerting?",
            "Which alerts were firing, and when. Their annotations say what to do.",
            (
                Query(
                    "sum by (alertname) "
                    '(ALERTS{alertstate="firing", alertname=~"Dispatcher.*"}) or vector(0)',
                    "{{alertname}}",
                ),
            ),
            look="stacked",
            width=24,
            height=6,
        ),
    ),
)

LIMITS = Group(
    "Limits",
    (
        Question(
            "Are the limits used?",
            "Near 100 % for long: what comes on top waits; raise the limit if the datastore "
            "allows more. Low while others wait (right): open the limit's own dashboard.",
            (Query(measures.used(BY_LIMIT, "$__rate_interval", LIMIT), "{{limit}}"),),
            unit="percentunit",
            steps=((0.9, AMBER), (1.001, RED)),
            most=1,
        ),
        Question(
            "Who has to wait for capacity?",
            "How much of its limit could be used now. Above 100 % work waits, and its waiting "
            "grows as long as it is there.",
            (Query(measures.wanted(BY_LIMIT, LIMIT), "{{limit}}"),),
            unit="percentunit",
            steps=((1, AMBER),),
        ),
        Question(
            "What gets done?",
            "Operations a second. A fall without a fall of what is wanted: look at what fails.",
            (
                Query(
                    f"max {BY_LIMIT} (rate(dispatcher_cluster_operations_total"
                    f'{{{LIMIT}, outcome="done"}}[$__rate_interval]))',
                    "{{limit}}",
                ),
            ),
            unit="ops",
        ),
        Question(
            "What fails?",
            "Batches a second that failed or were abandoned. Each is in the log with its "
            "traceback, and costs capacity again when it is retried.",
            (
                Query(
                    "max by (limit, outcome) (rate(dispatcher_cluster_batches_total"
                    f'{{{LIMIT}, outcome!="done"}}[$__rate_interval]))',
                    "{{limit}} {{outcome}}",
                ),
            ),
            unit="ops",
        ),
    ),
)

TOPICS = Group(
    "Topics",
    (
        Question(
            "What waits?",
            "Messages that are due, and nobody has. Growing: more workers, or a higher limit.",
            (Query(measures.due("by (topic)", TOPIC), "{{topic}}"),),
        ),
        Question(
            "How late is it?",
            "For how long the oldest message has been due. Growing by a second each second: "
            "nobody takes it. Open the topic's own dashboard.",
            (
                Query(
                    f"max by (topic) (dispatcher_timeline_oldest_due_seconds{{{TOPIC}}})",
                    "{{topic}}",
                ),
            ),
            unit="s",
            steps=((60, AMBER), (300, RED)),
        ),
    ),
)

BOARD = Board(
    "dispatcher-overview",
    "Dispatcher / Overview",
    "Whether the limits are used, what waits, what fails: of everything at once.",
    (
        Choice("limit", "Limits", "dispatcher_cluster_capacity", several=True),
        Choice("topic", "Topics", "dispatcher_timeline_messages", several=True),
    ),
    (WRONG, LIMITS, TOPICS),
)
