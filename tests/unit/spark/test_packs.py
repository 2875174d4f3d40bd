"""Law K8 without Spark or Redis: from rows to the content of one call."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.spark._ledger.division import Division
from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark._most_cost import MostCost
from dispatcher.spark._rows.cutting import Cut, Unit, name_of
from dispatcher.spark._rows.packs import Pack, Packer
from tests.unit.spark.test_cutting import Row, all_units

SUBJECTS = "abcdefghij"
MOST = Division(1, 8, MostCost.of(6.5))
CUT = Cut(MOST.most_rows, MOST.most_cost)
Entries = dict[bytes, LedgerEntry]

some_rows = st.lists(
    st.tuples(st.sampled_from(SUBJECTS), st.none() | st.integers(0, 9)), min_size=1, max_size=80
).map(lambda rows: [(*row, number) for number, row in enumerate(rows)])
earlier = st.dictionaries(
    st.sampled_from(SUBJECTS).map(name_of),
    st.integers(0, 9).map(lambda until: LedgerEntry(4, 9, None, until)),
)
"""The ledger of earlier micro-batches: rows that are older are late."""


def packs_of(
    rows: list[Row],
    entries: Entries,
    *,
    sizes: tuple[int, ...] = (7,),
    division: Division | None = MOST,
    cut: Cut = CUT,
) -> list[Pack]:
    """Return the packs of micro-batch 5."""
    packer, packs = Packer(division, in_order=True), list[Pack]()
    units = all_units(rows, list(sizes), cut, entries, batch=5)
    for _, of_subject in itertools.groupby(units, key=lambda unit: unit.sequence):
        packs += packer.add(list(of_subject))
    return packs + list(packer.rest())


def facts(unit: Unit) -> tuple[object, ...]:
    return unit.sequence, unit.start, unit.size, unit.late, unit.refused, unit.rows, unit.entry


def facts_of(packs: list[Pack]) -> list[list[tuple[object, ...]]]:
    return [[facts(unit) for unit in pack.units] for pack in packs]


def acknowledged(packs: list[Pack], entries: Entries) -> Entries:
    """Return the ledger after these packs were sent."""
    return entries | {unit.sequence: unit.entry for pack in packs for unit in pack.units}


def some_of(data: st.DataObject, packs: list[Pack]) -> list[Pack]:
    """Return packs that were sent before a crash: any of them, but none before one that it
    follows."""
    sent: list[Pack] = []
    for pack in packs:
        before = [one for one in (pack.waits_for, pack.previous) if one is not None]
        if all(one in sent for one in before) and data.draw(st.booleans()):
            sent.append(pack)
    return sent


@given(some_rows, earlier)
def test_k8_no_two_packs_share_a_subject_unless_one_waits_for_the_other(
    rows: list[Row], entries: Entries
) -> None:
    packs = packs_of(rows, entries)

    found: defaultdict[bytes, list[Pack]] = defaultdict(list)
    for pack in packs:
        for sequence in dict.fromkeys(unit.sequence for unit in pack.units):
            found[sequence].append(pack)
    for mine in found.values():
        for one, other in itertools.pairwise(mine):
            assert one in (other.waits_for, other.previous)


@given(some_rows, earlier)
def test_k1_k8_the_units_of_a_subject_are_those_without_packs_and_in_the_same_order(
    rows: list[Row], entries: Entries
) -> None:
    found: defaultdict[bytes, list[object]] = defaultdict(list)
    plain: defaultdict[bytes, list[object]] = defaultdict(list)
    for packs, place in (
        (packs_of(rows, entries), found),
        (packs_of(rows, entries, division=None), plain),
    ):
        for pack in packs:
            for unit in pack.units:
                place[unit.sequence].append(facts(unit))
    assert found == plain


@given(some_rows, earlier)
def test_k8_a_pack_is_no_larger_than_a_batch_and_has_either_late_rows_or_others(
    rows: list[Row], entries: Entries
) -> None:
    for pack in packs_of(rows, entries):
        assert sum(unit.size for unit in pack.units) <= MOST.most_rows
        assert pack.cost <= 6.5
        assert len({unit.late for unit in pack.left}) <= 1


@given(some_rows, earlier, st.integers(1, 9))
def test_k8_packs_do_not_depend_on_the_size_of_record_batches(
    rows: list[Row], entries: Entries, size: int
) -> None:
    expected = packs_of(rows, entries, sizes=(1,))
    for sizes in ((size,), (10,), (10_000,)):
        packs = packs_of(rows, entries, sizes=sizes)
        assert facts_of(packs) == facts_of(expected)
        assert [pack.name for pack in packs] == [pack.name for pack in expected]


@given(some_rows, earlier, st.data())
def test_k3_k8_a_replay_has_the_same_packs_without_the_acknowledged_ones(
    rows: list[Row], entries: Entries, data: st.DataObject
) -> None:
    packs = packs_of(rows, entries)
    sent = some_of(data, packs)

    again = packs_of(rows, acknowledged(sent, entries), sizes=(3,))

    assert facts_of(again) == facts_of([pack for pack in packs if pack not in sent])
    assert not any(pack.is_rest for pack in again)


@given(some_rows, earlier, st.data())
def test_k3_k8_a_replay_sends_the_rest_of_a_pack_that_was_sent_by_subjects(
    rows: list[Row], entries: Entries, data: st.DataObject
) -> None:
    packs = packs_of(rows, entries)
    divided = data.draw(st.sampled_from(packs))
    before = [one for one in (divided.waits_for, divided.previous) if one is not None]
    sequences = list(dict.fromkeys(unit.sequence for unit in divided.units))
    done = set(data.draw(st.lists(st.sampled_from(sequences))))
    part = Pack([unit for unit in divided.units if unit.sequence in done])

    remembered = acknowledged([*before, part], entries)
    again = [pack for pack in packs_of(rows, remembered) if pack.name == divided.name]

    left = [unit for unit in divided.units if unit.sequence not in done]
    if divided.name:  # without a name it is a part of a subject that is larger than a batch
        assert facts_of(again) == ([list(map(facts, left))] if left else [])
        assert all(pack.is_rest == bool(done) for pack in again)


@given(some_rows, earlier, st.integers(1, 3), st.data())
def test_k3_k8_a_replay_has_the_same_packs_after_one_that_cut_subjects_smaller(
    rows: list[Row], entries: Entries, most: int, data: st.DataObject
) -> None:
    packs = packs_of(rows, entries)
    by_subject = packs_of(rows, entries, division=None, cut=Cut(most))
    sent = some_of(data, by_subject)

    again = packs_of(rows, acknowledged(sent, entries))

    done = set(numbers(sent))
    expected = [[one for one in numbers([pack]) if one not in done] for pack in packs]

    assert [numbers([pack]) for pack in again] == [found for found in expected if found]


def numbers(packs: list[Pack]) -> list[int]:
    return [row[2] for pack in packs for unit in pack.units for row in unit.rows]


@given(some_rows, earlier, st.data())
def test_k8_a_micro_batch_begun_by_subjects_is_finished_in_packs_and_vice_versa(
    rows: list[Row], entries: Entries, data: st.DataObject
) -> None:
    first, then = data.draw(st.permutations([None, MOST]))
    begun = packs_of(rows, entries, division=first)
    sent = some_of(data, begun)

    again = packs_of(rows, acknowledged(sent, entries), division=then)

    assert sorted(numbers(sent) + numbers(again)) == sorted(row[2] for row in rows)


@pytest.mark.parametrize("rows_each", [1, 2, 7, 45])
def test_k8_many_subjects_with_few_rows_make_few_calls(rows_each: int) -> None:
    rows = [
        (f"s{number:04}", second, number)
        for number in range(2_000 // rows_each)
        for second in range(rows_each)
    ]
    packs = packs_of(rows, {}, sizes=(10_000,), division=Division(1, 500), cut=Cut(500))

    assert len(packs) <= 1.1 * len(rows) / 500 + 1
