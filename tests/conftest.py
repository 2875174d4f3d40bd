"""What holds for all tests."""

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from tests import kinds, timeouts
from tests.distribution import asked_for, begins, scheduler

# A shell has what it runs in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No Spark of the tests lives long enough for what optimises its code to be worth its time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Machines are shared: how long an example takes says nothing.
settings.register_profile("shared machine", deadline=None, print_blob=True)
settings.load_profile("shared machine")


def pytest_configure(config: pytest.Config) -> None:
    """The markers that tests get by their place, and their time-outs."""
    timeouts.pytest_configure(config)
    for marker, needs in kinds.MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {needs}; given by tests/kinds.py")


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them by their kind, and put first what takes longest."""
    for item in items:
        module, fixtures = getattr(item, "module", None), getattr(item, "fixturenames", ())
        for marker in sorted(kinds.markers(item.nodeid, module, fixtures)):
            item.add_marker(marker)
    items.sort(key=lambda item: begins(item.nodeid, asked_for(item)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Any:
    """For `--numprocesses`."""
    return scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hold a test to its kind."""
    with kinds.only(frozenset(kinds.MARKERS) & {mark.name for mark in item.iter_markers()}):
        return (yield)
