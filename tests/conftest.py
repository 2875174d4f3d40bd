"""Fixtures and hooks for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from functools import wraps
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from redis.connection import AbstractConnection

from dispatcher.metrics._cluster.cluster import ClusterCollector
from dispatcher.registration import RedisEntityStore
from dispatcher.timeline import Timeline
from limiters import embedded
from limiters.leases._options import RedisLeaseOptions
from tests import examples, kinds, programs, timeouts
from tests.distribution import asked_for, begins, scheduler
from tests.servers import java
from tests.servers.ports import own_port
from tests.waiting import LONG

# A shell has what it runs in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` has it ignore that its terminal closes, and what the tests start would inherit that, but
# not a handler. xdist's processes end with the one that has started them.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or "PYTEST_XDIST_WORKER" in os.environ:
    signal.signal(signal.SIGHUP, lambda number, frame: None)

os.environ.setdefault("JDK_JAVA_OPTIONS", java.OPTIONS)
# The tests start hundreds of Pythons: each would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Machines are shared: how long an example takes says nothing, nor how long it takes to think of it.
for profile, number in examples.EXAMPLES.items():
    settings.register_profile(
        profile,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=number,
    )
settings.load_profile(examples.USUAL)


@pytest.fixture(scope="session", autouse=True)
def _ports() -> Iterator[None]:
    """A server of a test that is down keeps its port: no server of another test is given it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "free_port", own_port)
        yield


@pytest.fixture(scope="session", autouse=True)
def _patient_clients() -> Iterator[None]:
    """The tests' own clients, whose urls say nothing else, would give a server up after the 5 s of
    redis-py: on a busy machine its process may have to wait for longer."""
    connect = AbstractConnection.__init__

    @wraps(connect)
    def patient(self: AbstractConnection, *given: Any, **options: Any) -> None:
        connect(self, *given, **({"socket_timeout": LONG} | options))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AbstractConnection, "__init__", patient)
        yield


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client gives a Redis up after a second, and that may be how long a process of a test has to
    wait for a busy machine. A test that is about giving up says after how long."""
    for client in (ClusterCollector, RedisEntityStore, RedisLeaseOptions, Timeline):
        defaults = client.__init__.__kwdefaults__
        assert defaults is not None
        assert "timeout" in defaults
        monkeypatch.setitem(defaults, "timeout", LONG)
    for module in ("connecting", "finding", "looking", "missing", "timeline.opening"):
        monkeypatch.setattr(f"dispatcher.cli._commands.{module}.PATIENCE", LONG)


def pytest_configure(config: pytest.Config) -> None:
    """The markers that tests get by their place, and their time-outs."""
    timeouts.pytest_configure(config)
    for marker, needs in kinds.MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {needs}; given by tests/kinds.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests, and the modules that they import, live until the end: no search for
    garbage has to look at them, while they are collected and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them by their kind, and put first what takes longest."""
    for item in items:
        module, fixtures = getattr(item, "module", None), getattr(item, "fixturenames", ())
        for marker in sorted(kinds.markers(item.nodeid, module, fixtures)):
            item.add_marker(marker)
    items.sort(key=lambda item: begins(item.nodeid, asked_for(item)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At the end, what was left out for a program that this machine does not have."""
    skipped = terminalreporter.stats.get("skipped", ())
    if line := programs.summary(report.longrepr[-1] for report in skipped):
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Any:
    """Distribute the tests as tests/distribution.py says."""
    return scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hold a test to its kind."""
    with kinds.only(frozenset(kinds.MARKERS) & {mark.name for mark in item.iter_markers()}):
        return (yield)
