"""One datastore, which is one limit: who uses it, who waits for it, what it refuses."""

from grafana import measures
from grafana.questions import AMBER, RED, Board, Choice, Group, Query, Question

LIMIT = 'limit="$limit"'
BY = "by (limit)"


def _each(metric: str) -> tuple[Query, ...]:
    return (Query(f"max by (member) ({metric}{{{LIMIT}}})", "{{member}}"),)


def _rate(metric: str, more: str = "", by: str = "limit") -> str:
    return f"max by ({by}) (rate({metric}{{{LIMIT}{more}}}[$__rate_interval]))"


USE = Group(
    "Use",
    (
        Question(
            "Is the limit used?",
            "Spent in each period, against the limit. At the limit for long: it is kept to, and "
            "what comes on top waits; raise it if the datastore allows more. Far below while "
            "somebody waits: see who holds what, below.",
            (
                Query(measures.spent(BY, "$__rate_interval", LIMIT), "spent"),
                Query(measures.capacity(BY, LIMIT), "limit"),
                Query(measures.capacity(BY, LIMIT, "reserved"), "reserved"),
            ),
        ),
        Question(
            "Who uses it?",
            "Spent by each instance in the last period that it told of. One that takes too much: "
            "give it a smaller weight.",
            _each("dispatcher_member_spent_last_period_cost"),
            look="stacked",
        ),
        Question(
            "What waits?",
            "What all instances together could spend in a period, against the limit. Above it, "
            "somebody waits.",
            (
                Query(f"max {BY} (dispatcher_cluster_demand{{{LIMIT}}})", "wanted"),
                Query(measures.capacity(BY, LIMIT), "limit"),
            ),
        ),
        Question(
            "Who waits?",
            "What each instance could spend in a period. One that always wants and never spends "
            "has callbacks that hang, or asks for what it does not use.",
            _each("dispatcher_member_demand"),
            look="stacked",
        ),
    ),
)

SHARING = Group(
    "Sharing",
    (
        Question(
            "Who holds it?",
            "Partitions that each instance holds, with fractions. One that goes by permits holds "
            "few or none.",
            _each("dispatcher_member_partitions"),
            look="stacked",
        ),
        Question(
            "Who should hold it?",
            "The fair share of each instance, by weight and by what it wants. Who holds more gives "
            "it back with its next requests, unless the difference is only a few per cent.",
            _each("dispatcher_member_fair_share"),
            look="stacked",
        ),
        Question(
            "Is something left?",
            "Overdue ones are of an instance that was killed, hangs or is cut off; they are free "
            "when its lease is over. Free ones while somebody waits: see below whether something "
            "is granted.",
            (
                Query(
                    f"max by (state) (dispatcher_cluster_partitions{{{LIMIT}}})",
                    "{{state}}",
                ),
            ),
            look="stacked",
        ),
        Question(
            "Who is silent?",
            "How long ago each instance was heard of. Idle ones need not say anything; one that "
            "wants something and is silent hangs, or is cut off from Redis.",
            _each("dispatcher_member_silent_seconds"),
            unit="s",
        ),
        Question(
            "How many share it?",
            "Instances that were heard of lately. Overdue or evicted ones: see their logs.",
            (Query(f"max by (state) (dispatcher_cluster_members{{{LIMIT}}})", "{{state}}"),),
            look="stacked",
        ),
        Question(
            "Is nothing granted?",
            "For how long nothing new will be granted, and why: old leases may still be out. "
            "Often: make Redis keep its state (appendonly).",
            (
                Query(
                    f"max by (cause) (dispatcher_cluster_uncertain_seconds{{{LIMIT}}})",
                    "nothing granted: {{cause}}",
                ),
            ),
            unit="s",
            steps=((1, AMBER),),
        ),
        Question(
            "Who waits for a permit?",
            "An operation that costs more than a share, or a share that is worth less than a "
            "batch, goes by permits, by turns. One that waits for longer than its fair share needs "
            "to make up the cost: see whether something is granted.",
            _each("dispatcher_member_permit_wait_seconds"),
            unit="s",
        ),
        Question(
            "What waits for permits?",
            "Its cost, against the limit, and how many wait. Above the limit all the time: choose "
            "smaller batches, or fewer instances.",
            (
                Query(f"max {BY} (dispatcher_cluster_permit_wait_cost{{{LIMIT}}})", "cost"),
                Query(f"max {BY} (dispatcher_cluster_permit_waiters{{{LIMIT}}})", "instances"),
                Query(measures.capacity(BY, LIMIT), "limit"),
            ),
        ),
        Question(
            "Is Redis' clock right?",
            "Time of its clock that no instance confirmed: it was set forward, or no instance ran "
            "meanwhile. It does not count, so no limit is at risk. Growing while instances run: "
            "correct the clock of Redis' machine.",
            (Query(f"max {BY} (dispatcher_cluster_clock_skew_seconds{{{LIMIT}}})", "ignored"),),
            unit="s",
        ),
        Question(
            "Is somebody refused?",
            "Instances whose lease time or period is not that of the limit: they get nothing "
            "shared. `dispatcher limit set` changes it for all; their logs have the command.",
            (Query(f"sum {BY} (dispatcher_refused{{{LIMIT}}})", "refused"),),
            steps=((1, RED),),
        ),
    ),
)

OUTCOMES = Group(
    "Outcomes",
    (
        Question(
            "What becomes of operations?",
            "Operations a second. Failed: attempts used up. Abandoned: the callback took too "
            "long. Returned: given back by stop().",
            (
                Query(
                    _rate("dispatcher_cluster_operations_total", by="outcome"),
                    "{{outcome}}",
                ),
            ),
            unit="ops",
            look="stacked",
        ),
        Question(
            "What fails?",
            "Batches a second that failed or were abandoned, and operations that are tried again. "
            "The log has the tracebacks.",
            (
                Query(
                    _rate("dispatcher_cluster_batches_total", ', outcome!="done"', "outcome"),
                    "{{outcome}}",
                ),
                Query(_rate("dispatcher_cluster_retries_total"), "tried again"),
            ),
            unit="ops",
        ),
        Question(
            "Does the datastore refuse?",
            "429s and pauses a second. Any: lower the limit (`dispatcher limit set`), or find who "
            "spends beside it.",
            (
                Query(_rate("dispatcher_cluster_throttled_total"), "refused"),
                Query(_rate("dispatcher_cluster_pauses_total"), "pauses"),
            ),
            unit="ops",
            steps=((0.001, RED),),
        ),
        Question(
            "Do instances reach Redis?",
            "Calls for leases that were not answered, a second. One now and then does no harm; "
            "many cost capacity.",
            (
                Query(_rate("dispatcher_cluster_sync_failures_total"), "told later"),
                Query(
                    f"sum(rate(dispatcher_sync_failures_total{{{LIMIT}}}[$__rate_interval]))",
                    "seen by scraping",
                ),
            ),
            unit="ops",
        ),
    ),
)

BOARD = Board(
    "dispatcher-limit",
    "Dispatcher / One datastore",
    "One limit: whether it is used, who uses it, who waits for it, and what is refused.",
    (Choice("limit", "Limit", "dispatcher_cluster_capacity"),),
    (USE, SHARING, OUTCOMES),
)
