"""`dispatcher worker` as a process: signals, exit codes, probes, several processes, bad input."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from redis import Redis

from dispatcher.timeline import Message, Timeline
from limiters.embedded import EmbeddedRedis, free_port
from tests.processes import ROOT
from tests.processes.workers import WorkerProcess, handled, notes
from tests.servers import wait_until

HANDLERS = "tests.processes.worker_handlers"
Start = Callable[..., WorkerProcess]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(password="secret") as made:
        yield made


@pytest.fixture
def timeline(server: EmbeddedRedis) -> Iterator[Timeline]:
    with Redis.from_url(server.url) as client:
        client.flushall()
    made = Timeline(server.url, "work", buckets=4)
    assert made.buckets == 4
    yield made
    made.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def go_on(tmp_path: Path) -> Path:
    return tmp_path / "go_on"


@pytest.fixture
def start(server: EmbeddedRedis, log: Path, go_on: Path) -> Iterator[Start]:
    started: list[WorkerProcess] = []

    def begin(handler: str, *options: str, **environment: str) -> WorkerProcess:
        known = {"LOG": str(log), "GO_ON": str(go_on), "DISPATCHER_REDIS": server.url}
        one = WorkerProcess(
            handler if ":" in handler else f"{HANDLERS}:{handler}",
            *("--topic", "work", "--flush-interval", "0.01", *options),
            **{**known, **environment},
        )
        started.append(one)
        return one

    yield begin
    for one in started:
        one.end()


def create(timeline: Timeline, count: int) -> None:
    made = [Message(number, id=f"m{number}") for number in range(count)]
    assert all(outcome.ok for outcome in timeline.producer("us").create(made))


def page(port: int, path: str) -> tuple[int, str]:
    """The status and the text; 0 if nobody listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (URLError, OSError):
        return 0, ""


# Signals.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_gives_back_the_rest_at_once(
    timeline: Timeline, start: Start, log: Path, go_on: Path, number: signal.Signals
) -> None:
    create(timeline, 10)
    worker = start("slow", "--max-batch-size", "2", "--concurrency", "1", "--reserved", "100")
    wait_until(lambda: notes(log))
    worker.signal(number)
    worker.await_word("stopping")
    wait_until(lambda: timeline.stats().processing == 2)
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
    wait_until(lambda: notes(log))
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert "still in the handler after the drain time" in worker.text
    stats = timeline.stats()
    assert (stats.new, stats.processing) == (2, 0)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_a_second_signal_stops_at_once(
    timeline: Timeline, start: Start, log: Path, number: signal.Signals, code: int
) -> None:
    create(timeline, 2)
    worker = start("slow", "--max-batch-size", "2")
    wait_until(lambda: notes(log))
    worker.signal(number)
    worker.await_word("stopping")
    worker.signal(number)
    assert worker.ended() == code
    assert timeline.stats().processing == 2


def test_t7_a_killed_worker_blocks_nobody_longer_than_its_lease(
    timeline: Timeline, start: Start, log: Path, go_on: Path
) -> None:
    create(timeline, 5)
    killed = start("slow", "--lease-time", "1", "--max-batch-size", "5")
    wait_until(lambda: notes(log))
    killed.signal(signal.SIGKILL)
    killed.ended()
    other = start("quick")
    wait_until(lambda: len(handled(log)) == 5)
    other.signal(signal.SIGTERM)
    assert other.ended() == 0
    assert timeline.stats().deleted == 5


# Probes.


def test_probes_and_metrics(timeline: Timeline, start: Start) -> None:
    port = free_port()
    create(timeline, 3)
    worker = start("quick", "--metrics-port", str(port))
    wait_until(lambda: page(port, "/readyz") == (200, "ok\n"))
    assert page(port, "/healthz") == (200, "ok\n")
    wait_until(lambda: timeline.stats().deleted == 3)
    status, text = page(port, "/metrics")
    assert status == 200
    assert 'dispatcher_operations_total{batcher="work",limit="",outcome="done"} 3.0' in text
    assert page(port, "/")[0] == 404
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert page(port, "/healthz") == (0, "")


def test_a_worker_waits_for_redis_and_says_so_once(log: Path, start: Start) -> None:
    port, metrics = free_port(), free_port()
    url = f"redis://:hidden@127.0.0.1:{port}/0"
    worker = start("quick", "--metrics-port", str(metrics), DISPATCHER_REDIS=url)
    worker.await_word("waiting for Redis")
    wait_until(lambda: page(metrics, "/healthz")[0] == 200)
    assert page(metrics, "/readyz") == (503, "it is new\n")
    with EmbeddedRedis(port=port, password="hidden") as late:
        timeline = Timeline(late.url, "work")
        create(timeline, 1)
        wait_until(lambda: len(handled(log)) == 1)
        timeline.close()
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    assert worker.text.count("waiting for Redis") == 1
    assert "hidden" not in worker.text


def test_a_signal_ends_the_wait_for_redis(start: Start) -> None:
    worker = start("quick", DISPATCHER_REDIS=f"redis://127.0.0.1:{free_port()}/0")
    worker.await_word("waiting for Redis")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_systemd_is_told(timeline: Timeline, start: Start, tmp_path: Path) -> None:
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(place)
        line.settimeout(30)
        worker = start("quick", NOTIFY_SOCKET=place, WATCHDOG_USEC="200000")
        words: list[str] = []
        while "READY=1" not in words or words.count("WATCHDOG=1") < 3:
            words += line.recv(1_000).decode().splitlines()
        assert f"MAINPID={worker.process.pid}" in words
        worker.signal(signal.SIGTERM)
        while "STOPPING=1" not in words:
            words += line.recv(1_000).decode().splitlines()
        assert worker.ended() == 0


# Several processes.


def pids(log: Path) -> set[int]:
    return {one["pid"] for one in notes(log)}


def test_processes_are_started_again_and_end_together(
    timeline: Timeline, start: Start, log: Path
) -> None:
    port = free_port()
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
    options = ("--lease-time", "0.5", "--max-attempts", "2")
    supervisor = start("crash", "--processes", "2", *options)
    wait_until(lambda: timeline.stats().dead == 1)
    [snapshot], _ = timeline.dead()
    assert snapshot.reason.startswith("leased 2 times, and the last attempt did not end")
    assert len(notes(log)) == 2
    supervisor.signal(signal.SIGTERM)
    assert supervisor.ended() == 0
    assert "ended with 7" in supervisor.text


# --check, and bad input.


def test_check_says_what_would_be_used_from_where_and_whether_it_works(
    timeline: Timeline, start: Start, tmp_path: Path
) -> None:
    create(timeline, 3)
    config = tmp_path / "worker.toml"
    config.write_text("[worker]\nconcurrency = 4\nlease_time = 9\nlimit = 'store'\n")
    options = ("--check", "--config", str(config), "--lease-time", "7", "--shared-capacity", "50")
    worker = start("send", *options, DISPATCHER_CONCURRENCY="5", STORE="x")
    assert worker.ended() == 0
    lines = [line.split() for line in worker.text.splitlines()]
    assert ["concurrency", "5", "DISPATCHER_CONCURRENCY"] in lines
    assert ["lease-time", "7", "command", "line"] in lines
    assert ["limit", "store", str(config), "[worker]", "limit"] in lines
    assert ["max-batch-size", "100", "default"] in lines
    assert f"ok  handler  {HANDLERS}:send, def" in worker.text
    assert "3 due, 0 waiting, 0 leased, 0 dead" in worker.text
    assert "store: not there yet, to be made with 50" in worker.text
    assert "secret" not in worker.text
    assert timeline.stats().new == 3, "it has leased nothing"


def test_check_finds_all_that_is_not_well(start: Start, timeline: Timeline) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        url = f"redis://:hidden@127.0.0.1:{free_port()}/0"
        options = ("--check", "--metrics-port", port, "--limit", "x", "--shared-capacity", "5")
        worker = start("nowhere:at_all", *options, DISPATCHER_REDIS=url)
        assert worker.ended() == 1
    assert "not well: handler, topic, limit, port" in worker.text
    assert "refuses connections; does it run" in worker.text
    assert "hidden" not in worker.text


def bad_module(tmp_path: Path) -> str:
    (tmp_path / "broken_handlers.py").write_text("import json\n\njson.loads('{')\n")
    return "broken_handlers:send"


def test_a_handler_that_does_not_import_says_why(
    timeline: Timeline, start: Start, tmp_path: Path
) -> None:
    worker = start(bad_module(tmp_path), PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert worker.ended() == 1
    assert 'broken_handlers.py", line 3' in worker.text
    assert "JSONDecodeError" in worker.text


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--topic", "wrok"], 1, "there is no topic 'wrok'"),
        (["--batch", "3"], 2, "unrecognized arguments: --batch 3"),
        (["--concurrency", "0"], 2, "it must be at least 1"),
        (["--shared-capacity", "5"], 1, "--shared-capacity needs --limit"),
        (["--limit", "x"], 1, "--limit needs --shared-capacity"),
        (
            ["--limit", "x", "--shared-capacity", "5", "--limit-lease-time", "1"],
            1,
            "--max-interval=0.5 is too long for --limit-lease-time=1",
        ),
        (["--redis", "http://x"], 1, "--redis must"),
        (["--processes", "2", "--metrics-port", "0"], 1, "name the first of"),
    ],
)
def test_bad_input_is_said(
    timeline: Timeline, start: Start, options: list[str], code: int, said: str
) -> None:
    worker = start("quick", *options)
    assert worker.ended() == code, worker.text
    assert said in worker.text
    assert "Traceback" not in worker.text


def test_an_unknown_option_in_the_file_is_said(
    timeline: Timeline, start: Start, tmp_path: Path
) -> None:
    config = tmp_path / "worker.toml"
    config.write_text("[worker]\nconcurency = 4\n")
    worker = start("quick", "--config", str(config))
    assert worker.ended() == 2
    assert "did you mean concurrency?" in worker.text


def test_a_topic_can_be_created(timeline: Timeline, start: Start, server: EmbeddedRedis) -> None:
    worker = start("quick", "--topic", "new", "--create-topic")
    new = Timeline(server.url, "new")
    wait_until(new.exists)
    worker.await_word("has started")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    new.close()


def test_fail_fast_does_not_wait_for_redis(start: Start) -> None:
    url = f"redis://:hidden@127.0.0.1:{free_port()}/0"
    worker = start("quick", "--fail-fast", DISPATCHER_REDIS=url)
    assert worker.ended() == 1
    assert "refuses connections; does it run" in worker.text
    assert "hidden" not in worker.text


def test_a_port_in_use_is_said(timeline: Timeline, start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: Any = taken.getsockname()[1]
        worker = start("quick", "--metrics-port", str(port))
        assert worker.ended() == 1
    assert f"nothing can be served at 127.0.0.1:{port}" in worker.text


def test_an_error_of_its_own_ends_the_process_with_a_message(
    timeline: Timeline, start: Start, tmp_path: Path
) -> None:
    # A defect is put into the worker's own code, from the handler's module.
    (tmp_path / "defect.py").write_text(
        "from dispatcher.worker.holds import Holds\n"
        "def broken(*given): raise RuntimeError('a defect')\n"
        "Holds.admit = broken\n"
        "def send(messages): pass\n"
    )
    create(timeline, 1)
    worker = start("defect:send", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert worker.ended() == 1
    assert "the worker has failed and ended (RuntimeError: a defect)" in worker.text
