"""The storms and histories can fail: each rule of the design, taken out, is found."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from tests.simulation import histories, mutants
from tests.simulation.mutants import Mutant
from tests.simulation.storms import STORMS

EXACT = 1 + 1e-6

SEEDS = range(2, 62)
"""Seeds of the storms that look for a mistake; seed 1 takes long."""

FOUND_BY_HISTORY: list[tuple[str, Mutant, Callable[[], float]]] = [
    ("nothing comes along", mutants.nothing_comes_along, histories.handed_over_after_spending),
    ("given up at expiry", mutants.given_up_at_expiry, histories.silent_holder),
    ("no quarantine", mutants.no_quarantine, histories.flushed),
    ("newest entries move", mutants.whole_entries(True), histories.lowered_and_handed_over),
    ("oldest entries move", mutants.whole_entries(False), histories.lowered_and_handed_over),
    ("rounded again", mutants.rounded_again, histories.entry_that_moves_often),
    ("permit does not count", mutants.permit_does_not_count, histories.permits_in_turn),
    ("corrected in full", mutants.corrected_in_full, histories.corrected_after_a_hand_over),
    ("permit outlasts a lease", mutants.permit_outlasts_a_lease, histories.permit_after_failover),
    ("clock believed", mutants.clock_believed, histories.clock_set_forward),
    ("doubt forgotten", mutants.doubt_forgotten, histories.time_goes_on_after_a_step),
    ("last one received", mutants.confirmed_by_the_last(True), histories.slewed_clock),
    ("last one sent", mutants.confirmed_by_the_last(False), histories.slewed_clock),
    ("no nonce", mutants.no_nonce, histories.late_copy_after_a_flush),
    ("any nonce", mutants.nonce_of_any_takeover, histories.late_claim_after_a_second_flush),
    ("first statement", mutants.first_statement_stays, histories.part_given_up_on_the_way),
    ("the same when certain", mutants.first_statement_stays, histories.part_given_up_astray),
    (
        "returns immediately",
        mutants.missing_returns_at_once,
        histories.part_given_up_waits_a_period,
    ),
    ("no gap rule", mutants.no_gap_rule, histories.back_after_a_gap),
    ("other servers", mutants.other_servers_ignored, histories.told_of_another_server),
    ("delete, period", mutants.deletes_without_the_period, histories.deleted_while_held),
    ("delete, doubt", mutants.deletes_without_the_doubt, histories.deleted_while_uncertain),
    ("delete, claims", mutants.deletes_what_was_claimed, histories.deleted_after_a_claim),
    ("repeated", mutants.repeated_with_a_grant, histories.repeated_after_it_was_given_up),
    ("young registry", mutants.registry_of_any_age, histories.registry_too_young),
    ("registry of another", mutants.registry_of_any_server, histories.registry_of_another_server),
    ("registry, no names", mutants.registry_without_names, histories.evicted_from_memory),
    ("shorter terms", mutants.learns_nothing_of_leases, histories.shorter_terms_first),
    ("no version", mutants.terms_without_version, histories.older_terms_after_a_failover),
    ("unknown amount", mutants.unknown_amounts_ignored, histories.older_state_in_place),
    ("refused goes on", mutants.goes_on_when_refused, histories.refused_with_longer_terms),
]


@pytest.mark.parametrize(
    ("mutant", "history"),
    [one[1:] for one in FOUND_BY_HISTORY],
    ids=[one[0] for one in FOUND_BY_HISTORY],
)
def test_a_rule_taken_out_is_found_by_a_history(
    mutant: Mutant, history: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert history() <= EXACT
    mutant(monkeypatch)
    assert history() > 1.01


def test_each_history_is_used() -> None:
    all_of_them = {
        name
        for name, one in inspect.getmembers(histories, inspect.isfunction)
        if one.__module__ == histories.__name__ and not name.startswith("_")
    }
    assert all_of_them == {one.__name__ for _, _, one in FOUND_BY_HISTORY}


@pytest.mark.parametrize(
    "mutant",
    [
        mutants.no_quarantine,
        pytest.param(mutants.nothing_comes_along, marks=pytest.mark.long),
        pytest.param(mutants.permit_does_not_count, marks=pytest.mark.long),
    ],
)
def test_a_rule_taken_out_is_found_by_storms(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(STORMS["every-fault"](seed).over for seed in SEEDS)


@pytest.mark.parametrize(
    ("mutant", "storm", "first"),
    [
        (mutants.no_quarantine, "shorter-first", 2),
        pytest.param(mutants.nothing_comes_along, "split-brain", 2, marks=pytest.mark.long),
        # one seed in 25 finds it
        pytest.param(mutants.clock_believed, "small-steps", 28, marks=pytest.mark.long),
    ],
)
def test_a_rule_taken_out_is_found_in_storms_of_an_exception(
    mutant: Mutant, storm: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(STORMS[storm](seed).over for seed in range(first, first + 60))


def test_n3_slots_that_are_lost_are_found_after_a_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STORMS["several-changes"](9).holds
    mutants.slots_lost_on_release(monkeypatch)
    assert any("slots are free" in one for one in STORMS["several-changes"](9).stalled)
