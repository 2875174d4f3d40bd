"""One time-out fails its test alone: those after it in the same process pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HANGING = """
import asyncio, signal, socket, subprocess, threading, time
import pytest

soon = pytest.mark.timeout(0.4)

@pytest.fixture(scope="session")
def shared():
    made = []
    yield made

@pytest.fixture
def hangs_at_its_end():
    yield
    time.sleep(1000)

def test_before(shared):
    shared.append(1)

@soon
def test_hangs_in_sleep():
    time.sleep(1000)

@soon
def test_hangs_in_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

@soon
def test_hangs_in_a_thread():
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    threading.enumerate()[-1].join()

@soon
def test_hangs_in_a_process():
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            process.wait()
        finally:
            process.kill()

@soon
def test_hangs_in_a_loop():
    asyncio.run(asyncio.sleep(1000))

@soon
def test_hangs_in_a_socket():
    one, other = socket.socketpair()
    with one, other:
        one.recv(1)

@soon
def test_hangs_and_catches_everything():
    try:
        time.sleep(1000)
    except BaseException:
        time.sleep(1000)

@soon
def test_passes_and_hangs_at_its_end(hangs_at_its_end):
    pass

def test_after(shared):
    assert shared == [1]
"""

STUCK = """
import signal, time
import pytest

@pytest.mark.timeout(0.4)
def test_hears_no_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(1000)

def test_after():
    pass
"""


def run(folder: Path, program: str, *options: str) -> tuple[set[str], dict[str, int]]:
    """Which tests did not pass, and how many of each outcome there were."""
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 60\ntimeout_method = signal\n")
    (folder / "test_hanging.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:valkey", "-p", "tests.timeouts"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(folder), *options, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    failed = set(re.findall(r"^(?:FAILED|ERROR) \S+?::(\w+)", done.stdout, re.MULTILINE))
    counts = re.findall(r"(\d+) (failed|passed|error)", done.stdout.splitlines()[-1])
    return failed, {what: int(count) for count, what in counts}


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["alone", "with xdist"])
def test_what_hangs_fails_alone(tmp_path: Path, options: tuple[str, ...]) -> None:
    failed, counts = run(tmp_path, HANGING, *options)
    assert failed == set(re.findall(r"def (test_\w*hangs\w*)", HANGING))
    assert counts == {"failed": 7, "passed": 3, "error": 1}


def test_what_no_signal_interrupts_fails_alone_where_a_process_can_be_replaced(
    tmp_path: Path,
) -> None:
    failed, counts = run(tmp_path, STUCK, "-n1")
    assert failed == {"test_hears_no_signal"}
    assert counts == {"failed": 1, "passed": 1}
