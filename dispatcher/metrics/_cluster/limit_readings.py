"""Values of metrics of a limit, from what Redis stores. Pure.

Values that each window and each number of calls in flight has of its own have the label `dimension`
where a limit has several of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dispatcher.metrics import _names as names
from dispatcher.metrics.readings import Reading
from limiters.leases import BoundView, HoldingView, InstanceView, LimitView
from limiters.leases._totals import name_in

Held = tuple[InstanceView, HoldingView]
"""An instance, and what it holds of one bound."""


def read_limit(name: str, view: LimitView, *, members: bool) -> Iterator[Reading]:
    """Read a limit. `members`: also each of its instances."""
    alive = [one for one in view.instances if one.lease_ms > 0]
    overdue = [one for one in view.instances if one.lease_ms <= 0 and one.holds]
    for number, bound in enumerate(view.bounds):
        label = (bound.dimension,) if len(view.bounds) > 1 else ()
        holding = [(one, one.bounds[number]) for one in alive]
        lost = [(one, one.bounds[number]) for one in overdue]
        yield from _read_bound(name, label, view, bound, holding, lost)
        if members:
            yield from _read_members(name, label, view, holding)
    yield Reading(names.CLUSTER_LEASE, (name,), view.terms.lease / 1000)
    yield Reading(names.CLUSTER_MEMBERS, (name, "active"), len(alive))
    yield Reading(names.CLUSTER_MEMBERS, (name, "overdue"), len(overdue))
    evicted = sum(one.evicted for one in view.instances)
    yield Reading(names.CLUSTER_MEMBERS, (name, "evicted"), evicted)
    yield Reading(names.CLUSTER_UNCERTAIN, (name, view.cause), view.uncertain_ms / 1000)
    yield Reading(names.CLUSTER_SKEW, (name,), view.skew_ms / 1000)
    waiting = [one.waits_ms for one in alive if one.waits]
    yield Reading(names.CLUSTER_WAITING, (name,), len(waiting))
    yield Reading(names.CLUSTER_WAITING_LONGEST, (name,), max(waiting, default=0) / 1000)
    yield from read_totals(name, view)
    if members:
        for one in alive:
            labels = (name, one.label or one.instance)
            yield Reading(names.MEMBER_WAIT, labels, one.waits_ms / 1000 if one.waits else 0)
            yield Reading(names.MEMBER_SILENT, labels, one.seen_ms / 1000)


def _read_bound(
    name: str,
    label: tuple[str, ...],
    view: LimitView,
    bound: BoundView,
    holding: Sequence[Held],
    lost: Sequence[Held],
) -> Iterator[Reading]:
    reserved = sum(one.reserved for _, one in holding)
    for kind, capacity in (
        ("shared", bound.capacity),
        ("max", bound.terms.capacity),
        ("reserved", reserved),
    ):
        yield Reading(names.CLUSTER_CAPACITY, (name, kind, *label), capacity)
    worth = view.terms.factor * (bound.terms.capacity / view.terms.capacity)
    yield Reading(names.CLUSTER_PARTITION, (name, *label), worth)
    held, overdue = (sum(one.held for _, one in some) for some in (holding, lost))
    for state, share in (("held", held), ("overdue", overdue), ("free", bound.free)):
        labels = (name, state, *label)
        yield Reading(names.CLUSTER_PARTITIONS, labels, share * view.partitions)
    spent = sum(one.spent for _, one in holding)
    yield Reading(names.CLUSTER_DEMAND, (name, *label), sum(one.need for _, one in holding))
    yield Reading(names.CLUSTER_SPENT_NOW, (name, *label), spent)
    if bound.terms.slots:
        for state, slots in _slots(bound, holding, overdue):
            yield Reading(names.CLUSTER_SLOTS, (name, state, *label), slots)
    else:
        yield Reading(names.CLUSTER_PERIOD, (name, *label), bound.terms.period / 1000)
        waiting = sum(one.waits_for for _, one in holding)
        yield Reading(names.CLUSTER_WAITING_COST, (name, *label), waiting)


def _slots(
    bound: BoundView, holding: Sequence[Held], overdue: float
) -> Iterator[tuple[str, float]]:
    """Yield how many slots are in each state. Busy ones are those at the peak of each instance
    lately, so at most what it holds."""
    slots = bound.capacity
    held = [(one.held * slots, one.spent) for _, one in holding]
    busy = sum(min(have, peak) for have, peak in held)
    yield "busy", busy
    yield "idle", sum(have for have, _ in held) - busy
    yield "overdue", overdue * slots
    yield "free", max(0.0, bound.free * slots)


def _read_members(
    name: str, label: tuple[str, ...], view: LimitView, holding: Sequence[Held]
) -> Iterator[Reading]:
    for who, one in holding:
        labels = (name, who.label or who.instance, *label)
        yield Reading(names.MEMBER_PARTITIONS, labels, one.held * view.partitions)
        yield Reading(names.MEMBER_DEMAND, labels, one.need)
        yield Reading(names.MEMBER_SPENT, labels, one.spent)
        yield Reading(names.MEMBER_SHARE, labels, one.share * view.partitions)


def read_totals(name: str, view: LimitView) -> Iterator[Reading]:
    """Read what all instances of a limit have done, as far as they have reported it."""
    done = view.done
    for outcome in ("done", "failed", "abandoned", "returned"):
        labels = (name, outcome)
        yield Reading(names.CLUSTER_OPERATIONS, labels, done[f"operations_{outcome}"])
    for outcome in ("done", "failed", "abandoned"):
        yield Reading(names.CLUSTER_BATCHES, (name, outcome), done[f"batches_{outcome}"])
    for metric, counter in (
        (names.CLUSTER_SPENT, "spent"),
        (names.CLUSTER_REFUNDED, "refunded"),
        (names.CLUSTER_EXCESS, "excess"),
    ):
        for kind in ("shared", "reserved"):
            for bound in view.bounds:
                own = name_in(f"{counter}_{kind}", bound.cost_dimension, view.cost_dimensions)
                label = (bound.dimension,) if len(view.bounds) > 1 else ()
                yield Reading(metric, (name, kind, *label), done[own])
    for metric, counter in (
        (names.CLUSTER_THROTTLED, "throttled"),
        (names.CLUSTER_RETRIES, "retries"),
        (names.CLUSTER_PAUSES, "pauses"),
        (names.CLUSTER_SYNC_FAILURES, "sync_failures"),
    ):
        yield Reading(metric, (name,), done[counter])
