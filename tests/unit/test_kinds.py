"""A test is what its markers say: what it may not do, it cannot."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from tests.kinds import MARKERS, UnmarkedError, markers, only


@pytest.mark.parametrize(
    ("command", "marker"),
    [
        ([sys.executable, "--version"], "process"),
        (["/bin/sh", "-c", "exec $@", "/usr/bin/valkey-server", "redis.conf"], "redis"),
        ("exec redis-server --port 0", "redis"),
        (["sh", "-c", "redis-server --port 0"], "redis"),
        (["/opt/spark/bin/spark-submit", "pyspark-shell"], "spark"),
    ],
)
def test_a_command_needs_its_marker(command: list[str] | str, marker: str) -> None:
    others = frozenset(MARKERS) - {marker}
    with only(others), pytest.raises(UnmarkedError, match=f"no marker '{marker}'"):
        subprocess.run(command, check=True, shell=isinstance(command, str))


def test_a_thread_of_the_test_needs_the_marker_too() -> None:
    refused: list[UnmarkedError] = []

    def start() -> None:
        try:
            subprocess.run([sys.executable, "--version"], check=True)
        except UnmarkedError as error:
            refused.append(error)

    with only(frozenset()):
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    assert refused


def test_to_sleep_needs_a_marker_and_to_look_again_does_not() -> None:
    with only(frozenset()):
        time.sleep(0.001)
        with pytest.raises(UnmarkedError, match="no marker 'wallclock'"):
            time.sleep(1000)


def test_threads_of_earlier_tests_may_go_on() -> None:
    slept = threading.Event()

    def sleep() -> None:
        time.sleep(0.011)
        slept.set()

    with only(frozenset()):
        thread = threading.Thread(target=sleep)
        thread.start()
        thread.join()
    assert slept.is_set()


def test_all_is_as_before_when_the_block_has_ended() -> None:
    before = subprocess.Popen.__init__, time.sleep
    with only(frozenset()):
        assert (subprocess.Popen.__init__, time.sleep) != before
    assert (subprocess.Popen.__init__, time.sleep) == before


@pytest.mark.parametrize("folder", ["tests/unit/", "tests/simulation/"])
def test_make_fast_needs_nothing(folder: str) -> None:
    assert markers(f"{folder}test_a.py::test_b") == frozenset()


def test_what_imports_a_starter_of_processes_is_marked() -> None:
    assert "process" in markers("tests/integration/test_a.py::test_b", sys.modules[__name__])
    assert "process" in markers("tests/integration/test_a.py::test_b", None, ["tls_redis"])
    assert "process" not in markers("tests/integration/test_a.py::test_b", None, ["shared_redis"])


def test_a_program_that_starts_spark_is_marked() -> None:
    example = "tests/acceptance/test_first_contact.py::test_every_example_runs[spark_sink.py]"
    assert "spark" in markers(example)
    assert "spark" not in markers(example.replace("spark_sink", "metrics"))
