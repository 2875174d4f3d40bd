"""The instances of a limit on the command line: what they hold, and evicting one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from tests.commands import (
    COMMAND,
    PATIENCE,
    TERMS,
    Run,
    asks,
    hide,
    hold,
    make,
)
from tests.terminals import Terminal
from tests.waiting import until

# leases


def test_leases_shows_what_each_instance_holds_and_wants(
    run: Run, manager: RedisLeaseManager
) -> None:
    some = asks("aaaaaaaa1", 600, spent=250, label="here:1", reserved=7, weight=2_000)
    hold(manager, some, asks("aaaaaaaa2", 400, label="there:2"))
    said = run("leases", "orders")
    assert (said.code, said.err) == (0, "")
    one, other = (line.split() for line in said.out.splitlines() if line.startswith("aaa"))
    assert one[:5] == ["aaaaaaaa1", "here:1", "6", "60", "%"]
    assert one[-7:-4] == ["600", "250", "6"]
    assert one[-2:] == ["2", "7"]
    assert other[:5] == ["aaaaaaaa2", "there:2", "4", "40", "%"]
    told = run("leases", "orders", "--json").json
    assert [told[name] for name in ("partitions", "held", "uncertain", "cause")] == [10, 10, 0, ""]
    first = told["instances"][0]
    assert first["lease"] <= 60
    assert first["silent"] >= 0
    assert {name: value for name, value in first.items() if name not in MEASURED} == {
        "instance": "aaaaaaaa1",
        "label": "here:1",
        "held": 6,
        "of_the_limit": 0.6,
        "wants": 600,
        "spends": 250,
        "share": 6,
        "waits_for": 0,
        "waited": 0,
        "permit": 0,
        "weight": 2,
        "reserved": 7,
        "evicted": False,
        "bounds": [
            {
                "dimension": "",
                "of_the_limit": 0.6,
                "wants": 600,
                "spends": 250,
                "share": 0.6,
                "waits_for": 0,
                "permit": 0,
                "reserved": 7,
            }
        ],
    }


MEASURED = ("lease", "silent")


def test_three_who_share_ten_partitions_hold_a_third_each(
    run: Run, manager: RedisLeaseManager
) -> None:
    busy = [asks(name, 1_000) for name in ("a", "b", "c")]

    def parts() -> list[float]:
        for request in busy:
            manager.sync(replace(request, seq=time.monotonic_ns()))
        return [one["held"] for one in run("leases", "orders", "--json").json["instances"]]

    until(lambda: parts() == pytest.approx([10 / 3] * 3))
    rows = [line.split() for line in run("leases", "orders").out.splitlines()]
    held = [row[1:4] for row in rows if row and row[0] in ("a", "b", "c")]
    assert held == [["3.3", "33", "%"]] * 3


def test_who_waits_for_a_permit_is_shown_with_its_cost(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a", need=1_000, label="here:1"))
    waits = asks("b", need=900, ask=900.0, gathers=True, waited=2_000, label="there:2")
    manager.sync(replace(waits, seq=time.monotonic_ns()))
    said = run("leases", "orders").out
    assert "waits for" in said
    assert "1 waits for a permit of 900, for 2." in said
    told = run("leases", "orders", "--json").json["instances"][1]
    assert told["waits_for"] == 900
    assert told["waited"] >= 2


def test_leases_sums_up(run: Run, manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", 600, spent=250), asks("b", 400, spent=700))
    said = run("leases", "orders").out
    assert "10 of 10 partitions held (100 % of the limit)\n" in said
    assert "demand 1,000 (100 % of the capacity), spend 950 (95 %)\n" in said


def test_leases_that_are_over_stand_out_and_count_no_more(
    run: Run, manager: RedisLeaseManager
) -> None:
    make(manager, lease_time=0.3)
    hold(manager, replace(asks("a", need=300, spent=300), terms=replace(TERMS, lease=300)))
    until(lambda: run("leases", "orders", "--json").json["instances"][0]["lease"] < 0)
    assert run("leases", "orders", "--json").json["spend"] == 0
    assert "lease over" in run("leases", "orders").out
    assert "1, 1 lease over" in run("limit", "show", "orders").out


def test_what_others_have_written_does_nothing_to_a_terminal(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a\x1b[2J", need=300, label="\x1b]0;boo\x07[red]\udc80|\r\nb:1"))
    said = run("leases", "orders")
    assert said.code == 0
    assert "?]0;boo?[red]?|?" in said.out
    assert "b:1" not in said.out, "no label makes a second line"
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
                seen += json.loads(line)["name"] == "orders" if as_json else "spend 0 (" in line
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
        make(manager)
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
            make(manager, 777)
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
        terminal.read_until("spend 0 (")
        again = terminal.read_until("spend 0 (")
        assert "\x1b[1A" in again  # up, to where it was drawn before
        terminal.type("\x03")
        assert terminal.end() == 130


def test_a_watch_that_is_terminated_shows_the_cursor_again(manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=300, label="here:1"))
    with Terminal([*COMMAND, "leases", "orders", "--watch", "0.01"]) as terminal:
        assert "\x1b[?25l" in terminal.read_until("spend 0 (")
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.read_until("\x1b[?25h")
        assert terminal.end() == 143
        assert "terminated" in terminal.read_until("terminated")


def test_without_rich_a_terminal_gets_plain_columns(
    manager: RedisLeaseManager, tmp_path: Path
) -> None:
    hide(tmp_path, "rich")
    hold(manager, asks("a", need=300, label="here:1"))
    with Terminal([*COMMAND, "leases", "orders"], PYTHONPATH=str(tmp_path)) as terminal:
        said = terminal.read_until("spend 0 (")
        assert "\x1b" not in said
        assert "here:1" in said
        assert terminal.end() == 0
