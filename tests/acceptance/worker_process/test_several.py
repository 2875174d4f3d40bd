"""`dispatcher worker --processes`: several, started again when they end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from dispatcher.timeline import Timeline
from tests.acceptance.worker_process.started import Start, create, page
from tests.processes.workers import notes
from tests.servers import wait_until
from tests.servers.ports import own_port


def pids(log: Path) -> set[int]:
    return {one["pid"] for one in notes(log)}


def test_processes_are_started_again_and_end_together(
    timeline: Timeline, start: Start, log: Path
) -> None:
    port = own_port(following=2)
    options = ("--processes", "2", "--metrics-port", str(port), "--max-batch-size", "1")
    supervisor = start("quick", *options)
    wait_until(lambda: page(port, "/readyz")[0] == 200)

    def both_have_worked() -> bool:
        with suppress(AssertionError):  # ids that are there still
            create(timeline, 20)
        return len(pids(log)) >= 2

    wait_until(both_have_worked)
    first = pids(log)
    os.kill(min(first), signal.SIGKILL)
    supervisor.await_word("again in 0.5 s")
    wait_until(lambda: supervisor.text.count("has started") == 3)
    wait_until(lambda: page(port, "/readyz")[0] == 200)
    assert page(port + 1, "/metrics")[0] == 200
    supervisor.signal(signal.SIGTERM)
    assert supervisor.ended() == 0
    for pid in first:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_processes_end_with_their_supervisor_however_that_ends(
    timeline: Timeline, start: Start, log: Path
) -> None:
    create(timeline, 1)
    supervisor = start("quick", "--processes", "2")
    supervisor.await_word("has started", times=2)
    supervisor.signal(signal.SIGKILL)
    wait_until(
        lambda: supervisor.text.count("] stopped: ") + supervisor.text.count(" stopped: ") >= 2
    )


def test_a_second_signal_ends_all_processes(timeline: Timeline, start: Start, log: Path) -> None:
    create(timeline, 10)
    supervisor = start("slow", "--processes", "2", "--max-batch-size", "1")
    supervisor.await_word("has started", times=2)
    wait_until(lambda: notes(log))
    supervisor.signal(signal.SIGTERM)
    supervisor.await_word("stopping: ", times=2)
    supervisor.signal(signal.SIGTERM)
    assert supervisor.ended() == 143
    wait_until(lambda: not any(map(exists, pids(log))))


def exists(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return False


def test_what_never_was_ready_is_not_started_again(timeline: Timeline, start: Start) -> None:
    supervisor = start("nowhere:at_all", "--processes", "2")
    assert supervisor.ended() == 1
    assert "No module named 'nowhere'" in supervisor.text
    assert "giving up" in supervisor.text


def test_a_handler_that_kills_its_process_ends_among_the_dead(
    timeline: Timeline, start: Start, log: Path
) -> None:
    create(timeline, 1)
    options = ("--lease-time", "1.5", "--max-attempts", "2")
    supervisor = start("crash", "--processes", "2", *options)
    wait_until(lambda: timeline.stats().dead == 1)
    [snapshot], _ = timeline.dead()
    assert snapshot.reason.startswith("leased 2 times, and the last attempt did not end")
    assert 1 <= len(notes(log)) <= 2  # a lease that was lost before its message began counts, too
    supervisor.signal(signal.SIGTERM)
    assert supervisor.ended() == 0
    assert "ended with 7" in supervisor.text
