"""One topic of the Timeline: what waits, how late it is, what is dead."""

from grafana.questions import AMBER, RED, Board, Choice, Group, Query, Question

TOPIC = 'topic="$topic"'
LATENESS = f"dispatcher_timeline_lateness_seconds_bucket{{{TOPIC}}}"


def _lateness(part: float) -> Query:
    return Query(
        f"histogram_quantile({part}, sum by (le) (rate({LATENESS}[$__rate_interval])))",
        f"{part:.0%}",
    )


WORK = Group(
    "Work",
    (
        Question(
            "What waits?",
            "Messages by state. New and lost ones are due now (lost: leased by somebody who did "
            "not finish); waiting ones are not due yet. Due ones that grow: more workers, or a "
            "higher limit.",
            (
                Query(
                    f'max by (state) (dispatcher_timeline_messages{{{TOPIC}, state!="dead"}})',
                    "{{state}}",
                ),
            ),
            look="stacked",
        ),
        Question(
            "Does it keep up?",
            "Messages created and done a second. Created above done for long: it falls behind, "
            "unless much is for later.",
            (
                Query(
                    "max by (topic) "
                    f"(rate(dispatcher_timeline_created_total{{{TOPIC}}}[$__rate_interval]))",
                    "created",
                ),
                Query(
                    "max by (topic) "
                    f"(rate(dispatcher_timeline_deleted_total{{{TOPIC}}}[$__rate_interval]))",
                    "done",
                ),
            ),
            unit="ops",
        ),
        Question(
            "How late is the latest?",
            "For how long the oldest message has been due. Growing by a second each second: "
            "nobody takes it; look at it with `dispatcher timeline peek`.",
            (
                Query(
                    f"max by (topic) (dispatcher_timeline_oldest_due_seconds{{{TOPIC}}})",
                    "oldest",
                ),
            ),
            unit="s",
            steps=((60, AMBER), (300, RED)),
        ),
        Question(
            "How many are late?",
            "Messages that have been due for longer than so many seconds. Few, and always as "
            "many: single ones that nobody can handle. Many: workers are missing.",
            (
                Query(
                    f"max by (longer_than) (dispatcher_timeline_late_messages{{{TOPIC}}})",
                    "longer than {{longer_than}} s",
                ),
            ),
        ),
        Question(
            "How late is it taken?",
            "From when a message was due until a worker had it. Above what you promise: more "
            "workers, or a higher limit.",
            (_lateness(0.5), _lateness(0.95), _lateness(0.99)),
            unit="s",
        ),
        Question(
            "Who consumes?",
            "Consumers that show themselves. None: start `dispatcher worker`.",
            (
                Query(
                    f"max by (topic) (dispatcher_timeline_consumers{{{TOPIC}}})",
                    "consumers",
                ),
            ),
        ),
    ),
)

TROUBLE = Group(
    "Trouble",
    (
        Question(
            "What is dead?",
            "Messages that were given up, and that wait for somebody to decide: see them with "
            "`dispatcher timeline dead $topic`, then requeue or delete them.",
            (
                Query(
                    f'max by (topic) (dispatcher_timeline_messages{{{TOPIC}, state="dead"}})',
                    "dead",
                ),
            ),
            steps=((1, RED),),
        ),
        Question(
            "What is being given up?",
            "Messages a second that failed too often. The log of the workers says why.",
            (
                Query(
                    "max by (topic) "
                    f"(rate(dispatcher_timeline_dead_total{{{TOPIC}}}[$__rate_interval]))",
                    "dead",
                ),
            ),
            unit="ops",
        ),
        Question(
            "Are the clocks right?",
            "By how much clocks are ahead of Redis'. What such a machine schedules comes that "
            "much too late. Set it right above a second.",
            (
                Query(
                    f"max by (instance) (dispatcher_clock_drift_seconds{{{TOPIC}}})",
                    "{{instance}}",
                ),
                Query('max by (instance) (dispatcher_clock_drift_seconds{topic=""})', "exporter"),
            ),
            unit="s",
            width=24,
            least=None,
        ),
    ),
)

BOARD = Board(
    "dispatcher-topic",
    "Dispatcher / One topic",
    "One topic of the Timeline: what waits, how late it is, who consumes it, what is dead.",
    (Choice("topic", "Topic", "dispatcher_timeline_messages"),),
    (WORK, TROUBLE),
)
