"""`dispatcher worker --processes`: several, started again when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis
from tests.acceptance.worker_process.started import Start, create, page
from tests.processes.workers import handled, notes
from tests.servers.ports import own_port
from tests.waiting import until


def pids(log: Path) -> set[int]:
    return {one["pid"] for one in notes(log)}


def test_processes_are_started_again_and_end_together(
    timeline: Timeline, start: Start, log: Path
) -> None:
    port = own_port(following=2)
    options = ("--processes", "2", "--metrics-port", str(port), "--max-batch-size", "1")
    supervisor = start("quick", *options)
    until(lambda: page(port, "/readyz")[0] == 200)

    def both_have_worked() -> bool:
        with suppress(AssertionError):  # ids that are there still
            create(timeline, 20)
        return len(pids(log)) >= 2

    until(both_have_worked)
    first = pids(log)
    os.kill(min(first), signal.SIGKILL)
    supervisor.await_word("again in 0.5 s")
    until(lambda: supervisor.text.count("has started") == 3)
    until(lambda: page(port, "/readyz")[0] == 200)
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
    until(lambda: supervisor.text.count("] stopped: ") + supervisor.text.count(" stopped: ") >= 2)


def test_a_second_signal_ends_all_processes(timeline: Timeline, start: Start, log: Path) -> None:
    create(timeline, 10)
    supervisor = start("slow", "--processes", "2", "--max-batch-size", "1")
    supervisor.await_word("has started", times=2)
    until(lambda: notes(log))
    supervisor.signal(signal.SIGTERM)
    supervisor.await_word("stopping: ", times=2)
    supervisor.signal_until_it_ends(signal.SIGTERM)
    assert supervisor.ended() == 143
    until(lambda: not any(map(exists, pids(log))))


@pytest.mark.parametrize("first", ["processes", "supervisor"])
def test_a_signal_to_the_whole_group_is_one_drain(
    timeline: Timeline, start: Start, log: Path, go_on: Path, first: str
) -> None:
    create(timeline, 4)
    one_each = ("--max-batch-size", "1", "--concurrency", "1")
    supervisor = start("slow", "--processes", "2", *one_each)
    until(lambda: len(pids(log)) == 2)
    if first == "supervisor":
        supervisor.signal(signal.SIGTERM)
        supervisor.await_word("stopping: ", times=2)
    for pid in pids(log):
        os.kill(pid, signal.SIGTERM)
    if first == "processes":
        supervisor.await_word("stopping: ", times=2)
        supervisor.signal(signal.SIGTERM)
    assert all(map(exists, pids(log)))
    go_on.touch()
    assert supervisor.ended() == 0
    assert len(handled(log)) == 2
    assert "stopped immediately" not in supervisor.text
    stats = timeline.stats()
    assert (stats.deleted, stats.new, stats.processing) == (2, 2, 0)


def test_processes_that_the_supervisor_has_not_seen_yet_drain_as_well(
    timeline: Timeline, start: Start, log: Path, go_on: Path
) -> None:
    create(timeline, 4)
    one_each = ("--max-batch-size", "1", "--concurrency", "1")
    supervisor = start("slow", "--processes", "2", *one_each)
    pid = supervisor.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until(lambda: len(children.read_text().split()) == 2)
    supervisor.signal(signal.SIGSTOP)
    until(lambda: len(pids(log)) == 2)
    supervisor.signal(signal.SIGTERM)
    supervisor.signal(signal.SIGCONT)
    for pid in pids(log):
        os.kill(pid, signal.SIGTERM)
    supervisor.await_word("stopping: ", times=2)
    go_on.touch()
    assert supervisor.ended() == 0
    assert len(handled(log)) == 2
    assert "stopped immediately" not in supervisor.text


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_working_directory_is_on_the_path_for_the_handler_and_not_before_this_package(
    timeline: Timeline, server: EmbeddedRedis, tmp_path: Path, processes: str
) -> None:
    (tmp_path / "dispatcher.py").write_text("raise RuntimeError('not this one')\n")
    (tmp_path / "shop.py").write_text("def send(messages):\n    print('sent', flush=True)\n")
    create(timeline, 1)
    command = [str(Path(sys.executable).with_name("dispatcher")), "worker", "shop:send"]
    with subprocess.Popen(
        [*command, "--topic", "work", "--processes", processes, "--redis", server.url],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        try:
            assert worker.stdout.readline() == "sent\n"
        finally:
            worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0


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
    until(lambda: timeline.stats().dead == 1)
    [snapshot], _ = timeline.dead()
    assert snapshot.reason.startswith("leased 2 times, and the last attempt did not end")
    assert 1 <= len(notes(log)) <= 2  # a lease that was lost before its message began counts, too
    supervisor.signal(signal.SIGTERM)
    assert supervisor.ended() == 0
    assert "ended with 7" in supervisor.text
