"""The supervisor, with processes that stand for workers."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dispatcher.worker._process import children, supervisor
from dispatcher.worker._process.process import Signals
from dispatcher.worker._process.supervisor import Supervisor
from dispatcher.worker._process.systemd import Notifier
from limiters._support.latch import Latch
from tests.waiting import until

SOON = 0.5
"""In place of the seconds after which one that says nothing, or does not end, is killed."""

CHILD = """
import os, sys, threading, time
from pathlib import Path
from dispatcher.worker._process.systemd import READY, WATCHDOG, Notifier

log = Path(sys.argv[1])
def await_end():
    sys.stdin.buffer.raw.read()
    if "deaf" not in sys.argv:
        os._exit(0)

threading.Thread(target=await_end, daemon=True).start()
with log.open("a") as file:
    file.write("started\\n")
notifier = Notifier()
notifier.send(READY)
hangs = "hangs" in sys.argv and log.read_text() == "started\\n"
while True:
    if not hangs:
        notifier.send(WATCHDOG)
    time.sleep(0.02)
"""


class Asked(Signals):
    """The effect of signals, without them."""

    def __init__(self) -> None:
        self.stop = Latch()
        self.at_once: Callable[[], None] = lambda: None


@contextmanager
def supervised(log: Path, how: str, codes: list[int]) -> Iterator[Supervisor]:
    """Runs one process, until the block ends; its exit code is in `codes` then."""
    made, asked = Supervisor([sys.executable, "-c", CHILD, str(log), how], 1), Asked()

    def run() -> None:
        codes.append(made.run(asked, Notifier({}), host="", port=None, drain_time=0))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield made
    finally:
        asked.ask()
        thread.join(30)
        assert not thread.is_alive()


def test_one_that_gives_no_sign_of_life_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(children, "SILENCE", SOON)
    log, codes = tmp_path / "log", list[int]()
    with supervised(log, "hangs", codes):
        until(lambda: log.exists() and log.read_text().count("started") > 1)
    assert "hangs and is killed" in caplog.text
    assert "ended with -9; again in 0.5 s" in caplog.text


def test_it_puts_nothing_on_the_disk_that_would_stay_behind_if_it_were_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 30)  # a socket in there would have too long a name
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    codes: list[int] = []
    with supervised(tmp_path / "log", "well", codes) as made:
        until(lambda: codes or (made._processes and made._processes[0].child.ready))
        assert list(place.iterdir()) == []
    assert codes == [0]


def test_one_that_does_not_end_long_after_its_drain_time_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "SILENCE", SOON)
    codes: list[int] = []
    with supervised(tmp_path / "log", "deaf", codes) as made:
        until(lambda: made._processes and made._processes[0].child.ready)
    assert "does not end and is killed" in caplog.text
    assert codes == [137]
