"""The verdict of `make cluster`: each thing that can be wrong is seen, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.acceptance.spark_runs import Note, Notes
from tests.cluster.verdict import CAPACITY, Played, judged


def call(
    subject: str, first: int, last: int, when: float, *, ends: float | None = None, key: str = ""
) -> list[Note]:
    """The two notes of a handler that is given these rows."""
    seqs, key = (first, last, last - first + 1), key or f"{subject}-{first}-{last}"
    began = Note("began", when, 1, subject, 0, key, False, seqs, key)
    return [began, replace(began, what="ended", when=when + 0.5 if ends is None else ends)]


GOOD = [*call("a", 0, 9, 1.0), *call("a", 10, 19, 2.0), *call("b", 0, 9, 1.0)]
EXPECTED = {"a": 20, "b": 10}


def judge(notes: Iterable[Note], *, again: int = 0) -> Played:
    return judged("a fault", Notes(notes), EXPECTED, again=again)


def test_what_is_right_holds() -> None:
    assert judge(GOOD) == Played("a fault", rows=30, lost=0, twice=0, out_of_order=0, wrong=())


@pytest.mark.parametrize(
    ("notes", "numbers", "said"),
    [
        (GOOD[:4], (10, 0, 0), "10 rows are lost"),
        ([*GOOD[:3], *GOOD[4:]], (10, 0, 0), "10 rows are lost"),  # its handler never ended
        ([*GOOD, *call("b", 0, 9, 3.0)], (0, 10, 0), "1 batches were sent again"),
        (
            [*GOOD, *call("a", 15, 19, 3.0, key="a-10-19")],
            (0, 5, 0),
            "1 batches were sent again",
        ),
        (
            [call("b", 0, 9, 0.5, key="a pack")[0], *GOOD],
            (0, 0, 0),
            "1 subjects were packed in another way in a replay",
        ),
        (
            [*call("a", 10, 19, 1.0), *call("a", 0, 9, 2.0), *call("b", 0, 9, 1.0)],
            (0, 0, 1),
            "1 batches began out of order",
        ),
        (
            [*call("a", 0, 9, 1.0, ends=3.0), *GOOD[2:]],
            (0, 0, 0),
            "1 batches were in flight with another one of their subject",
        ),
        ([*GOOD[:-1], replace(GOOD[-1], late=True)], (0, 0, 0), "1 batches were called late"),
        (
            [*GOOD, replace(GOOD[0], seqs=(0, 9, int(2 * CAPACITY)))],
            (0, 0, 0),
            "1 seconds were over the limit",
        ),
    ],
)
def test_what_is_wrong_is_reported(
    notes: list[Note], numbers: tuple[int, int, int], said: str
) -> None:
    played = judge(notes)

    assert (played.lost, played.twice, played.out_of_order) == numbers
    assert len(played.wrong) == 1
    assert played.wrong[0].startswith(said)
    assert not played.holds


def test_a_kill_explains_that_batches_are_sent_again_but_not_more_of_them() -> None:
    notes = [*GOOD, *call("b", 0, 9, 3.0)]

    assert judge(notes, again=1).holds
    assert not judge([*notes, *call("b", 0, 9, 4.0)], again=1).holds


def test_what_the_fault_itself_found_is_kept() -> None:
    played = judged("a fault", Notes(GOOD), EXPECTED, again=0, failed=("no copy was started",))

    assert played.wrong == ("no copy was started",)


def test_a_late_call_of_a_stopped_process_is_not_concurrent_with_its_successors() -> None:
    began, ended = call("b", 0, 9, 1.0, ends=3.2)
    late = [*GOOD[:4], began, replace(ended, what="ended late")]
    replaced = [*call("b", 0, 9, 2.0), *call("b", 10, 19, 3.0)]
    played = judged("a stop", Notes([*late, *replaced]), {"a": 20, "b": 20}, again=1)

    assert judge(late).holds, "its rows were sent"
    assert played.holds
    assert played.twice == 10
