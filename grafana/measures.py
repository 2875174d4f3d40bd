"""What panels and rules both measure, in PromQL, so that they say the same. Pure.

All that come from the exporter are put together with `max`: a second exporter shows the same.
Rules keep the labels that they do not know, such as that of an environment; panels do not.
"""

from __future__ import annotations

RULES = "without (instance, pod, job, kind, state, outcome)"
"""How rules group."""


def spent(by: str, window: str, where: str = "") -> str:
    """Shared cost that is spent in one period of the limit."""
    of_limit = f"{{{where}}}" if where else ""
    return (
        f"max {by} (rate(dispatcher_cluster_spent_cost_total"
        f'{{{_and(where)}kind="shared"}}[{window}]))'
        f" * max {by} (dispatcher_cluster_period_seconds{of_limit})"
    )


def capacity(by: str, where: str = "", kind: str = "shared") -> str:
    """What may be."""
    return f'max {by} (dispatcher_cluster_capacity{{{_and(where)}kind="{kind}"}})'


def used(by: str, window: str, where: str = "") -> str:
    """Which part of the limit is used: 1 is all of it."""
    return f"{spent(by, window, where)} / ({capacity(by, where)} > 0)"


def wanted(by: str, where: str = "") -> str:
    """How much of it could be used: above 1, somebody waits."""
    of_limit = f"{{{where}}}" if where else ""
    return f"max {by} (dispatcher_cluster_demand{of_limit}) / ({capacity(by, where)} > 0)"


def failed(window: str) -> str:
    """Which part of the batches of each limit did not succeed; of Batchers without one that is
    shared, each for itself."""

    def cluster(where: str) -> str:
        one = f"rate(dispatcher_cluster_batches_total{where}[{window}])"
        return f"sum without (outcome) (max without (instance, pod, job) ({one}))"

    def alone(where: str) -> str:
        one = f"rate(dispatcher_batches_total{where}[{window}])"
        return f"sum without (instance, pod, job, outcome) ({one})"

    shared = f"""{cluster('{outcome!="done"}')} / ({cluster("")} > 0)"""
    others = f"""{alone('{outcome!="done"}')} / ({alone("")} > 0)"""
    return f"{shared}\nor\n({others} unless on (limit) {cluster('')})"


def due(by: str, where: str = "") -> str:
    """Messages of a topic that are due, and nobody has."""
    inner = by.replace(", state, outcome", "") if by.startswith("without") else "by (topic, state)"
    messages = f'dispatcher_timeline_messages{{{_and(where)}state=~"new|lost"}}'
    return f"sum {by} (max {inner} ({messages}))"


def refused(window: str) -> str:
    """429s a second: of a shared limit, and of Batchers without one."""
    shared = f"max {RULES} (rate(dispatcher_cluster_throttled_total[{window}]))"
    others = f"sum without (instance, pod, job) (rate(dispatcher_throttled_total[{window}]))"
    return f"{shared}\nor\n({others} unless on (limit) {shared})"


def unanswered(window: str, most: float) -> str:
    """Where one instance had no answer to more than so many calls for leases a second. One that
    is cut off cannot tell the others, but whoever scrapes it; what it tells later, all share."""
    own = f"max without (instance, pod, job) (rate(dispatcher_sync_failures_total[{window}]))"
    told = f"max {RULES} (rate(dispatcher_cluster_sync_failures_total[{window}]))"
    members = f'max {RULES} (dispatcher_cluster_members{{state="active"}})'
    return f"{own} > {most}\nor\n{told} / clamp_min({members}, 1) > {most}"


def _and(where: str) -> str:
    return f"{where}, " if where else ""
