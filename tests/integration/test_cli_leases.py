"""Who holds what, on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases import ranges
from limiters.leases.messages import Terms
from tests.commands import (
    COMMAND,
    PATIENCE,
    TERMS,
    Run,
    asks,
    hide,
    hold,
)
from tests.servers import wait_until
from tests.terminals import Terminal

# leases


def test_leases_tells_who_holds_and_wants_what(run: Run, manager: RedisLeaseManager) -> None:
    some = asks("aaaaaaaa1", 300, spent=250, label="here:1", reserved=7, weight=2)
    hold(manager, some, asks("aaaaaaaa2", 200, label="there:2"))
    view = manager.look()
    assert view is not None
    mine, theirs = (ranges.text(member.held) for member in view.members)
    said = run("leases", "orders")
    assert (said.code, said.err) == (0, "")
    one, other = (line.split() for line in said.out.splitlines() if line.startswith("aaa"))
    assert one[:3] == ["aaaaaaaa1", "here:1", mine]
    assert " ".join(["300", "250", "3", "2", "7"]) in " ".join(one)
    assert other[:3] == ["aaaaaaaa2", "there:2", theirs]
    told = run("leases", "orders", "--json").json
    assert [told[name] for name in ("partitions", "used")] == [10, 5]
    first = told["members"][0]
    assert first["lease_left"] <= 60
    assert first["heard_of"] >= 0
    assert {name: value for name, value in first.items() if name not in MEASURED} == {
        "instance": "aaaaaaaa1",
        "label": "here:1",
        "partitions": mine,
        "wants": 300,
        "spends": 250,
        "fair_share": 3,
        "weight": 2,
        "reserved": 7,
        "evicted": False,
    }


MEASURED = ("lease_left", "heard_of")


def test_leases_sums_up(run: Run, manager: RedisLeaseManager) -> None:
    def shown() -> bool:
        hold(manager, asks("a", 600, spent=250), asks("b", 400, spent=700))
        return sums in run("leases", "orders").out

    sums = "10 of 10 partitions used, demand 1,000 (100 % of the capacity), spend 950 (95 %)"
    wait_until(shown)


def test_leases_that_are_over_stand_out_and_count_no_more(
    run: Run, manager: RedisLeaseManager
) -> None:
    manager.set_capacity(replace(TERMS, lease_ms=300))
    hold(manager, asks("a", need=300, spent=300))
    wait_until(lambda: run("leases", "orders", "--json").json["members"][0]["lease_left"] < 0)
    assert run("leases", "orders", "--json").json["spend"] == 0
    assert "lease over" in run("leases", "orders").out
    assert "1, 1 lease over" in run("limit", "show", "orders").out


def test_what_others_have_written_does_nothing_to_a_terminal(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a\x1b[2J", need=300, label="\x1b]0;boo\x07[red]\udc80|\n"))
    said = run("leases", "orders")
    assert said.code == 0
    assert "?]0;boo?[red]?|?" in said.out
    assert "\x1b" not in said.out
    assert "\x1b" not in run("leases", "orders", "--evict", "none").err


@pytest.mark.parametrize("as_json", [False, True])
def test_watch_shows_it_again_until_ctrl_c(manager: RedisLeaseManager, as_json: bool) -> None:
    hold(manager, asks("a", need=300))
    arguments = [*COMMAND, "leases", "orders", "--watch", "0.01", *["--json"] * as_json]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watch:
        try:
            assert watch.stdout is not None
            seen = 0
            while seen < 3:
                line = watch.stdout.readline()
                assert line, watch.communicate()
                seen += json.loads(line)["name"] == "orders" if as_json else "used, d" in line
            watch.send_signal(signal.SIGINT)
            out, err = watch.communicate(timeout=PATIENCE)
        finally:
            watch.kill()
    assert watch.returncode == 130
    assert err == "interrupted\n"
    assert "\x1b" not in out


def test_watch_goes_on_when_redis_comes_back() -> None:
    with (
        EmbeddedRedis(appendonly=True) as server,
        closing(RedisLeaseManager(server.url, name="orders")) as manager,
    ):
        manager.set_capacity(TERMS)
        watch = subprocess.Popen(
            [*COMMAND, "leases", "orders", "--watch", "0.05", "--redis", server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert watch.stdout is not None
            assert watch.stderr is not None
            assert watch.stdout.readline().startswith("limit orders")
            server.kill()
            assert watch.stderr.readline().startswith("dispatcher: Redis at redis://127.0.0.1:")
            server.start()
            manager.set_capacity(Terms(777, 100, 50, 200))
            while "limit orders: 777" not in watch.stdout.readline():
                assert watch.poll() is None
        finally:
            watch.kill()
            watch.communicate()


def test_a_reader_that_has_seen_enough_is_no_failure_worth_a_traceback(
    manager: RedisLeaseManager,
) -> None:
    hold(manager, asks("a", need=300))
    watch = subprocess.Popen(
        [*COMMAND, "leases", "orders", "--watch", "0.01"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None
    assert watch.stderr is not None
    watch.stdout.readline()
    watch.stdout.close()
    assert watch.wait(PATIENCE) == 1
    with watch.stderr:
        assert watch.stderr.read() == ""


def test_a_terminal_gets_it_drawn_by_rich_in_its_place(manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=300, label="here:1"))
    with Terminal([*COMMAND, "leases", "orders", "--watch", "0.01"]) as terminal:
        terminal.read_until("used, d")
        again = terminal.read_until("used, d")
        assert "\x1b[1A" in again  # up, to where it was drawn before
        terminal.type("\x03")
        assert terminal.end() == 130


def test_without_rich_a_terminal_gets_plain_columns(
    manager: RedisLeaseManager, tmp_path: Path
) -> None:
    hide(tmp_path, "rich")
    hold(manager, asks("a", need=300, label="here:1"))
    with Terminal([*COMMAND, "leases", "orders"], PYTHONPATH=str(tmp_path)) as terminal:
        said = terminal.read_until("used, d")
        assert "\x1b" not in said
        assert "here:1" in said
        assert terminal.end() == 0
