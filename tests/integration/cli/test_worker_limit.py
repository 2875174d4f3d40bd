"""`dispatcher worker --limit NAME`: the terms of a limit that is there need not be given again."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from tests.commands import COMMAND, PATIENCE, Run, make, outside
from tests.servers.ports import own_port

WORKER = ["worker", "json:dumps", "--topic", "mails", "--limit", "orders"]


@pytest.fixture
def mails(url: str) -> Timeline:
    timeline = Timeline(url, "mails")
    timeline.producer("us").create([Message("x", delay=3_600)])
    return timeline


def test_a_limit_that_is_there_needs_no_capacity(
    run: Run, manager: RedisLeaseManager, mails: Timeline
) -> None:
    make(manager, lease_time=4)
    said = outside(*WORKER, "--check")
    assert said.code == 0, said
    assert "ok  limit    orders: 1,000 in 0.05 s" in said.out


def test_a_limit_that_is_not_there_does(mails: Timeline) -> None:
    said = outside(*WORKER)
    assert (said.code, said.err.count("\n")) == (3, 1)
    assert "there is no limit 'orders' in redis://127.0.0.1:" in said.err
    assert "a worker with --shared-capacity" in said.err


def test_without_redis_it_ends_and_says_so(mails: Timeline) -> None:
    said = outside(*WORKER, "--redis", f"redis://127.0.0.1:{own_port()}/0")
    assert (said.code, said.err.count("\n")) == (4, 1)
    assert "refuses connections" in said.err


def test_a_check_shows_all_that_is_wrong_and_tries_the_rest(
    manager: RedisLeaseManager, mails: Timeline
) -> None:
    make(manager, lease_time=4)
    wrong = ["--weight", "0", "--limit-lease-time", "0.1"]
    said = outside(*WORKER, "--check", *wrong)
    assert (said.code, said.err) == (2, "dispatcher: could not work: option\n")
    assert "limit-lease-time" in said.out.partition("tried")[0]
    found = said.out.partition("tried")[2]
    assert "NO  option   --weight must be more than zero, not 0.0" in found
    assert "NO  option   --limit-lease-time must be from 0.2 to 86400 seconds, not 0.1" in found
    assert "ok  topic    " in found
    assert "ok  limit    orders" in found


def test_a_worker_logs_json_and_takes_the_terms_that_are_stored(
    manager: RedisLeaseManager, mails: Timeline
) -> None:
    make(manager, lease_time=4)
    worker = subprocess.Popen(
        [*COMMAND, *WORKER, "--log-format", "json"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert worker.stderr is not None
        told: list[dict[str, Any]] = []
        while not told or told[-1]["happening"] != "worker-started":
            told.append(json.loads(worker.stderr.readline()))
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=PATIENCE)
        told += map(json.loads, err.splitlines())
    finally:
        worker.kill()
        worker.communicate()
    assert worker.returncode == 0
    assert {it["process"] for it in told} == {worker.pid}
    assert told[-1]["happening"] == "worker-stopped"
    assert {told[-1][it] for it in ("done", "retried", "dead", "returned", "lost")} == {0}
    assert not {"refused", "other-terms"} & {it["happening"] for it in told}
