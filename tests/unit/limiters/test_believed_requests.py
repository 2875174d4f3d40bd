"""Requests are believed only as far as an instance can be right: a mad one harms no other
instance."""

from __future__ import annotations

import math
from typing import Any

import pytest

from limiters import ArgumentError, LeaseManagerError, MemoryLeaseManager
from limiters.leases._coordinator import Coordinator
from limiters.leases._format import MAX_WHOLE, REQUEST, UNITS, FieldKind
from limiters.leases._messages import Kind, Reply, Request, Terms, altered
from limiters.leases._terms_change import LimitChange
from tests.samples import sample
from tests.story import TERMS, Instance, Server, Story
from tests.twins.compared import plain

FAR = 10**14
HUGE = 1e99
AGES = tuple((age, HUGE) for age in range(0, 1_000, 5))
STAMPS = tuple((FAR + at, HUGE) for at in range(100))
# Not among them: to claim more than is known. After another server was in charge that is how a
# limit learns who holds what (law C8), so a lie has it start over. The security policy says so.
MAD: tuple[dict[str, Any], ...] = (
    *({"interval": number} for number in (0, 10**9, MAX_WHOLE, -1, math.nan)),
    *({"valid": number} for number in (0, 10**9, MAX_WHOLE, -1)),
    *({"weight": number} for number in (0, -1, 10**9, MAX_WHOLE, 0.5)),
    *({"waited": number} for number in (FAR, -FAR, MAX_WHOLE)),
    *({"piece": number} for number in (HUGE, 1e300, 1e-300, -1.0, math.inf)),
    *({"ask": number, "gathers": True} for number in (HUGE, 1e-300, -1.0, math.nan)),
    *({"need": number} for number in (HUGE, -HUGE, 1e308)),
    *({"spent": number, "by_permit": -number, "reserved": number} for number in (HUGE, 1e308)),
    *({"released": number} for number in (-1, -UNITS, UNITS, 0.5)),
    *({"units": number, "ended": True} for number in (-1, -UNITS, 0, 0.5)),
    {"released": 1, "history": AGES},
    {"released": 1, "history": tuple((-age, cost) for age, cost in AGES)},
    {"released": 1, "stamped": STAMPS},
    {"released": 1, "stamped": STAMPS * 100},
    {"permit_spent": tuple((-1, cost) for _, cost in AGES)},
    {"permit_spent": AGES},
    {"totals": (1e308, -1e308)},
    {"totals": (1.0,) * 100_000},
    {"label": "x" * 100_000},
    {"instance": "x" * 10_000},
    {"nonce": "x" * 100_000},
    *({"born": number} for number in (-1, MAX_WHOLE, 0.5)),
)


class MadInstance(Instance):
    """Says something else than what is so, in every request."""

    changes: dict[str, Any]

    def exchange(self, server: Server, now: float) -> Reply | None:
        request = self.share.compose(now)
        reply = server.sync(altered(request, **self.changes), now)
        if reply.kind is Kind.INVALID or reply.seq != request.seq:
            self.share.unanswered(now)
            return None
        self.share.answered(reply, now, now)
        return reply


@pytest.mark.parametrize("changes", sample(MAD, every=3), ids=lambda one: str(one)[:60])
def test_a_mad_instance_takes_no_more_than_its_share_from_the_other(
    changes: dict[str, Any],
) -> None:
    story = Story()
    one = story.join("one")
    story.run(1.5)
    mad = MadInstance("mad")
    mad.changes = changes
    story.instances.append(mad)
    story.run(4)
    since = story.now
    story.run(3)
    assert one.used(since, story.now) >= 0.45 * 3 * TERMS.capacity
    limit = story.server.stored.limit
    assert limit is not None
    assert len(limit.bounds[0].ledger.entries) < 1_000
    assert len(limit.bounds[0].returning) < 1_000


@pytest.mark.parametrize(
    "terms",
    [
        *({"capacity": number} for number in (0.0, -1.0, math.nan, math.inf, 1e-200)),
        *({"factor": number} for number in (0.0, -1.0, 1e-9, math.nan)),
        *({"period": number} for number in (0, -1, 10**12, 0.5)),
        *({"lease": number} for number in (0, -1, 10**12)),
        *({"version": number} for number in (MAX_WHOLE, -1)),
        *({"in_force": number} for number in (-1.0, math.nan)),
        *({"rising": number} for number in (-1.0, math.inf)),
    ],
    ids=str,
)
def test_terms_that_no_limit_can_have_are_refused_by_name(terms: dict[str, Any]) -> None:
    manager = MemoryLeaseManager()
    [name] = terms
    with pytest.raises(LeaseManagerError, match=f"has {name} that no instance can have"):
        manager.sync(
            Request.scalar("a", 1, altered(Terms.scalar(1_000.0, 50.0, 1_000, 2_000), **terms))
        )
    assert manager.look() is None


def test_every_number_of_a_request_has_a_bound() -> None:
    for one in REQUEST:
        if one.kind in (FieldKind.WHOLE, FieldKind.FLOAT):
            assert math.isfinite(one.low), one.name
            assert math.isfinite(one.high), one.name


@pytest.mark.parametrize(
    "change",
    [{"capacity": math.nan}, {"factor": -1.0}, {"period": 0.5}, {"lease": 1}, {"ramp": math.inf}],
)
def test_a_change_that_no_operator_can_make_is_refused(change: dict[str, Any]) -> None:
    coordinator = Coordinator()
    coordinator.set_terms(
        "one", 0, "", LimitChange.scalar(capacity=5.0, factor=1.0, period=1_000, lease=2_000)
    )
    before = plain(coordinator.limit)
    with pytest.raises(ArgumentError, match=f"{next(iter(change))} must be what a limit can have"):
        coordinator.set_terms("one", 10, "x", LimitChange.scalar(**change))
    assert plain(coordinator.limit) == before
