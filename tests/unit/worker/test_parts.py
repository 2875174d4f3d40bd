"""MessageCosts, word to a supervisor, restarts, and pages: each on its own."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from dispatcher import ArgumentError
from dispatcher.timeline import Delete, Ending, Lease, LeaseLost, Timeline
from dispatcher.timeline.outcomes import MessageOutcome
from dispatcher.worker._costs import MessageCosts
from dispatcher.worker._environment import WorkerEnvironment
from dispatcher.worker._messages import Holds
from dispatcher.worker._process.children import LONGEST, SILENCE, STEADY, Child, RestartVerdict
from dispatcher.worker._process.health_server import (
    Pages,
    PortInUseError,
    ServedPage,
    asked,
    verdict,
)
from dispatcher.worker._process.systemd import LINE, READY, WATCHDOG, Notifier
from dispatcher.worker._settling import Settler
from dispatcher.worker.totals import WorkerTotals
from limiters import Limits, Rate
from tests.logged import told_of
from tests.worker_leases import lease, leases


def test_a_cost_is_a_number_a_field_or_a_function() -> None:
    message = lease(body={"units": 7})
    assert MessageCosts(2).of(message) == 2
    assert MessageCosts("units").of(message) == 7
    assert MessageCosts(lambda it: it.body["units"] * 2).of(message) == 14


API = Limits(requests=Rate(10), tokens=Rate(1_000))


def test_a_cost_in_several_dimensions_is_a_number_a_field_or_a_function_in_each() -> None:
    message = lease(body={"size": 7, "cost": {"tokens": 3}})
    rules: list[tuple[Any, dict[str, float]]] = [
        ({"requests": 1, "tokens": 5}, {"requests": 1, "tokens": 5}),
        ({"requests": 1, "tokens": "size"}, {"requests": 1, "tokens": 7}),
        (lambda it: {"tokens": it.body["size"]}, {"tokens": 7}),
        (lambda it: it.body["cost"], {"tokens": 3}),
        (0, {}),
    ]
    for rule, cost in rules:
        assert MessageCosts(rule, API).of(message) == cost
    assert MessageCosts({"tokens": "size"}, Limits(tokens=Rate(10))).of(message) == 7
    assert MessageCosts({"tokens": "size"}).of(message) == 0  # there is no limiter


def test_the_mean_of_costs_in_several_dimensions() -> None:
    costs = MessageCosts({"requests": 1, "tokens": "size"}, API)
    for size in (10, *[20] * 1_000):
        costs.of(lease(body={"size": size}))
    assert costs.mean == {"requests": pytest.approx(1), "tokens": pytest.approx(20, abs=0.1)}
    assert MessageCosts({"tokens": 5}, API).mean == {"tokens": 5}


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"token": "size"}, "^cost must be of requests and tokens alone"),
        ({"tokens": ""}, "name a field"),
        ({"tokens": -1}, "tokens"),
        (5, "of which dimension it is"),
        (
            "size",
            "^cost must say of which dimension it is, not 'size'; as in requests=1,tokens=size",
        ),
    ],
)
def test_a_rule_of_other_dimensions_than_the_limit_is_refused_by_name(rule: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        MessageCosts(rule, API)


@pytest.mark.parametrize("cost", [5, {"token": 5}, {"tokens": -1}, {"tokens": "7"}])
def test_a_cost_of_other_dimensions_is_refused_by_its_message(cost: Any) -> None:
    with pytest.raises(ValueError, match="the cost of 'm'"):
        MessageCosts(lambda message: cost, API).of(lease())


def test_the_mean_follows_what_was_read() -> None:
    costs = MessageCosts("units")
    costs.of(lease(body={"units": 10}))
    assert costs.mean == 10
    for _ in range(1_000):
        costs.of(lease(body={"units": 20}))
    assert costs.mean == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("body", [None, "text", {}, {"units": "7"}, {"units": True}, {"units": -1}])
def test_what_is_no_cost_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match="'m'"):
        MessageCosts("units").of(lease(body=body))


@pytest.mark.parametrize("rule", ["", -1, float("inf"), True])
def test_a_bad_rule_is_refused_by_name(rule: Any) -> None:
    with pytest.raises(ValueError, match="cost"):
        MessageCosts(rule)


def test_the_supervisor_is_notified_by_datagrams(tmp_path: Path) -> None:
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(place)
        line.settimeout(5)
        notifier = Notifier({"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "4000000"})
        notifier.send(READY, WATCHDOG)
        assert line.recv(100) == b"READY=1\nWATCHDOG=1"
        assert notifier.watchdog_interval == 2.0
    notifier.send(READY)  # no receiver: no error


def test_abstract_sockets_work_too() -> None:
    name = f"dispatcher-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind("\0" + name)
        line.settimeout(5)
        Notifier({"NOTIFY_SOCKET": "@" + name}).send(WATCHDOG)
        assert line.recv(100) == b"WATCHDOG=1"


def test_what_a_handler_starts_does_not_inherit_the_socket_that_was_inherited() -> None:
    ours, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, its_end:
        environment = {LINE: str(its_end.fileno())}
        Notifier(environment).send(WATCHDOG)
        Notifier(environment).send(READY)
        assert ours.recv(100) == b"WATCHDOG=1"
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(100)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "x"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"},
    ],
)
def test_no_watchdog_without_a_supervisor(environment: dict[str, str]) -> None:
    assert Notifier(environment).watchdog_interval is None


def test_restarts_back_off_until_one_has_run_for_a_while() -> None:
    child, waits = Child(), []
    now = 0.0
    for _ in range(9):
        child.start(now)
        assert child.ended(now + 1, any_was_ready=True) is RestartVerdict.AGAIN
        waits.append(child.restart_at - (now + 1))
        now = child.restart_at
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert waits[-1] == LONGEST
    child.start(now)
    child.ended(now + STEADY, any_was_ready=True)
    assert child.restart_at == now + STEADY + 0.5


def test_what_never_was_ready_is_not_tried_again() -> None:
    child = Child()
    child.start(0.0)
    assert child.ended(1.0, any_was_ready=False) is RestartVerdict.GIVE_UP


def test_who_has_spoken_and_is_silent_then_hangs() -> None:
    child = Child()
    child.start(0.0)
    assert not child.is_silent(1_000.0), "importing may take as long as it takes"
    child.hear(1.0, ready=False)
    assert not child.is_silent(1.0 + SILENCE)
    assert child.is_silent(1.1 + SILENCE)


def test_who_drains_says_nothing_meanwhile_and_does_not_hang() -> None:
    child = Child()
    child.start(0.0)
    child.hear(1.0, ready=True)
    child.drains(60.0)
    assert not child.is_silent(1.0 + SILENCE + 60.0)
    assert child.is_silent(1.1 + SILENCE + 60.0)
    child.start(200.0)
    child.hear(201.0, ready=True)
    assert child.is_silent(201.1 + SILENCE)


def test_pages_answer_and_say_what_there_is() -> None:
    def broken() -> ServedPage:
        raise RuntimeError

    pages = {"/healthz": lambda: verdict(""), "/readyz": lambda: verdict("no"), "/bad": broken}
    with Pages(pages) as server:
        with urlopen(f"{server.url}/healthz?x=1", timeout=5) as answer:
            assert (answer.status, answer.read()) == (200, b"ok\n")
        for path, status, body in [
            ("/readyz", HTTPStatus.SERVICE_UNAVAILABLE, b"no\n"),
            ("/", HTTPStatus.NOT_FOUND, b"there is /healthz, /readyz, /bad\n"),
            ("/bad", HTTPStatus.INTERNAL_SERVER_ERROR, b"it could not be made; the log says why\n"),
        ]:
            with pytest.raises(HTTPError) as caught:
                urlopen(server.url + path, timeout=5)
            with caught.value as error:
                assert (error.code, error.read()) == (status, body)


def test_a_port_in_use_is_reported_with_what_to_do() -> None:
    wrong = pytest.raises(PortInUseError, match="choose another --metrics-host or --metrics-port")
    with Pages({}) as first, wrong as caught:
        Pages({}, port=first.port)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.port) == (str(caught.value), first.port)


@pytest.mark.parametrize(
    ("host", "there"), [("::1", "::1"), ("::", "127.0.0.1"), ("localhost", "127.0.0.1")]
)
def test_pages_are_served_at_addresses_of_either_kind(host: str, there: str) -> None:
    with Pages({"/healthz": lambda: verdict("")}, host) as server:
        assert asked(there, server.port, "/healthz") == ""


def test_leases_that_are_always_too_short_are_no_flood_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds, totals = Holds(1.0, 60.0), WorkerTotals()

    def lost(endings: Iterable[tuple[Lease, Ending]]) -> list[MessageOutcome]:
        return [LeaseLost(one.id) for one, _ in endings]

    timeline = Timeline("redis://127.0.0.1:1", "work")  # it is never asked
    consumer = timeline.consumer("one")
    monkeypatch.setattr(consumer, "settle", lost)
    settler = Settler(
        WorkerEnvironment(
            timeline=timeline,
            consumer=consumer,
            holds=holds,
            totals=totals,
            failed=print,
            concurrency=1,
            batch_size=1,
            lease_time=30.0,
        )
    )
    for _ in range(1_000):
        settler._left += [(one, Delete()) for one in holds.admit(leases(3), 0.0)]
        settler._settle()
    told = told_of("leases-lost", caplog)
    assert totals.lost == 3_000
    assert 10 <= len(told) <= 10 * (2 + (told[-1]["created"] - told[0]["created"]) // 10)


def test_a_probe_elsewhere_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    pages = {"/healthz": lambda: verdict(""), "/readyz": lambda: verdict("no")}
    with Pages(pages) as server:
        assert asked("0.0.0.0", server.port, "/healthz") == ""
        assert asked("", server.port, "/readyz") == "no"


def test_a_probe_that_does_not_answer_is_not_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        assert asked("127.0.0.1", port, "/healthz", patience=0.05).startswith("it does not answer")
    assert asked("127.0.0.1", port, "/healthz").startswith("it does not answer")
