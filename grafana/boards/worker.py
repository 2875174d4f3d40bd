"""One process or several: their Batchers, limiters, way to Redis, gates and builders."""

from grafana import measures, units
from grafana.measures import by, here
from grafana.questions import (
    AMBER,
    YES_IS_GOOD,
    Board,
    Choice,
    Group,
    Link,
    Query,
    Question,
)

HERE = here('instance=~"$instance"')
NO_EXPORTER = 'limit!=""'
TO_LIMIT = (Link("dispatcher-limit", ("limit",)),)


def _sum(metric: str, *labels: str) -> str:
    return f"sum {by(*labels)} ({metric}{{{HERE}}})"


def _rate(metric: str, *labels: str, more: str = "") -> str:
    return f"sum {by(*labels)} (rate({metric}{{{HERE}{more}}}[$__rate_interval]))"


def _part(metric: str, part: float, *labels: str) -> Query:
    labels = labels or ("batcher",)
    rate = _rate(f"{metric}_bucket", *labels, "le")
    named = " ".join(f"{{{{{label}}}}}" for label in labels)
    return Query(f"histogram_quantile({part}, {rate})", f"{named} {part:.0%}")


BATCHES = Group(
    "Batches",
    (
        Question(
            "What gets done?",
            "By what became of them. Failed and abandoned ones are in the log "
            "with their tracebacks.",
            (
                Query(
                    _rate("dispatcher_operations_total", "batcher", "outcome"),
                    "{{batcher}} {{outcome}}",
                ),
            ),
            unit=units.OPERATION_RATE,
        ),
        Question(
            "What waits?",
            "Operations in the buffer, and how many it takes. Near that: `enqueue` "
            "blocks. The limit is used up, or callbacks are slow.",
            (
                Query(_sum("dispatcher_buffer_operations", "batcher"), "{{batcher}}"),
                Query(_sum("dispatcher_buffer_size_operations", "batcher"), "{{batcher}} at most"),
            ),
            unit=units.OPERATIONS,
        ),
        Question(
            "How long does it wait?",
            "From when an operation was enqueued until it is raised. Long while the limit is not "
            "used: callbacks are slow, or the Batcher is paused.",
            (
                _part("dispatcher_operation_wait_seconds", 0.5),
                _part("dispatcher_operation_wait_seconds", 0.99),
            ),
            unit=units.SECONDS,
        ),
        Question(
            "How long do callbacks take?",
            "From when a batch is raised until its callback ends. Longer than usual: the datastore "
            "is slow.",
            (
                _part("dispatcher_callback_seconds", 0.5),
                _part("dispatcher_callback_seconds", 0.99),
            ),
            unit=units.SECONDS,
        ),
        Question(
            "How large are batches?",
            "Operations in a batch. Small under load: raise flush_interval or max_batch_size.",
            (_part("dispatcher_batch_size", 0.5), _part("dispatcher_batch_size", 0.95)),
            unit=units.OPERATIONS,
        ),
        Question(
            "What does a batch cost?",
            "Cost of a batch. One that costs more than a hundredth of the limit leaves gaps in "
            "its use.",
            (
                _part("dispatcher_batch_cost", 0.5, "batcher", "dimension"),
                _part("dispatcher_batch_cost", 0.95, "batcher", "dimension"),
            ),
            unit=units.COST,
        ),
        Question(
            "What is under way?",
            "Batches in their callbacks. Always at the most allowed: callbacks are what holds it "
            "up, not the limit; raise max_concurrent_batches.",
            (Query(_sum("dispatcher_inflight_batches", "batcher"), "{{batcher}}"),),
            unit=units.BATCHES,
        ),
        Question(
            "What is not done yet?",
            "Cost of all operations that have not ended. Divided by what may be spent in a "
            "period, it says how long it will take.",
            (
                Query(
                    _sum("dispatcher_needs_capacity", "batcher", "dimension"),
                    "{{batcher}} {{dimension}}",
                ),
            ),
            unit=units.COST,
        ),
        Question(
            "What fails?",
            "Batches that did not succeed, operations tried again, and 429s. The log has the "
            "tracebacks.",
            (
                Query(
                    _rate(
                        "dispatcher_batches_total", "batcher", "outcome", more=', outcome!="done"'
                    ),
                    "{{batcher}} {{outcome}}",
                ),
                Query(_rate("dispatcher_retries_total", "batcher"), "{{batcher}} again"),
                Query(_rate("dispatcher_throttled_total", "batcher"), "{{batcher}} refused"),
            ),
            unit=units.EVENT_RATE,
        ),
        Question(
            "Are estimates right?",
            "Actual costs of what was settled, as a share of their estimates; and the estimates "
            "of costs that are learned. Far below 1: part of the limit is not used while calls "
            "run. Above 1: windows may be over by what calls in flight cost beyond their "
            "estimates.",
            (
                Query(
                    measures.cost_ratio(by("batcher", "dimension"), "$__rate_interval", HERE),
                    "{{batcher}} {{dimension}}",
                ),
                Query(
                    _sum("dispatcher_learned_cost", "learned", "kind", "dimension"),
                    "{{learned}} {{kind}} {{dimension}}",
                    units.COST,
                ),
            ),
            unit=units.SHARE,
            steps=((1.2, AMBER),),
        ),
        Question(
            "Does it pause?",
            "Batchers that are paused now, and how often one begins to. Often: the datastore "
            "refuses.",
            (
                Query(_sum("dispatcher_paused", "batcher"), "{{batcher}}"),
                Query(
                    _rate("dispatcher_pauses_total", "batcher"),
                    "{{batcher}} begins",
                    units.PAUSE_RATE,
                ),
            ),
            unit=units.PAUSED,
        ),
    ),
)

LIMITS = Group(
    "Its share of limits",
    (
        Question(
            "What may it spend?",
            "By kind: shared is what it holds now, reserved its own, max what it could have.",
            (
                Query(
                    _sum("dispatcher_capacity", "limit", "dimension", "kind"),
                    "{{limit}} {{dimension}} {{kind}}",
                ),
            ),
            unit=units.COST_PER_PERIOD,
            links=TO_LIMIT,
        ),
        Question(
            "What does it spend?",
            "By kind, at its actual cost once that is known. Below what it holds while some wait: "
            "callbacks are slow, or estimates are too high.",
            (
                Query(
                    measures.spent_each_second(
                        "sum",
                        "dispatcher",
                        by("limit", "dimension", "kind"),
                        "$__rate_interval",
                        HERE,
                    ),
                    "{{limit}} {{dimension}} {{kind}}",
                ),
            ),
            unit=units.COST_RATE,
            links=TO_LIMIT,
        ),
        Question(
            "Does it get its share?",
            "Partitions that it holds and wants, and its fair share. Held below the fair share for "
            "more than two sync intervals: see who holds it, in the limit's own dashboard.",
            (
                Query(
                    _sum("dispatcher_partitions", "limit", "dimension", "state"),
                    "{{limit}} {{dimension}} {{state}}",
                ),
                Query(
                    _sum("dispatcher_fair_share", "limit", "dimension"),
                    "{{limit}} {{dimension}} fair share",
                ),
            ),
            unit=units.PARTITIONS,
            links=TO_LIMIT,
        ),
        Question(
            "What does it want?",
            "Cost that it could spend now. None while operations wait: it is paused, or all "
            "callbacks are busy.",
            (Query(_sum("dispatcher_demand", "limit", "dimension"), "{{limit}} {{dimension}}"),),
            unit=units.COST,
            links=TO_LIMIT,
        ),
        Question(
            "How many calls does it have in flight?",
            "Busy: they run. Idle: it holds them, and may begin a call at any time. All busy while "
            "operations wait: others hold the rest, or callbacks hang.",
            (
                Query(
                    _sum("dispatcher_inflight_slots", "limit", "dimension", "state"),
                    "{{limit}} {{dimension}} {{state}}",
                ),
            ),
            unit=units.CALLS,
            links=TO_LIMIT,
            width=8,
        ),
        Question(
            "Does it go by permits?",
            "A permit is the right to start one batch, where its share is too small for one. "
            "Many, each of a small cost: larger batches, or fewer processes, need fewer calls.",
            (Query(_rate("dispatcher_permits_total", "limit"), "{{limit}}"),),
            unit=units.PERMIT_RATE,
            links=TO_LIMIT,
            width=8,
        ),
        Question(
            "Does it wait for a permit?",
            "For how long, and its place among those who wait. Long in the first place: an "
            "operation costs so much that others have to give back before.",
            (
                Query(
                    f"max {by('limit')} (dispatcher_permit_wait_seconds{{{HERE}}})",
                    "{{limit}}",
                ),
                Query(
                    f"max {by('limit')} (dispatcher_permit_turn{{{HERE}}})",
                    "{{limit}} place",
                    units.PLACE,
                ),
            ),
            unit=units.SECONDS,
            links=TO_LIMIT,
            width=8,
        ),
        Question(
            "Does it reach Redis?",
            "No: its leases run out, and only what is reserved is spent.",
            (
                Query(
                    f"min {by('limit')} (dispatcher_redis_up{{{HERE}, {NO_EXPORTER}}})", "{{limit}}"
                ),
            ),
            unit=units.WORD,
            links=TO_LIMIT,
            look="number",
            width=6,
            words=YES_IS_GOOD,
        ),
        Question(
            "How quick is Redis?",
            "How long it took to answer. Near a quarter of the lease time, leases begin to lapse.",
            (_part("dispatcher_sync_seconds", 0.99, "limit"),),
            unit=units.SECONDS,
            links=TO_LIMIT,
            width=9,
        ),
        Question(
            "Does Redis answer?",
            "Requests without an answer. Many: Redis, or the way to it.",
            (Query(_rate("dispatcher_sync_failures_total", "limit"), "{{limit}}"),),
            unit=units.REQUEST_RATE,
            links=TO_LIMIT,
            width=9,
            steps=((0.1, AMBER),),
        ),
    ),
)

BEFORE = Group(
    "Before the Batcher",
    (
        Question(
            "Who waits for a registration?",
            "Entities, and messages held and released. Growing: they are not registered.",
            (
                Query(
                    _sum("dispatcher_registration_pending", "gate"),
                    "{{gate}} entities",
                    units.ENTITIES,
                ),
                Query(_rate("dispatcher_registration_held_total", "gate"), "{{gate}} held"),
                Query(_rate("dispatcher_registration_released_total", "gate"), "{{gate}} released"),
            ),
            unit=units.MESSAGE_RATE,
        ),
        Question(
            "What does a gate lose?",
            "Held messages that were lost: too old (dropped), no room (displaced), "
            "damaged (corrupt). Raise the bounds of the gate, or find who does not register.",
            (
                Query(
                    _rate("dispatcher_registration_dropped_total", "gate", "reason"),
                    "{{gate}} {{reason}}",
                ),
            ),
            unit=units.MESSAGE_RATE,
        ),
        Question(
            "What is being built?",
            "Open batches by event time, and measurements by subject that are not built yet. "
            "Growing without end: they are not closed.",
            (
                Query(
                    _sum("dispatcher_builder_open_batches", "builder"),
                    "{{builder}} batches",
                    units.BATCHES,
                ),
                Query(_sum("dispatcher_builder_messages", "builder"), "{{builder}} measurements"),
            ),
            unit=units.MEASUREMENTS,
        ),
        Question(
            "What do builders leave out?",
            "Messages that came twice (duplicate), or that no batch is for (out_of_time).",
            (
                Query(
                    _rate("dispatcher_builder_dropped_total", "builder", "reason"),
                    "{{builder}} {{reason}}",
                ),
            ),
            unit=units.MESSAGE_RATE,
        ),
    ),
)

PROCESSES = "dispatcher_inflight_batches"

BOARD = Board(
    "dispatcher-worker",
    "Dispatcher / Workers",
    "Processes that show their metrics: what they do, what they may spend, what holds them up.",
    (
        Choice("cluster", "Cluster", PROCESSES, several=True),
        Choice("instance", "Processes", PROCESSES, here(), several=True),
    ),
    (BATCHES, LIMITS, BEFORE),
)
