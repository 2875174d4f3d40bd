"""The sinks of Spark: what their queries send, and what delays them."""

from grafana import units
from grafana.boards.choices import CLUSTER
from grafana.measures import by, here
from grafana.questions import RED, Board, Choice, Group, Query, Question

QUERY = here('query=~"$query"')
SENT_ONES = ', outcome="sent"'


def _rate(metric: str, more: str = "", *labels: str) -> str:
    rate = f"rate(dispatcher_spark_{metric}{{{QUERY}{more}}}[$__rate_interval])"
    return f"max {by('query', *labels)} ({rate})"


def _each(metric: str) -> tuple[Query, ...]:
    return (Query(_rate(metric), "{{query}}"),)


def _per(above: str, below: str) -> tuple[Query, ...]:
    return (Query(f"{_rate(above)} / ({_rate(below)} > 0)", "{{query}}"),)


SENT = Group(
    "Rows",
    (
        Question(
            "What becomes of rows?",
            "Replayed ones had been sent before a micro-batch was tried again, and "
            "were not sent twice. Late ones are counted among the others, too.",
            (Query(_rate("rows_total", "", "outcome"), "{{query}} {{outcome}}"),),
            unit=units.ROW_RATE,
        ),
        Question(
            "What is rejected?",
            "Rows that the handler refused for good, or that came too late. They are "
            "among the dead letters of the sink: correct them, or the handler.",
            (Query(_rate("rows_total", ', outcome="rejected"'), "{{query}}"),),
            unit=units.ROW_RATE,
            steps=((0.001, RED),),
        ),
        Question(
            "Do queries keep up?",
            "Rows that micro-batches consist of. If the source brings more, the query "
            "falls behind: raise the limit, or see what holds it up.",
            _each("input_rows_total"),
            unit=units.ROW_RATE,
        ),
        Question(
            "How large are batches?",
            "Rows in a batch. Small ones cost a call each: fewer partitions or a larger "
            "max_batch_size make them fuller.",
            (
                Query(
                    f"{_rate('rows_total', SENT_ONES)} / ({_rate('batches_total')} > 0)",
                    "{{query}}",
                ),
            ),
            unit=units.ROWS,
        ),
    ),
)

PACE = Group(
    "Pace",
    (
        Question(
            "How long does a micro-batch take?",
            "On average. Longer than the trigger of the query: the next one waits.",
            _per("micro_batch_seconds_sum", "micro_batch_seconds_count"),
            unit=units.SECONDS,
        ),
        Question(
            "How long is capacity waited for?",
            "By a batch, on average. Long: the limit is what holds the query up, not the "
            "datastore. Raise it, or give the query a larger weight.",
            _per("waited_seconds_total", "batches_total"),
            unit=units.SECONDS,
        ),
        Question(
            "How long does the handler take?",
            "For a call, on average. Longer than capacity is waited for: the datastore holds "
            "the query up. A larger concurrency has more calls in flight.",
            _per("handler_seconds_total", "calls_total"),
            unit=units.SECONDS,
        ),
        Question(
            "How often is the handler called?",
            "Attempts that failed included. Far more calls than batches: see what fails.",
            (
                Query(_rate("calls_total"), "{{query}} calls"),
                Query(_rate("batches_total"), "{{query}} batches"),
            ),
            unit=units.EVENT_RATE,
        ),
        Question(
            "What is spent?",
            "Compare it with the limit's own dashboard.",
            (Query(_rate("cost_total", "", "dimension"), "{{query}} {{dimension}}"),),
            unit=units.COST_RATE,
        ),
        Question(
            "What fails?",
            "Batches sent again, and 429s. The executors' logs have the tracebacks. "
            "429s: the limit is too high, or other clients use the store too.",
            (
                Query(_rate("retries_total"), "{{query}} again"),
                Query(_rate("throttled_total"), "{{query}} refused"),
            ),
            unit=units.EVENT_RATE,
        ),
    ),
)

BOARD = Board(
    "dispatcher-spark",
    "Dispatcher / Spark sinks",
    "What the queries of Spark send, and what holds them up.",
    (
        CLUSTER,
        Choice("query", "Queries", "dispatcher_spark_batches_total", here(), several=True),
    ),
    (SENT, PACE),
)
