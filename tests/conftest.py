"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from dispatcher.registration import RedisEntityStore
from dispatcher.timeline import Timeline
from limiters import RedisLeaseManager, embedded
from tests.servers.ports import own_port
from tests.waiting import LONG

# A shell has what it runs in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No Spark of the tests lives long enough for what optimises its code to be worth its time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Machines are shared: how long an example takes says nothing, nor how long it takes to think of it.
settings.register_profile(
    "shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared machine")


@pytest.fixture(scope="session", autouse=True)
def _ports() -> Iterator[None]:
    """A server of a test that is down keeps its port: no server of another test is given it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "free_port", own_port)
        yield


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client gives a Redis up after a second, and that may be how long a process of a test has to
    wait for a busy machine. A test that is about giving up says after how long."""
    for client in (RedisEntityStore, RedisLeaseManager, Timeline):
        defaults = client.__init__.__kwdefaults__
        assert defaults is not None
        assert "timeout" in defaults
        monkeypatch.setitem(defaults, "timeout", LONG)
