"""`dispatcher worker --check`, and bad input."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis
from tests.acceptance.worker_process.started import HANDLERS, Start, create
from tests.processes import ROOT
from tests.servers.ports import own_port
from tests.waiting import until


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
    assert "3 due, 0 waiting, 0 processing, 0 dead" in worker.text
    assert "store: does not exist yet, to be created with 50" in worker.text
    assert "secret" not in worker.text
    assert timeline.stats().new == 3, "it has leased nothing"


def test_check_finds_all_that_is_not_well(start: Start, timeline: Timeline) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        url = f"redis://:hidden@127.0.0.1:{own_port()}/0"
        options = ("--check", "--metrics-port", port, "--limit", "x", "--shared-capacity", "5")
        worker = start("nowhere:at_all", *options, DISPATCHER_REDIS=url)
        assert worker.ended() == 1
    assert "could not work: handler, topic, limit, port" in worker.text
    assert "refuses connections; does it run" in worker.text
    assert "hidden" not in worker.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cost", "nan"), "--cost must be finite, not nan"),
        (("--processes", "3", "--metrics-port", "65534"), "could not work: port"),
        (("--processes", "3", "--metrics-port", "65534"), "127.0.0.1:65536: bind()"),
    ],
)
def test_check_finds_what_would_only_fail_at_the_start(
    start: Start, timeline: Timeline, options: tuple[str, ...], said: str
) -> None:
    worker = start("quick", "--check", *options)
    assert worker.ended() == 2
    assert said in worker.text


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
        (["--topic", "wrok"], 3, "there is no topic 'wrok'"),
        (["--bunch", "3"], 2, "unrecognized arguments: --bunch 3"),
        (["--concurrency", "0"], 2, "--concurrency must be at least 1, not 0"),
        (["--shared-capacity", "5"], 2, "--shared-capacity needs --limit"),
        (["--shared-capacity", "5", "--reserved", "1"], 2, "--shared-capacity needs --limit"),
        (["--limit", "x"], 3, "there is no limit 'x' in"),
        (
            ["--limit", "x", "--shared-capacity", "5", "--limit-lease-time", "1"],
            2,
            "--max-interval must be at most 0.25 seconds, not 0.5",
        ),
        (["--redis", "http://x"], 2, "--redis must"),
        (["--processes", "2", "--metrics-port", "0"], 2, "name the first of"),
    ],
)
def test_bad_input_is_reported(
    timeline: Timeline, start: Start, options: list[str], code: int, said: str
) -> None:
    worker = start("quick", *options)
    assert worker.ended() == code, worker.text
    assert said in worker.text
    assert "Traceback" not in worker.text


def test_an_unknown_option_in_the_file_is_reported(
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
    until(new.exists)
    worker.await_word("has started")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    new.close()


def test_fail_fast_does_not_wait_for_redis(start: Start) -> None:
    url = f"redis://:hidden@127.0.0.1:{own_port()}/0"
    worker = start("quick", "--fail-fast", DISPATCHER_REDIS=url)
    assert worker.ended() == 4
    assert "refuses connections; does it run" in worker.text
    assert "hidden" not in worker.text


def test_a_port_in_use_is_reported(timeline: Timeline, start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: Any = taken.getsockname()[1]
        worker = start("quick", "--metrics-port", str(port))
        assert worker.ended() == 1
    assert f"nothing can be served at 127.0.0.1:{port}" in worker.text


@pytest.mark.parametrize("more", ["", "Worker._stop_batcher = lambda *given, **more: sleep(2)\n"])
def test_an_error_of_its_own_ends_the_process_with_a_message_however_long_that_takes(
    timeline: Timeline, start: Start, tmp_path: Path, more: str
) -> None:
    # A defect is put into the worker's own code, from the handler's module.
    (tmp_path / "defect.py").write_text(
        "from time import sleep\n"
        "from dispatcher.worker import Worker\n"
        "from dispatcher.worker._messages import Holds\n"
        "def broken(*given): raise RuntimeError('a defect')\n"
        "Holds.admit = broken\n"
        f"def send(messages): pass\n{more}"
    )
    create(timeline, 1)
    worker = start("defect:send", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert worker.ended() == 1
    assert "the worker has failed and ended (RuntimeError: a defect)" in worker.text
