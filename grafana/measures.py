"""PromQL expressions that panels and rules share. Pure.

Metrics of the exporter are combined with `max`: a second exporter shows the same. Rules keep labels
that they do not use, such as that of an environment; panels do not.
"""

from __future__ import annotations

RULES = "without (instance, pod, job, kind, state, outcome)"
"""The labels by which rules group."""

CLUSTER = 'cluster=~"$cluster"'
"""The cluster that a panel shows: `cluster` is a label from Prometheus' scrape configuration, if
there are several clusters."""


def by(*labels: str) -> str:
    """Return how panels group: the same name in two clusters is two objects."""
    return f"by ({', '.join(('cluster', *labels))})"


def on(*labels: str) -> str:
    """Return how panels match the series of two queries."""
    return by(*labels).replace("by", "on", 1)


def here(more: str = "") -> str:
    """Return the condition of a panel."""
    return f"{CLUSTER}, {more}" if more else CLUSTER


def spent_each_second(combine: str, prefix: str, by: str, window: str, where: str) -> str:
    """The estimated cost of calls when they begin, less refunds and with excess when they end.
    `prefix`: that of the metrics, of instances or of the cluster.

    For a moment there may be more refunds than calls that begin.
    """

    def rate(counter: str) -> str:
        return f"{combine} {by} (rate({prefix}_{counter}_cost_total{{{where}}}[{window}]))"

    return f"clamp_min({rate('spent')} - {rate('refunded')} + {rate('excess')}, 0)"


def spent(by: str, window: str, where: str = "") -> str:
    """Shared cost that is spent in one period of the limit, at its actual cost if it is known."""
    of_limit = f"{{{where}}}" if where else ""
    shared = f'{_and(where)}kind="shared"'
    return (
        f"{spent_each_second('max', 'dispatcher_cluster', by, window, shared)}"
        f" * max {by} (dispatcher_cluster_period_seconds{of_limit})"
    )


def counts(by: str, window: str, where: str = "") -> str:
    """Shared cost that counts in a period of the limit: of calls that run, what was estimated."""
    of_limit = f"{{{where}}}" if where else ""
    spent = f"dispatcher_cluster_spent_last_period_cost{of_limit}"
    rates = f"max {by} (dispatcher_cluster_period_seconds{of_limit})"
    return f"max {by} (avg_over_time({spent}[{window}])) and {rates}"


def capacity(by: str, where: str = "", kind: str = "shared") -> str:
    """Capacity of a limit for one period."""
    return f'max {by} (dispatcher_cluster_capacity{{{_and(where)}kind="{kind}"}})'


def used(by: str, window: str, where: str = "") -> str:
    """The part of the limit that is used: 1 is all of it."""
    return f"{spent(by, window, where)} / ({capacity(by, where)} > 0)"


def slots_used(by: str, where: str = "") -> str:
    """The part of the calls in flight that are taken: 1 is all of them."""
    inner = by.replace(", state, outcome", "") if by == RULES else by.replace(")", ", state)")
    slots = f'dispatcher_cluster_inflight_slots{{{_and(where)}state=~"busy|overdue"}}'
    return f"sum {by} (max {inner} ({slots})) / ({capacity(by, where)} > 0)"


def bound_used(by: str, window: str, where: str = "") -> str:
    """The part that is used of each window of a rate, and of calls in flight."""
    return f"{used(by, window, where)}\nor\n{slots_used(by, where)}"


def taken(by: str, window: str, where: str = "") -> str:
    """The part of a limit that counts: 1 leaves no room, also if actual costs will be lower."""
    return f"({counts(by, window, where)}) / ({capacity(by, where)} > 0)"


def bound_taken(by: str, window: str, where: str = "") -> str:
    """The part that counts of each window of a rate, and of calls in flight."""
    return f"{taken(by, window, where)}\nor\n{slots_used(by, where)}"


def never_binds(window: str) -> str:
    """Dimensions of which never a tenth counted in that time, of limits that are full now in
    another one."""
    rates, slots = "dispatcher:limit_taken:ratio", "dispatcher:slots_used:ratio"
    ever = f"(max_over_time({rates}[{window}]) or max_over_time({slots}[{window}]))"
    now = f"max without (dimension) ({rates} or {slots}) > 0.9"
    return f"{ever} < 0.1\nand ignoring (dimension)\n({now})"


def wanted(by: str, where: str = "") -> str:
    """Demand as a part of the limit: above 1, instances wait."""
    of_limit = f"{{{where}}}" if where else ""
    return f"max {by} (dispatcher_cluster_demand{of_limit}) / ({capacity(by, where)} > 0)"


def failed(window: str) -> str:
    """The part of the batches of each limit that did not succeed; of Batchers without a shared one,
    each for itself."""

    def cluster(where: str) -> str:
        one = f"rate(dispatcher_cluster_batches_total{where}[{window}])"
        return f"sum without (outcome) (max without (instance, pod, job) ({one}))"

    def alone(where: str) -> str:
        one = f"rate(dispatcher_batches_total{where}[{window}])"
        return f"sum without (instance, pod, job, outcome) ({one})"

    shared = f"""{cluster('{outcome!="done"}')} / ({cluster("")} > 0)"""
    others = f"""{alone('{outcome!="done"}')} / ({alone("")} > 0)"""
    return f"{shared}\nor\n({others} unless on (cluster, limit) {cluster('')})"


def due(by: str, where: str = "") -> str:
    """Messages of a topic that are due and not leased."""
    inner = by.replace(", state, outcome", "") if by == RULES else by.replace(")", ", state)")
    messages = f'dispatcher_timeline_messages{{{_and(where)}state=~"new|lost"}}'
    return f"sum {by} (max {inner} ({messages}))"


def refused(window: str) -> str:
    """429s a second: of a shared limit, and of Batchers without one."""
    shared = f"max {RULES} (rate(dispatcher_cluster_throttled_total[{window}]))"
    others = f"sum without (instance, pod, job) (rate(dispatcher_throttled_total[{window}]))"
    return f"{shared}\nor\n({others} unless on (cluster, limit) {shared})"


def cost_ratio(by: str, window: str, where: str = "") -> str:
    """Actual costs of what was settled, as a share of their estimates."""

    def of(kind: str) -> str:
        return (
            f"sum {by} (rate(dispatcher_settled_cost_total"
            f'{{{_and(where)}kind="{kind}"}}[{window}]))'
        )

    return f"{of('actual')} / ({of('estimated')} > 0)"


def cost_ratios(window: str) -> str:
    """That ratio for each limit, over all its Batchers, and for each Batcher without one."""
    of_limits = cost_ratio(RULES.replace(")", ", batcher)"), window, 'limit!=""')
    others = cost_ratio(RULES, window, 'limit=""')
    return f"{of_limits}\nor\n{others}"


def unanswered(window: str, most: float) -> str:
    """Instances with more than `most` unanswered calls for leases a second. One that is cut off
    cannot report it through Redis, only to Prometheus; what it reports later, all share."""
    own = f"max without (instance, pod, job) (rate(dispatcher_sync_failures_total[{window}]))"
    told = f"max {RULES} (rate(dispatcher_cluster_sync_failures_total[{window}]))"
    members = f'max {RULES} (dispatcher_cluster_members{{state="active"}})'
    return f"{own} > {most}\nor\n{told} / clamp_min({members}, 1) > {most}"


def unwatched(window: str) -> str:
    """Clusters without a scraped exporter: none at all, or none of a cluster that had one."""
    there = "dispatcher_exporter_read_seconds"
    had = f"group by (cluster) (present_over_time({there}[{window}]))"
    return f"absent({there})\nor\n({had} unless group by (cluster) ({there}))"


def changed(by: str, where: str) -> str:
    """Changes of the terms of a limit since the step before: `what`, and its present value.

    A label that holds the value makes another value another series: one that was not there.
    """
    terms = {
        "capacity": f'dispatcher_cluster_capacity{{{_and(where)}kind="max"}}',
        "period in seconds": f"dispatcher_cluster_period_seconds{{{where}}}",
        "lease time in seconds": f"dispatcher_cluster_lease_seconds{{{where}}}",
        "cost of a partition": f"dispatcher_cluster_partition_cost{{{where}}}",
    }
    return "\nor\n".join(_changed(by, what, metric) for what, metric in terms.items())


def _changed(by: str, what: str, metric: str) -> str:
    now, before = f"max {by} ({metric})", f"max {by} ({metric} offset $__interval)"
    new = f'count_values {by} ("to", {now}) unless count_values {by} ("to", {before})'
    known = f"{new} and {by.replace('by', 'on', 1)} {before}"
    return f'label_replace({known}, "what", "{what}", "", "")'


def _and(where: str) -> str:
    return f"{where}, " if where else ""
