"""One datastore, which is one limit: its instances, those that wait, what the store refuses."""

from grafana import measures, units
from grafana.boards.choices import CLUSTER
from grafana.measures import by, here, on
from grafana.questions import (
    AMBER,
    BLUE,
    RED,
    YES_IS_BAD,
    Board,
    Choice,
    Group,
    Link,
    Mark,
    Query,
    Question,
)

LIMIT = here('limit="$limit"')
CHOSEN = f'{LIMIT}, dimension=~"$dimension"'
"""LIMIT, and the chosen dimensions. A limit of one dimension has no such label, which fits, too."""
BY = by("limit")
BY_DIMENSION = by("limit", "dimension")
ROWS = f"group {by('member', 'dimension')} (dispatcher_member_partitions{{{CHOSEN}}})"
"""Rows of the table of instances: one for each instance and dimension."""
WORKER = Link("dispatcher-worker", ("instance",))


def changed_limits(where: str) -> Mark:
    """Mark when a limit was changed."""
    return Mark(
        "Changed limits",
        measures.changed(BY_DIMENSION, where),
        "Limit {{limit}}: {{dimension}} {{what}} is now {{to}}",
        ("cluster", "limit"),
        BLUE,
    )


def _max(metric: str, *labels: str) -> str:
    return f"max {by(*labels)} ({metric}{{{LIMIT}}})"


def _each(metric: str, *labels: str) -> str:
    """Return a query for each dimension."""
    return f"max {by(*labels, 'dimension')} ({metric}{{{CHOSEN}}})"


def _of_dimensions(metric: str) -> str:
    """Return a value of each instance, in each row of that instance."""
    return f"{_max(metric, 'member')} * {on('member')} group_right () {ROWS}"


def _rate(metric: str, more: str = "", label: str = "limit") -> str:
    return f"max {by(label)} (rate({metric}{{{LIMIT}{more}}}[$__rate_interval]))"


def _of_member(metric: str) -> str:
    """Return a query for each instance, by the name that the exporter has for it, which it also
    exports itself."""
    info = f"dispatcher_limiter_info{{{LIMIT}}}"
    mine = f"{info} * ignoring (member) group_left () {metric}{{{LIMIT}}}"
    known = f"max {by('member', 'instance')} ({mine})"
    # One that is refused has no rows: Redis does not know it.
    one = f"topk {by('member')} (1, {known})"
    in_rows = f"{ROWS} * {on('member')} group_left (instance) {one}"
    return f"({in_rows})\nor\n({known} unless {on('member')} {ROWS})"


USE = Group(
    "Use",
    (
        Question(
            "Is the limit used?",
            "Spent in each period, and what all instances together could spend, against the "
            "limit. At the limit for long: it is kept to, and what comes on top waits; raise it if "
            "the datastore allows more. Far below while more is wanted: see who holds what, below. "
            "Spent is at actual cost once that is known. What counts includes the estimates of "
            "calls that run: far above what is spent, estimates are too high.",
            (
                # What is drawn last lies on top.
                Query(
                    measures.capacity(BY_DIMENSION, CHOSEN, "reserved"), "{{dimension}} reserved"
                ),
                Query(measures.capacity(BY_DIMENSION, CHOSEN, "max"), "{{dimension}} rises to"),
                Query(measures.capacity(BY_DIMENSION, CHOSEN), "{{dimension}} limit"),
                Query(_each("dispatcher_cluster_demand", "limit"), "{{dimension}} wanted"),
                Query(
                    measures.counts(BY_DIMENSION, "$__rate_interval", CHOSEN),
                    "{{dimension}} counts",
                ),
                Query(
                    measures.spent(BY_DIMENSION, "$__rate_interval", CHOSEN), "{{dimension}} spent"
                ),
            ),
            unit=units.COST_PER_PERIOD,
            width=24,
        ),
        Question(
            "Which dimension binds?",
            "How much counts of each window of a rate, and of calls in flight: of calls that run, "
            "what was estimated. The highest line is what holds up the others while work waits: "
            "raise that one, or estimate less if its estimates are too high. A line that is always "
            "near zero: operations may not name that dimension in their costs. A limit of one "
            "dimension has one line.",
            (
                Query(
                    measures.bound_taken(BY_DIMENSION, "$__rate_interval", CHOSEN),
                    "{{limit}} {{dimension}}",
                ),
            ),
            unit=units.SHARE,
            steps=((0.9, AMBER), (1.001, RED)),
            most=1,
            width=12,
        ),
        Question(
            "How many calls are in flight?",
            "Of the calls that may be in flight at the same time. Busy: they run. Idle: an "
            "instance holds them, and none runs. Overdue: their instance was killed, hangs or is "
            "cut off; they are free when its lease and its longest call are over. All busy for "
            "long, and few end: callbacks hang.",
            (
                Query(
                    _each("dispatcher_cluster_inflight_slots", "state"),
                    "{{dimension}} {{state}}",
                ),
            ),
            unit=units.CALLS,
            look="stacked",
            width=12,
        ),
        Question(
            "Who shares it?",
            "The instances at the end of the time shown; choose an earlier end to see them then. "
            "One that holds much and spends little has callbacks that hang, or asks for what it "
            "does not use. One that is silent and wants something hangs, or is cut off. A refused "
            "one has another lease time, or other windows or dimensions, than the limit: "
            "`dispatcher limit set` changes it for all. A process is named if Prometheus scrapes "
            "it, and leads to its dashboard. Each of several dimensions has a row; calls in flight "
            "have numbers of calls.",
            (
                Query(_each("dispatcher_member_partitions", "member"), "Holds", units.PARTITIONS),
                Query(
                    _each("dispatcher_member_fair_share", "member"), "Fair share", units.PARTITIONS
                ),
                Query(
                    _each("dispatcher_member_spent_last_period_cost", "member"),
                    "Spends",
                    units.COST_PER_PERIOD,
                ),
                Query(_each("dispatcher_member_demand", "member"), "Wants", units.COST_PER_PERIOD),
                Query(
                    _of_dimensions("dispatcher_member_permit_wait_seconds"),
                    "Waits for a permit",
                    units.SECONDS,
                ),
                Query(_of_dimensions("dispatcher_member_silent_seconds"), "Silent", units.SECONDS),
                Query(_of_member("dispatcher_refused"), "Refused", units.WORD, words=YES_IS_BAD),
            ),
            unit=units.WORD,
            look="table",
            width=24,
            height=10,
            labels={
                "member": ("Instance", ()),
                "dimension": ("Dimension", ()),
                "instance": ("Process", (WORKER,)),
                "cluster": ("Cluster", ()),
            },
        ),
    ),
)

SHARING = Group(
    "Sharing",
    (
        Question(
            "Is something left?",
            "Overdue ones are of an instance that was killed, hangs or is cut off; they are free "
            "when its lease is over. Free ones while an instance waits: see below whether "
            "something is granted.",
            (Query(_each("dispatcher_cluster_partitions", "state"), "{{dimension}} {{state}}"),),
            unit=units.PARTITIONS,
            look="stacked",
        ),
        Question(
            "How many share it?",
            "Instances by state. Overdue or evicted ones: see their logs.",
            (Query(_max("dispatcher_cluster_members", "state"), "{{state}}"),),
            unit=units.INSTANCES,
            look="stacked",
        ),
        Question(
            "Is nothing granted?",
            "For how long nothing new will be granted, and why: old leases may still be out. "
            "Often: make Redis keep its state (appendonly).",
            (
                Query(
                    _max("dispatcher_cluster_uncertain_seconds", "cause"),
                    "nothing granted: {{cause}}",
                ),
            ),
            unit=units.SECONDS,
            steps=((1, AMBER),),
        ),
        Question(
            "How many are refused?",
            "Instances whose lease time, windows or dimensions are not the limit's: they get "
            "nothing shared. The table says which ones. `dispatcher limit set` changes it for "
            "all; their logs have the command.",
            (Query(f"sum {BY} (dispatcher_refused{{{LIMIT}}})", "refused"),),
            unit=units.INSTANCES,
            steps=((1, RED),),
        ),
        Question(
            "What waits for permits?",
            "An operation that costs more than a share, or a share that is worth less than a "
            "batch, goes by permits, by turns. Their cost, against the limit. Above the limit all "
            "the time: choose smaller batches, or fewer instances.",
            (
                Query(
                    _each("dispatcher_cluster_permit_wait_cost", "limit"), "{{dimension}} waiting"
                ),
                Query(measures.capacity(BY_DIMENSION, CHOSEN), "{{dimension}} limit"),
                Query(
                    _max("dispatcher_cluster_permit_waiters", "limit"),
                    "instances",
                    units.INSTANCES,
                ),
            ),
            unit=units.COST,
        ),
        Question(
            "How long is a permit waited for?",
            "By the first of those that wait. Longer than its fair share needs to make up the "
            "cost: see whether something is granted. The table says who waits.",
            (Query(_max("dispatcher_cluster_permit_wait_seconds", "limit"), "first"),),
            unit=units.SECONDS,
        ),
        Question(
            "Is Redis' clock right?",
            "Time of its clock that no instance confirmed: it was set forward, or no instance ran "
            "meanwhile. It does not count, so no limit is at risk. Growing while instances run: "
            "correct the clock of Redis' machine.",
            (Query(_max("dispatcher_cluster_clock_skew_seconds", "limit"), "ignored"),),
            unit=units.SECONDS,
        ),
        Question(
            "What are its terms?",
            "How long a lease and a period last. Only `dispatcher limit set` changes them; a "
            "mark shows when. Long ones: an instance that was killed keeps its share for longer.",
            (
                Query(_max("dispatcher_cluster_lease_seconds", "limit"), "lease"),
                Query(_each("dispatcher_cluster_period_seconds", "limit"), "{{dimension}} period"),
                Query(
                    _each("dispatcher_cluster_partition_cost", "limit"),
                    "{{dimension}} a partition",
                    units.COST,
                ),
            ),
            unit=units.SECONDS,
        ),
    ),
)

OUTCOMES = Group(
    "Outcomes",
    (
        Question(
            "Are estimates right?",
            "Actual costs of what was settled, as a share of their estimates. Far below 1: part "
            "of the limit is not used while calls run; estimate less, or let it be learned. Above "
            "1: windows may be over by what calls in flight cost beyond their estimates.",
            (
                Query(
                    measures.cost_ratio(
                        by("limit", "batcher", "dimension"), "$__rate_interval", CHOSEN
                    ),
                    "{{batcher}} {{dimension}}",
                ),
            ),
            unit=units.SHARE,
            steps=((1.2, AMBER),),
        ),
        Question(
            "What becomes of operations?",
            "Failed: attempts used up. Abandoned: the callback took too long. Returned: given back "
            "by stop().",
            (
                Query(
                    _rate("dispatcher_cluster_operations_total", label="outcome"),
                    "{{outcome}}",
                ),
            ),
            unit=units.OPERATION_RATE,
            look="stacked",
        ),
        Question(
            "What fails?",
            "Batches that failed or were abandoned, and operations that are tried again. The log "
            "has the tracebacks.",
            (
                Query(
                    _rate("dispatcher_cluster_batches_total", ', outcome!="done"', "outcome"),
                    "batches {{outcome}}",
                ),
                Query(_rate("dispatcher_cluster_retries_total"), "operations tried again"),
            ),
            unit=units.EVENT_RATE,
        ),
        Question(
            "Does the datastore refuse?",
            "429s, and pauses that follow. Any: lower the limit (`dispatcher limit set`), or find "
            "clients that do not use the limit.",
            (
                Query(_rate("dispatcher_cluster_throttled_total"), "refused"),
                Query(_rate("dispatcher_cluster_pauses_total"), "pauses"),
            ),
            unit=units.EVENT_RATE,
            steps=((0.001, RED),),
        ),
        Question(
            "Do instances reach Redis?",
            "Requests for leases that were not answered. One now and then does no harm; "
            "many cost capacity.",
            (
                Query(_rate("dispatcher_cluster_sync_failures_total"), "reported later"),
                Query(
                    f"sum {BY} (rate(dispatcher_sync_failures_total{{{LIMIT}}}[$__rate_interval]))",
                    "seen by scraping",
                ),
            ),
            unit=units.REQUEST_RATE,
        ),
    ),
)

BOARD = Board(
    "dispatcher-limit",
    "Dispatcher / One datastore",
    "One limit: whether it is used, who uses it, who waits for it, and what is refused.",
    (
        CLUSTER,
        Choice("limit", "Limit", "dispatcher_cluster_capacity", here()),
        Choice("dimension", "Dimensions", "dispatcher_cluster_capacity", LIMIT, several=True),
    ),
    (USE, SHARING, OUTCOMES),
    (changed_limits(LIMIT),),
)
