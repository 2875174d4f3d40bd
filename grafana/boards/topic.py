"""One topic of the Timeline: what waits, how late it is, what is dead."""

from grafana import units
from grafana.boards.choices import CLUSTER
from grafana.measures import by, here
from grafana.questions import AMBER, RED, Board, Choice, Group, Link, Query, Question

TOPIC = here('topic="$topic"')
LATENESS = "dispatcher_timeline_lateness_seconds"
WORKER = Link("dispatcher-worker", ("instance",))


def _max(metric: str, more: str = "", label: str = "topic") -> str:
    return f"max {by(label)} (dispatcher_timeline_{metric}{{{TOPIC}{more}}})"


def _rate(metric: str) -> str:
    return f"max {by('topic')} (rate(dispatcher_timeline_{metric}{{{TOPIC}}}[$__rate_interval]))"


def _lateness(part: float, *labels: str) -> str:
    rate = f"rate({LATENESS}_bucket{{{TOPIC}}}[$__rate_interval])"
    return f"histogram_quantile({part}, sum {by(*labels, 'le')} ({rate}))"


WORK = Group(
    "Work",
    (
        Question(
            "What waits?",
            "Messages by state. New and lost ones are due now (lost: leased by a consumer that did "
            "not finish); waiting ones are not due yet. Due ones that grow: more workers, or a "
            "higher limit.",
            (Query(_max("messages", ', state!="dead"', "state"), "{{state}}"),),
            unit=units.MESSAGES,
            look="stacked",
        ),
        Question(
            "Does it keep up?",
            "Created above done for long: it falls behind, unless much is for later.",
            (
                Query(_rate("created_total"), "created"),
                Query(_rate("deleted_total"), "done"),
            ),
            unit=units.MESSAGE_RATE,
        ),
        Question(
            "How late is the latest?",
            "For how long the oldest message has been due. Growing by a second each second: "
            "no consumer takes it; look at it with `dispatcher timeline peek`.",
            (Query(_max("oldest_due_seconds"), "oldest"),),
            unit=units.SECONDS,
            steps=((60, AMBER), (300, RED)),
        ),
        Question(
            "How many are late?",
            "Messages that have been due for longer than so many seconds. Few, and always as "
            "many: single ones that no handler can process. Many: workers are missing.",
            (
                Query(
                    _max("late_messages", label="longer_than"),
                    "longer than {{longer_than}} s",
                ),
            ),
            unit=units.MESSAGES,
        ),
        Question(
            "How late is it taken?",
            "From when a message was due until a worker had it. Above what you promise: more "
            "workers, or a higher limit.",
            tuple(Query(_lateness(part), f"{part:.0%}") for part in (0.5, 0.95, 0.99)),
            unit=units.SECONDS,
        ),
        Question(
            "Who consumes?",
            "Consumers that show themselves. None: start `dispatcher worker`.",
            (Query(_max("consumers"), "consumers"),),
            unit=units.CONSUMERS,
        ),
    ),
)

TROUBLE = Group(
    "Trouble",
    (
        Question(
            "What is dead?",
            "Messages that were given up, and that wait for a decision: see them with "
            "`dispatcher timeline dead $topic`, then requeue or delete them.",
            (Query(_max("messages", ', state="dead"'), "dead"),),
            unit=units.MESSAGES,
            steps=((1, RED),),
        ),
        Question(
            "What is being given up?",
            "Messages that failed too often. The log of the workers says why.",
            (Query(_rate("dead_total"), "dead"),),
            unit=units.MESSAGE_RATE,
        ),
        Question(
            "Who takes them?",
            "The workers that Prometheus scrapes, at the end of the time shown. One that takes "
            "none while messages are due waits for capacity, hangs or is cut off. One whose clock "
            "is ahead of Redis' schedules that much too late: above a second, set it right. Click "
            "on one to open its dashboard.",
            (
                Query(
                    f"sum {by('instance')} (rate({LATENESS}_count{{{TOPIC}}}[$__rate_interval]))",
                    "Takes",
                    units.MESSAGE_RATE,
                ),
                Query(f"{_lateness(0.99, 'instance')} >= 0", "Late, 99 %", units.SECONDS),
                Query(
                    f"max {by('instance')} (dispatcher_clock_drift_seconds{{{TOPIC}}})",
                    "Clock ahead of Redis'",
                    units.SECONDS,
                ),
            ),
            unit=units.WORD,
            look="table",
            width=24,
            least=None,
            labels={"instance": ("Process", (WORKER,)), "cluster": ("Cluster", ())},
        ),
    ),
)

BOARD = Board(
    "dispatcher-topic",
    "Dispatcher / One topic",
    "One topic of the Timeline: what waits, how late it is, who consumes it, what is dead.",
    (CLUSTER, Choice("topic", "Topic", "dispatcher_timeline_messages", here())),
    (WORK, TROUBLE),
)
