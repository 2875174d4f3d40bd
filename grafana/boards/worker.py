"""One process: its Batchers, its limiter, its way to Redis, its gates and builders."""

from grafana.questions import AMBER, GREEN, RED, Board, Choice, Group, Query, Question

HERE = 'instance="$instance"'


def _sum(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) ({metric}{{{HERE}{more}}})"


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{HERE}{more}}}[$__rate_interval]))"


def _part(metric: str, part: float, by: str = "batcher") -> Query:
    rate = f"sum by ({by}, le) (rate({metric}_bucket{{{HERE}}}[$__rate_interval]))"
    return Query(f"histogram_quantile({part}, {rate})", f"{{{{{by}}}}} {part:.0%}")


BATCHES = Group(
    "Batches",
    (
        Question(
            "What gets done?",
            "Operations a second by what became of them. Failed and abandoned ones are in the log "
            "with their tracebacks.",
            (
                Query(
                    _rate("dispatcher_operations_total", "batcher, outcome"),
                    "{{batcher}} {{outcome}}",
                ),
            ),
            unit="ops",
        ),
        Question(
            "What waits?",
            "Operations in the buffer, and how many it takes. Near that: whoever enqueues is "
            "blocked. The limit is used up, or callbacks are slow.",
            (
                Query(_sum("dispatcher_buffer_operations", "batcher"), "{{batcher}}"),
                Query(_sum("dispatcher_buffer_size_operations", "batcher"), "{{batcher}} at most"),
            ),
        ),
        Question(
            "How long does it wait?",
            "From when an operation was enqueued until it is raised. Long while the limit is not "
            "used: callbacks are slow, or the Batcher is paused.",
            (
                _part("dispatcher_operation_wait_seconds", 0.5),
                _part("dispatcher_operation_wait_seconds", 0.99),
            ),
            unit="s",
        ),
        Question(
            "How long do callbacks take?",
            "From when a batch is raised until its callback ends. Longer than usual: the datastore "
            "is slow.",
            (
                _part("dispatcher_callback_seconds", 0.5),
                _part("dispatcher_callback_seconds", 0.99),
            ),
            unit="s",
        ),
        Question(
            "How large are batches?",
            "Operations in a batch. Small under load: raise flush_interval or max_batch_size.",
            (_part("dispatcher_batch_size", 0.5), _part("dispatcher_batch_size", 0.95)),
        ),
        Question(
            "How dear are batches?",
            "Cost of a batch. One that costs more than a hundredth of the limit leaves gaps in "
            "its use.",
            (_part("dispatcher_batch_cost", 0.5), _part("dispatcher_batch_cost", 0.95)),
        ),
        Question(
            "What is under way?",
            "Batches in their callbacks. Always at the most allowed: callbacks are what holds it "
            "up, not the limit; raise max_concurrent_batches.",
            (Query(_sum("dispatcher_inflight_batches", "batcher"), "{{batcher}}"),),
        ),
        Question(
            "What is owed?",
            "Cost of all operations that have not ended. Divided by what may be spent in a "
            "period, it says how long it will take.",
            (Query(_sum("dispatcher_needs_capacity", "batcher"), "{{batcher}}"),),
        ),
        Question(
            "What fails?",
            "Batches that did not succeed, operations tried again, and 429s, a second.",
            (
                Query(
                    _rate("dispatcher_batches_total", "batcher, outcome", ', outcome!="done"'),
                    "{{batcher}} {{outcome}}",
                ),
                Query(_rate("dispatcher_retries_total", "batcher"), "{{batcher}} again"),
                Query(_rate("dispatcher_throttled_total", "batcher"), "{{batcher}} refused"),
            ),
            unit="ops",
        ),
        Question(
            "Does it pause?",
            "1 while it is paused, and pauses a second. Often: the datastore refuses.",
            (
                Query(f"max by (batcher) (dispatcher_paused{{{HERE}}})", "{{batcher}}"),
                Query(_rate("dispatcher_pauses_total", "batcher"), "{{batcher}} pauses a second"),
            ),
        ),
    ),
)

LIMITS = Group(
    "Its share of limits",
    (
        Question(
            "What may it spend?",
            "In a period, by kind: shared is what it holds now, reserved its own, max what it "
            "could have.",
            (Query(_sum("dispatcher_capacity", "limit, kind"), "{{limit}} {{kind}}"),),
        ),
        Question(
            "What does it spend?",
            "Cost a second, by kind. Below what it holds while some wait: callbacks are slow.",
            (Query(_rate("dispatcher_spent_cost_total", "limit, kind"), "{{limit}} {{kind}}"),),
        ),
        Question(
            "Does it get its share?",
            "Partitions that it holds and wants, and its fair share. Held below the fair share for "
            "more than two sync intervals: see who holds it, in the limit's own dashboard.",
            (
                Query(_sum("dispatcher_partitions", "limit, state"), "{{limit}} {{state}}"),
                Query(_sum("dispatcher_fair_share", "limit"), "{{limit}} fair share"),
            ),
        ),
        Question(
            "What does it want?",
            "Cost that it could spend now. None while operations wait: it is paused, or all "
            "callbacks are busy.",
            (Query(_sum("dispatcher_demand", "limit"), "{{limit}}"),),
        ),
        Question(
            "Does it go by permits?",
            "Permits a second: the right to start one batch, where its share is too small for one. "
            "Many, each of a small cost: larger batches, or fewer processes, need fewer calls.",
            (Query(_rate("dispatcher_permits_total", "limit"), "{{limit}}"),),
            unit="ops",
        ),
        Question(
            "Does it wait for a permit?",
            "For how long, and its place among those who wait. Long in the first place: an "
            "operation costs so much that others have to give back before.",
            (
                Query(
                    f"max by (limit) (dispatcher_permit_wait_seconds{{{HERE}}})",
                    "{{limit}} seconds",
                ),
                Query(f"max by (limit) (dispatcher_permit_turn{{{HERE}}})", "{{limit}} place"),
            ),
        ),
        Question(
            "Does it reach Redis?",
            "0: its leases run out, and only what is reserved is spent.",
            (Query(f"min by (limit) (dispatcher_redis_up{{{HERE}}})", "{{limit}}"),),
            unit="none",
            look="number",
            width=6,
            words={1: ("yes", GREEN), 0: ("no", RED)},
        ),
        Question(
            "How quick is Redis?",
            "How long it took to answer. Near a quarter of the lease time, leases begin to lapse.",
            (_part("dispatcher_sync_seconds", 0.99, "limit"),),
            unit="s",
            width=9,
        ),
        Question(
            "Does Redis answer?",
            "Calls without an answer a second. Many: Redis, or the way to it.",
            (Query(_rate("dispatcher_sync_failures_total", "limit"), "{{limit}}"),),
            unit="ops",
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
            "Entities, and messages held and released a second. Growing: nobody registers them.",
            (
                Query(_sum("dispatcher_registration_pending", "gate"), "{{gate}} entities"),
                Query(_rate("dispatcher_registration_held_total", "gate"), "{{gate}} held"),
                Query(_rate("dispatcher_registration_released_total", "gate"), "{{gate}} released"),
            ),
        ),
        Question(
            "What does a gate lose?",
            "Held messages a second that were lost: too old (dropped), no room (displaced), "
            "damaged (corrupt). Raise the bounds of the gate, or find who does not register.",
            (
                Query(
                    _rate("dispatcher_registration_dropped_total", "gate, reason"),
                    "{{gate}} {{reason}}",
                ),
            ),
            unit="ops",
        ),
        Question(
            "What is being built?",
            "Open batches by event time, and measurements by subject that are not built yet. "
            "Growing without end: they are not closed.",
            (
                Query(_sum("dispatcher_builder_open_batches", "builder"), "{{builder}} batches"),
                Query(_sum("dispatcher_builder_messages", "builder"), "{{builder}} measurements"),
            ),
        ),
        Question(
            "What do builders leave out?",
            "Messages a second that came twice (duplicate), or that no batch is for (out_of_time).",
            (
                Query(
                    _rate("dispatcher_builder_dropped_total", "builder, reason"),
                    "{{builder}} {{reason}}",
                ),
            ),
            unit="ops",
        ),
    ),
)

BOARD = Board(
    "dispatcher-worker",
    "Dispatcher / One worker",
    "One process that shows its metrics: what it does, what it may spend, what holds it up.",
    (Choice("instance", "Process", "dispatcher_inflight_batches"),),
    (BATCHES, LIMITS, BEFORE),
)
