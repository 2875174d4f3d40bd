"""Gaps in the requests, in which another server may have renewed leases: laws C2 and N2."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from limiters.leases._coordinator import certainty
from limiters.leases._coordinator.state import Holding, Limit, Record
from limiters.leases._messages import Terms
from limiters.testing import Backlog, SimulatedCluster
from tests.examples import examples

LEASE, PERIOD = 2_000, 6_000


def terms_of(lease: int) -> Terms:
    return Terms.scalar(100.0, 10.0, PERIOD, lease)


TERMS = terms_of(LEASE)

LEASES = st.sampled_from([LEASE, LEASE, 500, 20_000])
GAPS = st.lists(st.tuples(st.integers(0, 12_000), st.integers(1_000, 9_000), LEASES), max_size=12)
"""How long requests came before each gap, how long the gap was, and the lease that is in force."""


def limit_at(now: int) -> Limit:
    limit = Limit("s1", "n1", TERMS, now)
    limit.follow(TERMS)
    limit.last = now
    return limit


def held_until(gone: int) -> Record:
    return Record([Holding(units=1)], gone=gone)


@settings(max_examples=examples(200), deadline=None)
@given(GAPS, st.integers(0, 60_000))
def test_c2_no_lease_ends_before_it_could_have_been_renewed_in_each_gap(
    gaps: list[tuple[int, int, int]], gone: int
) -> None:
    limit, record, end = limit_at(0), held_until(gone), gone
    for before, gap, lease in gaps:
        limit.terms = terms_of(lease)
        limit.last = limit.now + before
        limit.now = limit.last + gap
        if certainty.gone_at(limit, record) <= limit.now:
            assert end + TERMS.bounds[0].lasting <= limit.now
            return
        certainty.note_gap(limit)
        if end >= limit.last:
            end = max(end, limit.now + lease)
        assert certainty.lease_end(limit, record) >= end


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(2_001, 9_000), st.integers(1_001, 3_000)), min_size=60))
def test_n2_an_instance_is_given_up_although_gaps_go_on(gaps: list[tuple[int, int]]) -> None:
    limit, record = limit_at(0), held_until(0)
    for before, gap in gaps:
        limit.last = limit.now = limit.now + before
        if certainty.gone_at(limit, record) <= limit.now:
            break
        limit.now += gap
        certainty.note_gap(limit)
    assert limit.now <= 3 * (LEASE + TERMS.bounds[0].lasting + 12_000)


def test_c2_what_a_killed_instance_held_is_free_in_time_although_the_other_one_stalls() -> None:
    lease, period, interval = 1.0, 6.0, 0.25
    cluster = SimulatedCluster(
        capacity=100, factor=1, seed=1, period=period, lease_time=lease, interval=interval
    )
    cluster.add("killed", Backlog(1))
    cluster.run(period)
    cluster.kill("killed")
    killed_at = cluster.now
    cluster.add("other", Backlog(1))
    for count in range(1, 6):
        cluster.at(killed_at + 3 * count, lambda now: cluster.hang("other", 3 * interval))
    cluster.run(killed_at + 15)
    first = min(call.at for call in cluster.log if call.instance == "other")
    assert first - killed_at <= lease + 5 * interval + period + 1
