"""`dispatcher worker`: signals, exit codes, and being killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dispatcher.timeline import Timeline
from tests.acceptance.worker_process.started import Start, create
from tests.processes.workers import handled, notes
from tests.waiting import until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_gives_back_the_rest_immediately(
    timeline: Timeline, start: Start, log: Path, go_on: Path, number: signal.Signals
) -> None:
    create(timeline, 10)
    worker = start("slow", "--max-batch-size", "2", "--concurrency", "1", "--reserved", "100")
    until(lambda: notes(log))
    worker.signal(number)
    worker.await_word("stopping")
    until(lambda: timeline.stats().processing == 2)
    go_on.touch()
    assert worker.ended() == 0
    assert len(handled(log)) == 2
    stats = timeline.stats()
    assert (stats.deleted, stats.new, stats.processing) == (2, 8, 0)


def test_what_does_not_end_within_the_drain_time_is_given_back(
    timeline: Timeline, start: Start, log: Path
) -> None:
    create(timeline, 2)
    worker = start("slow", "--drain-time", "0.2", "--max-batch-size", "2")
    until(lambda: notes(log))
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert "still in the handler after the drain time" in worker.text
    stats = timeline.stats()
    assert (stats.new, stats.processing) == (2, 0)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_a_second_signal_stops_immediately(
    timeline: Timeline, start: Start, log: Path, number: signal.Signals, code: int
) -> None:
    create(timeline, 2)
    worker = start("slow", "--max-batch-size", "2")
    until(lambda: notes(log))
    worker.signal(number)
    worker.await_word("stopping")
    worker.signal_until_it_ends(number)
    assert worker.ended() == code
    assert timeline.stats().processing == 2


def test_signals_at_the_same_moment_are_one_drain(
    timeline: Timeline, start: Start, log: Path, go_on: Path
) -> None:
    create(timeline, 4)
    worker = start("slow", "--max-batch-size", "2", "--concurrency", "1")
    until(lambda: notes(log))
    worker.signal(signal.SIGSTOP)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        worker.signal(number)
    worker.await_word("stopping")
    go_on.touch()
    assert worker.ended() == 0
    assert "stopped immediately" not in worker.text
    stats = timeline.stats()
    assert (stats.deleted, stats.processing) == (2, 0)


def test_t7_a_killed_worker_blocks_no_message_longer_than_its_lease(
    timeline: Timeline, start: Start, log: Path, go_on: Path
) -> None:
    create(timeline, 5)
    killed = start("slow", "--lease-time", "1", "--max-batch-size", "5")
    until(lambda: notes(log))
    killed.signal(signal.SIGKILL)
    killed.ended()
    other = start("quick")
    until(lambda: len(handled(log)) == 5)
    other.signal(signal.SIGTERM)
    assert other.ended() == 0
    assert timeline.stats().deleted == 5
