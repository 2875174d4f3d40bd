"""What an operator does to a limit on the command line, and what comes of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dispatcher import Batcher, BatcherStoppedError, Operation, Watcher
from dispatcher.cli.main import main
from limiters import Event, RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis, free_port
from limiters.leases import ranges
from limiters.leases.messages import Request, Terms
from tests.processes import Processes
from tests.processes.plan import Plan
from tests.servers import wait_until
from tests.terminals import Terminal

COMMAND = [sys.executable, "-m", "dispatcher.cli.main"]
TERMS = Terms(1_000, 100, 50, 200)
SECRET = "zq1/zq2:zq3@zq4"
PATIENCE = 60


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in this process: how it ended, and what it said."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as end:  # as argparse ends wrong usage
            code = int(str(end.code))
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def url(shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Redis of which the commands know by their environment."""
    monkeypatch.setenv("DISPATCHER_REDIS", shared_redis.url)
    return shared_redis.url


@pytest.fixture
def manager(url: str) -> Iterator[RedisLeaseManager]:
    with closing(RedisLeaseManager(url, name="orders", timeout=10)) as made:
        yield made


def outside(*arguments: str, **environment: str) -> Said:
    """A command in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def asks(instance: str, need: float, **more: Any) -> Request:
    """What an instance says, as if it were the first time."""
    return Request(instance, 0, TERMS, need=need, **more)


def hold(manager: RedisLeaseManager, *requests: Request) -> None:
    """Asks until all have what they need."""

    def held() -> bool:
        for request in requests:
            manager.sync(replace(request, seq=time.monotonic_ns()))
        view = manager.look()
        assert view is not None
        needs = {request.instance: request.need for request in requests}
        return needs == {one.instance: 100 * ranges.count(one.held) for one in view.members}

    wait_until(held)


@contextmanager
def resource(url: str, **options: Any) -> Iterator[SharedResource]:
    with (
        closing(RedisLeaseManager(url, name="orders", lease_time=2)) as manager,
        SharedResource(
            shared_capacity=1_000, factor=100, max_interval=0.1, lease_manager=manager, **options
        ) as made,
    ):
        yield made


# limit show


def test_show_tells_the_terms_and_what_is_free(run: Run, manager: RedisLeaseManager) -> None:
    def shown() -> dict[str, str]:
        hold(manager, asks("a", need=300))
        said = run("limit", "show", "orders")
        assert (said.code, said.err) == (0, "")
        return dict(re.split("  +", line) for line in said.out.splitlines())

    wait_until(lambda: shown()["members"] == "1")  # and not "1, 1 lease over", after a hiccup
    assert shown() | {"members": "1"} == {
        "limit": "orders",
        "capacity": "1,000 in 0.05 s",
        "partitions": "10, each worth 100",
        "period": "0.05 s",
        "lease time": "0.2 s",
        "free": "7: 3-9",
        "members": "1",
        "grants": "to all who ask",
    }
    told = run("limit", "show", "orders", "--json").json
    assert told == {
        "name": "orders",
        "shared_capacity": 1000,
        "capacity_in_force": 1000,
        "rising_per_second": 0,
        "factor": 100,
        "partitions": 10,
        "period": 0.05,
        "lease_time": 0.2,
        "version": 1,
        "free": "3-9",
        "members": 1,
        "quarantine": 0,
    }


def test_show_says_for_how_long_nothing_is_granted_and_why(run: Run, url: str) -> None:
    run("limit", "set", "orders", "--shared-capacity", "10")
    said = run("limit", "show", "orders")
    assert "nothing new for " in said.out
    assert "not known who holds what: the limit is new" in said.out
    assert 0 < run("limit", "show", "orders", "--json").json["quarantine"] <= 6.1


@pytest.mark.parametrize("command", [("limit", "show"), ("limit", "delete"), ("leases",)])
def test_a_limit_that_is_not_there(run: Run, url: str, command: tuple[str, ...]) -> None:
    said = run(*command, "orders")
    assert (said.code, said.out) == (1, "")
    assert "there is no limit 'orders' in redis://127.0.0.1:" in said.err
    assert "dispatcher limit set orders --shared-capacity" in said.err


# limit set


def test_set_creates_and_says_from_when_it_grants(run: Run, url: str) -> None:
    said = run("limit", "set", "orders", "--shared-capacity=2050", "--factor=100", "--period=60")
    assert said.code == 0
    assert "limit orders is new" in said.out
    assert "2,050 in 60 s" in said.out
    assert "21, each worth 100, the last one 50" in said.out
    assert "All instances follow within two sync intervals" in said.out
    assert "nothing before a lease and a period have passed: 65 s" in said.out


def test_set_is_followed_by_those_who_run(run: Run, url: str) -> None:
    with resource(url) as limiter:
        limiter.give_me(10_000)
        wait_until(lambda: len(limiter.partitions) == 10)
        said = run("limit", "set", "orders", "--shared-capacity", "500")
        assert said.code == 0
        line = next(line for line in said.out.splitlines() if line.startswith("capacity"))
        assert line.split() == ["capacity", "1,000", "a", "second", "500", "a", "second"]
        assert "starts over" not in said.out
        wait_until(lambda: limiter.max_capacity == 500 and len(limiter.partitions) == 5)


def test_set_anew_counts_more_than_what_those_who_run_know_from_before(run: Run, url: str) -> None:
    with resource(url) as limiter:
        limiter.give_me(10_000)
        wait_until(lambda: limiter.partitions)
        for capacity in (900, 800):
            limiter.set_shared_capacity(capacity)
        with closing(RedisLeaseManager(url, name="orders")) as manager:
            manager.delete()
            manager.set_capacity(Terms(500, 100, 1_000, 2_000))
        wait_until(lambda: limiter.max_capacity == 500)
        assert run("limit", "show", "orders", "--json").json["shared_capacity"] == 500


def test_set_raises_along_a_ramp(run: Run, url: str) -> None:
    run("limit", "set", "orders", "--shared-capacity", "100")
    said = run("limit", "set", "orders", "--shared-capacity", "1000", "--ramp", "60/600")
    assert "rising by 0.1 each second to 1,000, in 2 h" in said.out
    told = run("limit", "show", "orders", "--json").json
    assert told["rising_per_second"] == pytest.approx(0.1)
    assert 100 <= told["capacity_in_force"] < 110
    said = run("limit", "set", "orders", "--shared-capacity", "50", "--ramp", "60/600")
    assert "The ramp changes nothing" in said.out


def test_set_of_another_factor_starts_over_and_says_so(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a", need=300))
    said = run("limit", "set", "orders", "--shared-capacity", "1000", "--factor", "50")
    assert said.code == 0
    assert "the limit starts over" in said.out
    assert run("leases", "orders", "--json").json["members"] == []
    assert "no instance asks for any of it" in run("leases", "orders").out


def test_what_cannot_be_changed_is_refused(run: Run, manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=300))
    set_to = ("limit", "set", "orders", "--shared-capacity", "900")
    said = run(*set_to, "--period", "2")
    assert said.code == 1
    assert "period of a limit that exists cannot be changed; it is 0.05 s" in said.err
    assert "lease_time of a limit that" in run(*set_to, "--lease-time", "2").err
    assert run("limit", "show", "orders", "--json").json["shared_capacity"] == 1000
    assert run(*set_to, "--period", "0.05", "--lease-time", "0.2").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shared-capacity=0"], "shared_capacity must be more than zero, not 0.0"),
        (["--shared-capacity=nan"], "shared_capacity must be finite, not nan"),
        (["--shared-capacity=-5"], "shared_capacity must be more than zero, not -5.0"),
        (["--shared-capacity=5", "--factor=0"], "factor must be more than zero, not 0.0"),
        (["--shared-capacity=5", "--period=0"], "period must be more than zero seconds, not 0.0"),
        (["--shared-capacity=5", "--period=0.0001"], "period must be from 0.001 to 86400 seconds"),
        (["--shared-capacity=5", "--lease-time=1e300"], "lease_time must be from 0.2 to 86400"),
        (["--shared-capacity=5", "--lease-time=0.1"], "lease_time must be from 0.2 to 86400"),
        (["--shared-capacity=5", "--lease-time=-1"], "lease_time must be more than zero seconds"),
        (["--shared-capacity=5", "--ramp=0/5"], "ramp must be more than zero, not 0.0"),
        (["--shared-capacity=5", "--ramp=5/0"], "ramp must be more than zero seconds, not 0.0"),
        (["--shared-capacity=10001"], "factor must be at least 1.0001 for a capacity of 10001"),
    ],
)
def test_bad_values_are_refused_in_the_librarys_words(
    run: Run, url: str, arguments: list[str], message: str
) -> None:
    said = run("limit", "set", "orders", *arguments)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"dispatcher: {message}")
    assert run("limit", "show", "orders").code == 1


def test_more_than_10_000_partitions_are_refused_also_of_a_limit_that_exists(
    run: Run, url: str
) -> None:
    assert run("limit", "set", "orders", "--shared-capacity", "10000").code == 0
    said = run("limit", "set", "orders", "--shared-capacity", "20000")
    assert said.code == 1
    assert "factor must be at least 2 for a capacity of 20000" in said.err
    assert run("limit", "set", "orders", "--shared-capacity", "20000", "--factor", "2").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["limit"], "ACTION"),
        (["limit", "show"], "NAME"),
        (["limit", "set", "orders"], "--shared-capacity"),
        (["limit", "set", "orders", "--shared-capacity", "many"], "'many': not a number"),
        (["limit", "set", "orders", "--shared-capacity=5", "--ramp=5"], "like 1000/60"),
        (["limit", "set", "orders", "--shared-capacity=5", "--ramp=5/x"], "not a number"),
        (["leases", "orders", "--watch", "1", "--evict", "a"], "not allowed with"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, arguments: list[str], message: str) -> None:
    said = run(*arguments)
    assert said.code == 2
    assert message in said.err


# limit delete


def test_delete_forgets_it_once(run: Run, manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=300))
    said = run("limit", "delete", "orders", "--yes")
    assert said.code == 0
    assert "limit orders is deleted" in said.out
    assert manager.look() is None
    assert run("limit", "delete", "orders", "--yes").code == 1


def test_delete_does_not_guess_where_it_cannot_ask(manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=300))
    said = outside("limit", "delete", "orders")
    assert (said.code, said.out) == (1, "")
    assert "say --yes" in said.err
    assert manager.look() is not None


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 1), ("", 1)])
def test_delete_asks_on_a_terminal(manager: RedisLeaseManager, answer: str, code: int) -> None:
    hold(manager, asks("a", need=300))
    with Terminal([*COMMAND, "limit", "delete", "orders"]) as terminal:
        asked = terminal.read_until("Type yes: ")
        assert "1 instance took part lately" in asked
        terminal.type(f"{answer}\n")
        assert terminal.end() == code
    assert (manager.look() is None) == (code == 0)


# leases


def test_leases_tells_who_holds_and_wants_what(run: Run, manager: RedisLeaseManager) -> None:
    some = asks("aaaaaaaa1", 300, spent=250, label="here:1", reserved=7, weight=2)
    hold(manager, some, asks("aaaaaaaa2", 200, label="there:2"))
    said = run("leases", "orders")
    assert (said.code, said.err) == (0, "")
    one, other = (line.split() for line in said.out.splitlines() if line.startswith("aaa"))
    assert one[:3] == ["aaaaaaaa1", "here:1", "0-2"]
    assert " ".join(["300", "250", "3", "2", "7"]) in " ".join(one)
    assert other[:3] == ["aaaaaaaa2", "there:2", "3-4"]
    told = run("leases", "orders", "--json").json
    assert [told[name] for name in ("partitions", "used")] == [10, 5]
    first = told["members"][0]
    assert first["lease_left"] <= 0.2
    assert first["heard_of"] >= 0
    assert {name: value for name, value in first.items() if name not in MEASURED} == {
        "instance": "aaaaaaaa1",
        "label": "here:1",
        "partitions": "0-2",
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


# leases --evict


@pytest.mark.parametrize("given", ["abd", "abc123", "here:1"])
def test_evict_takes_the_one_that_is_meant(
    run: Run, manager: RedisLeaseManager, given: str
) -> None:
    hold(
        manager,
        asks("abc123", 300, label="here:1"),
        asks("abc1234", 300, label="here:13"),
        asks("abd2", 300, label="here:12"),
    )
    assert run("leases", "orders", "--evict", given).code == 0
    evicted = {
        member["instance"]
        for member in run("leases", "orders", "--json").json["members"]
        if member["evicted"]
    }
    assert evicted == {"abd2" if given == "abd" else "abc123"}


def test_evict_says_what_that_means(run: Run, manager: RedisLeaseManager) -> None:
    hold(manager, asks("abc", need=300, label="here:1"))
    said = run("leases", "orders", "--evict", "a")
    assert said.out.startswith("abc (here:1) is evicted.\n")
    assert "comes back when it next asks, or when its lease ends" in said.out
    assert "Restart it" in said.out
    assert "evicted" in run("leases", "orders").out
    assert "1 evicted" in run("limit", "show", "orders").out
    assert "was evicted before" in run("leases", "orders", "--evict", "a").out
    again = run("leases", "orders", "--evict", "a", "--json").json
    assert again == {"evicted": "abc", "label": "here:1", "again": True}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("b", "no instance is called 'b'; there are abc1 (here:1), abc2 (here:1)"),
        ("", "no instance is called ''"),
        ("ab", "'ab' may be any of 2: abc1 (here:1), abc2 (here:1); say more of its name"),
        ("here:1", "'here:1' may be any of 2"),
    ],
)
def test_evict_does_not_guess(
    run: Run, manager: RedisLeaseManager, given: str, message: str
) -> None:
    hold(manager, asks("abc1", 300, label="here:1"), asks("abc2", 300, label="here:1"))
    said = run("leases", "orders", "--evict", given)
    assert (said.code, said.out) == (1, "")
    assert message in said.err
    assert not any(one["evicted"] for one in run("leases", "orders", "--json").json["members"])


def test_an_instance_that_is_evicted_goes_on_with_what_is_reserved(run: Run, url: str) -> None:
    errors: list[str] = []

    def note(event: Event) -> None:
        errors.append(event.message)

    with (
        resource(url, reserved_capacity=50) as limiter,
        resource(url) as other,
        ExitStack() as stack,
    ):
        limiter.add_listener(note, "error")
        done = feed(stack, limiter)
        wait_until(lambda: limiter.partitions)
        assert run("leases", "orders", "--evict", limiter.instance[:10]).code == 0
        wait_until(lambda: errors and not limiter.partitions)
        assert limiter.capacity == 50
        other.give_me(100_000)
        wait_until(lambda: len(other.partitions) == 10)
        batches = done()
        wait_until(lambda: done() >= batches + 100)  # which take a few seconds, and some syncs
        assert limiter.partitions == []
        assert len([error for error in errors if "evicted by an operator" in error]) == 1


def test_an_instance_that_is_evicted_stays_so_until_it_is_restarted(run: Run, url: str) -> None:
    def members() -> set[str]:
        return {one["instance"] for one in run("leases", "orders", "--json").json["members"]}

    with resource(url) as limiter, resource(url) as other:
        limiter.give_me(100_000)
        other.give_me(100_000)
        wait_until(lambda: len(limiter.partitions) == len(other.partitions) == 5)
        assert run("leases", "orders", "--evict", limiter.instance).code == 0
        limiter.give_me(0)
        wait_until(lambda: members() == {other.instance})  # the other one is forgotten
        limiter.give_me(100_000)
        for demand, partitions in ((100, 1), (100_000, 10)):
            other.give_me(demand)
            wait_until(lambda: len(other.partitions) == partitions)  # noqa: B023
        assert limiter.partitions == []
        assert members() == {other.instance}


def feed(stack: ExitStack, limiter: SharedResource) -> Callable[[], int]:
    """A Batcher with a backlog that does not end; how many batches it has raised."""
    raised: list[int] = []

    def enqueue() -> None:
        with suppress(BatcherStoppedError):
            while True:
                batcher.enqueue(Operation(watcher, 1, None))

    batcher = Batcher(rate_limiter=limiter, max_buffer_size=1_000)
    watcher = Watcher(lambda batch: raised.append(len(batch)))
    feeder = threading.Thread(target=enqueue, daemon=True)
    batcher.start()
    feeder.start()
    stack.callback(feeder.join)
    stack.callback(batcher.stop, drain=False)
    return lambda: len(raised)


# A cluster of real processes


def test_real_processes_are_shown_changed_and_evicted(run: Run, url: str) -> None:
    plan = Plan(url, log="", shared_capacity=1_000, factor=100, max_interval=0.1, operations=None)
    with Processes(plan) as processes:
        processes.start([["i0"], ["i1"]])

        def members() -> dict[str, Any]:
            told = run("leases", "orders", "--json").json["members"]
            return {member["label"]: member for member in told}

        def sizes() -> list[int]:
            return sorted(size(member["partitions"]) for member in members().values())

        wait_until(lambda: run("limit", "show", "orders").code == 0)
        wait_until(lambda: sizes() == [5, 5])
        run("limit", "set", "orders", "--shared-capacity", "2000")
        wait_until(lambda: sizes() == [10, 10])
        wait_until(lambda: run("leases", "orders", "--json").json["spend"] > 1_000)
        evicted = next(iter(members()))
        assert run("leases", "orders", "--evict", evicted).code == 0
        assert members()[evicted]["evicted"]
        # It holds nothing any more, and is forgotten in the end.
        wait_until(lambda: sizes()[-1] == 20)


def size(text: str) -> int:
    """How many partitions "0-4,7" are."""
    pairs = [part.partition("-") for part in text.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in pairs)


# The environment, and what is not there


def test_options_fall_back_to_the_environment(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHER_PREFIX", "staging")
    monkeypatch.setenv("DISPATCHER_SHARED_CAPACITY", "500")
    monkeypatch.setenv("DISPATCHER_FACTOR", "50")
    monkeypatch.setenv("DISPATCHER_LEASE_TIME", "")
    assert run("limit", "set", "orders").code == 0
    told = run("limit", "show", "orders", "--json").json
    assert (told["shared_capacity"], told["factor"], told["lease_time"]) == (500, 50, 5)
    assert run("limit", "show", "orders", "--prefix", "dispatcher").code == 1
    assert "under the prefix 'dispatcher'" in run("leases", "orders", "--prefix=dispatcher").err


def test_a_bad_variable_is_named(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_FACTOR", "some")
    said = run("limit", "set", "orders", "--shared-capacity", "5")
    assert said.code == 2
    assert "DISPATCHER_FACTOR is 'some': not a number" in said.err
    assert run("limit", "set", "orders", "--shared-capacity", "5", "--factor", "1").code == 0


def test_an_option_counts_more_than_a_variable(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHER_REDIS", f"redis://127.0.0.1:{free_port()}")
    assert "refuses connections" in run("limit", "show", "orders").err
    assert "there is no limit" in run("limit", "show", "orders", "--redis", url).err


@pytest.mark.parametrize(
    "command",
    [
        ["limit", "show", "orders"],
        ["limit", "set", "orders", "--shared-capacity", "5"],
        ["limit", "delete", "orders", "--yes"],
        ["leases", "orders"],
        ["leases", "orders", "--watch", "1"],
        ["leases", "orders", "--evict", "a"],
    ],
)
def test_no_redis_is_one_line_that_says_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.delenv("DISPATCHER_REDIS", raising=False)
    monkeypatch.setattr("dispatcher.cli.options.REDIS", f"redis://127.0.0.1:{free_port()}/0")
    said = run(*command)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert "refuses connections; does it run, and on that port?" in said.err
    assert "--redis URL, or the variable DISPATCHER_REDIS" in said.err


def test_a_redis_that_is_silent_is_given_up_within_seconds(
    run: Run, own_redis: EmbeddedRedis
) -> None:
    own_redis.pause()
    began = time.monotonic()
    said = run("limit", "show", "orders", "--redis", own_redis.url)
    assert said.code == 1
    assert "does not answer in time" in said.err
    assert time.monotonic() - began < 20


def test_without_the_package_redis_it_says_what_to_install(tmp_path: Path) -> None:
    hide(tmp_path, "redis")
    said = outside("limit", "show", "orders", PYTHONPATH=str(tmp_path))
    assert said.code == 1
    assert said.err.endswith("pip install 'batch-dispatcher[redis]'\n")
    assert said.err.count("\n") == 1


def hide(folder: Path, package: str) -> None:
    """With `folder` on its path, a process finds no such package."""
    (folder / f"{package}.py").write_text(
        f"raise ModuleNotFoundError('hidden', name={package!r})\n", encoding="utf-8"
    )


@pytest.mark.parametrize(
    "command",
    [
        ["limit", "show", "orders"],
        ["limit", "show", "orders", "--json"],
        ["limit", "set", "orders", "--shared-capacity", "5"],
        ["leases", "orders"],
        ["leases", "orders", "--json"],
        ["leases", "orders", "--evict", "a"],
        ["leases", "orders", "--evict", "none"],
        ["limit", "delete", "orders"],
        ["limit", "delete", "orders", "--yes"],
        ["limit", "show", "nothing"],
        ["limit", "set", "orders", "--shared-capacity", "0"],
        ["--help"],
        ["limit", "show", "--help"],
        ["leases", "--help"],
        ["limit", "show", "URL"],
        ["leases", "orders", "--uri", "URL"],
        ["leases", "orders", "URL"],
        ["leases", "orders", "--evict", "URL"],
        ["leases", "orders", "--redis", "URL?socket_timeout=often"],
        ["leases", "orders", "--redis", "URL/zero"],
        ["leases", "orders", "--redis", "bad+URL"],
    ],
)
def test_a_password_shows_nowhere(
    run: Run, guarded: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    with closing(RedisLeaseManager(guarded.url, name="orders")) as manager:
        manager.delete()
        hold(manager, asks("a", need=300, label="here:1"))
    for url in (guarded.url, guarded.url.replace("zq1", "zq5")):
        monkeypatch.setenv("DISPATCHER_REDIS", url)
        said = run(*(word.replace("URL", url) for word in command))
        assert said.out + said.err
        assert "zq" not in said.out + said.err


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(password=SECRET) as server:
        yield server


# Help


@pytest.mark.parametrize(
    "command", [["limit", "show"], ["limit", "set"], ["limit", "delete"], ["leases"]]
)
def test_help_teaches_with_an_example(run: Run, command: list[str]) -> None:
    said = run(*command, "--help")
    assert said.code == 0
    assert f"dispatcher {' '.join(command)} orders" in said.out.partition("example")[2]
    assert "[DISPATCHER_REDIS]" in said.out


def test_help_imports_neither_redis_nor_rich() -> None:
    code = (
        "import sys; from dispatcher.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'redis', 'rich'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=PATIENCE)
