"""Changes of a limit by an operator, on the command line."""

from __future__ import annotations

import re
import shlex
from contextlib import closing

import pytest
from redis import Redis

from limiters import RedisLeaseManager
from limiters.leases._scripts import old_keys_of
from tests.commands import (
    COMMAND,
    Run,
    asks,
    hold,
    outside,
    resource,
)
from tests.terminals import Terminal
from tests.waiting import until

# limit show


def test_show_prints_the_terms_and_the_free_capacity(run: Run, manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=1_000))
    said = run("limit", "show", "orders")
    assert (said.code, said.err) == (0, "")
    assert dict(re.split("  +", line) for line in said.out.splitlines()) == {
        "limit": "orders",
        "capacity": "1,000 in 0.05 s",
        "partitions": "10, each worth 100",
        "period": "0.05 s",
        "lease time": "60 s",
        "free": "0 of 10 (0 %)",
        "instances": "1",
        "grants": "to all who ask",
    }
    shown = run("limit", "show", "orders", "--json").json
    assert shown.pop("clock_skew") < 1
    assert shown == {
        "name": "orders",
        "shared_capacity": 1000,
        "capacity_in_force": 1000,
        "rising_per_second": 0,
        "factor": 100,
        "partitions": 10,
        "period": 0.05,
        "lease_time": 60,
        "version": 0,
        "free": 0,
        "instances": 1,
        "uncertain": 0,
        "cause": "",
        "bounds": [
            {
                "dimension": "",
                "kind": "rate",
                "shared_capacity": 1000,
                "capacity_in_force": 1000,
                "rising_per_second": 0,
                "period": 0.05,
                "max_operation_time": 0,
                "held": 1,
                "demand": 1000,
                "spend": 0,
            }
        ],
        "learned": [],
    }


def test_show_prints_how_long_nothing_is_granted_and_why(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a", need=300))
    run("limit", "set", "orders", "--period", "2")
    said = run("limit", "show", "orders")
    assert "nothing new for " in said.out
    assert ": an operator changed the lease or the period\n" in said.out
    assert "Nothing new is granted until every lease that may be out has ended" in said.out
    shown = run("limit", "show", "orders", "--json").json
    assert 50 < shown["uncertain"] < 70
    assert shown["cause"] == "an operator changed the lease or the period"
    assert "grants nothing new for " in run("leases", "orders").out


def test_c8_a_limit_without_instances_does_not_claim_that_it_grants(run: Run, url: str) -> None:
    with Redis.from_url(url) as client:
        client.flushall()  # so that the server may have been used before
    made = run("limit", "set", "orders", "--shared-capacity", "1000", "--factor", "100")
    after = "after the next request of an instance: the limit is new to this server"
    assert f"It grants nothing new for up to 6.0 s {after}" in made.out
    with closing(RedisLeaseManager(url, name="orders")) as manager:
        view = manager.look()
        assert view is not None
        assert view.unconfirmed_ms == 6006  # this does not change with time
    for look in (("limit", "show", "orders"), ("leases", "orders"), ("top", "orders", "--once")):
        assert f"nothing new for up to 6.0 s {after}" in run(*look).out
    with resource(url):
        until(lambda: after not in run("limit", "show", "orders").out)


@pytest.mark.parametrize("command", [("limit", "show"), ("limit", "delete"), ("leases",)])
def test_a_command_for_a_missing_limit_says_how_to_create_it(
    run: Run, url: str, command: tuple[str, ...]
) -> None:
    said = run(*command, "orders")
    assert (said.code, said.out) == (3, "")
    assert "there is no limit 'orders' in redis://127.0.0.1:" in said.err
    assert "dispatcher limit set orders --shared-capacity" in said.err


# limit set


def test_set_creates_a_limit_and_prints_when_it_grants(run: Run, url: str) -> None:
    said = run("limit", "set", "orders", "--shared-capacity=2050", "--factor=100", "--period=60")
    assert said.code == 0
    assert "limit orders is new" in said.out
    assert "2,050 in 60 s" in said.out
    assert "21, each worth 97.619" in said.out  # all are worth the same
    assert "All instances follow within two sync intervals" in said.out
    assert "It grants immediately: no instance can hold any of it." in said.out


@pytest.mark.parametrize("ramp", ["1e-90/1", "1e-6/80000"])
def test_a_ramp_of_centuries_is_printed_in_words(run: Run, url: str, ramp: str) -> None:
    run("limit", "set", "orders", "--shared-capacity=100", "--factor=100")
    run("limit", "set", "orders", "--shared-capacity=1000", "--ramp", ramp)
    shown = run("limit", "show", "orders").out
    assert "each second to 1,000, in 1,000+ years" in shown
    run("limit", "set", "orders", "--shared-capacity=1e100", "--factor=1e99", "--ramp", ramp)
    shown = run("limit", "show", "orders").out
    assert "in 1,000+ years" in shown


def test_set_with_a_factor_larger_than_the_limit_makes_one_partition(run: Run, url: str) -> None:
    said = run("limit", "set", "orders", "--shared-capacity=100", "--factor=500")
    assert "1, worth 100\n" in said.out


def test_set_of_a_missing_limit_needs_a_capacity(run: Run, url: str) -> None:
    said = run("limit", "set", "orders", "--factor", "5")
    assert (said.code, said.out) == (3, "")
    assert "dispatcher limit set orders --shared-capacity" in said.err


def test_set_to_the_present_terms_says_that_nothing_changed(run: Run, url: str) -> None:
    terms = ("--shared-capacity", "500", "--factor", "50")
    assert run("limit", "set", "orders", *terms).out.startswith("limit orders is new\n")
    assert run("limit", "set", "orders", *terms).out.startswith("limit orders is as it was\n")
    assert run("limit", "set", "orders", "--factor", "5").out.startswith("limit orders was changed")


def test_running_instances_adopt_the_terms_of_set(run: Run, url: str) -> None:
    with resource(url) as limiter:
        limiter.give_me(10_000)
        until(lambda: limiter.partitions == pytest.approx(10))
        said = run("limit", "set", "orders", "--shared-capacity", "500")
        assert said.code == 0
        line = next(line for line in said.out.splitlines() if line.startswith("capacity"))
        assert line.split() == ["capacity", "1,000", "a", "second", "500", "a", "second"]
        assert "nothing" not in said.out
        until(lambda: limiter.max_capacity == 500)
        until(lambda: limiter.partitions == pytest.approx(5))


def test_running_instances_adopt_the_terms_of_a_limit_that_was_created_again(
    run: Run, url: str
) -> None:
    with resource(url) as limiter:
        limiter.give_me(10_000)
        until(lambda: limiter.partitions)
        for capacity in (900, 800):
            limiter.set_shared_capacity(capacity)
        with closing(RedisLeaseManager(url, name="orders")) as manager:
            manager.delete()
            manager.set_terms(capacity=500, factor=100, period=1, lease_time=2)
        until(lambda: limiter.max_capacity == 500)
        assert run("limit", "show", "orders", "--json").json["shared_capacity"] == 500


def test_set_raises_along_a_ramp(run: Run, url: str) -> None:
    run("limit", "set", "orders", "--shared-capacity", "100")
    said = run("limit", "set", "orders", "--shared-capacity", "1000", "--ramp", "60/600")
    assert "rising by 0.1 each second to 1,000, in 2 h" in said.out
    shown = run("limit", "show", "orders", "--json").json
    assert shown["rising_per_second"] == pytest.approx(0.1)
    assert 100 <= shown["capacity_in_force"] < 110
    said = run("limit", "set", "orders", "--shared-capacity", "50", "--ramp", "60/600")
    assert "The ramp changes nothing" in said.out


def test_set_of_another_factor_needs_no_wait_and_takes_no_units_away(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a", need=1_000))
    said = run("limit", "set", "orders", "--factor", "50")
    assert said.code == 0
    assert "nothing" not in said.out
    line = next(line for line in said.out.splitlines() if line.startswith("partitions"))
    assert re.split("  +", line) == ["partitions", "10, each worth 100", "20, each worth 50"]
    shown = run("leases", "orders", "--json").json
    assert [shown["partitions"], shown["instances"][0]["held"]] == [20, 20]


def test_set_of_another_lease_or_period_prints_how_long_it_waits_for_present_leases(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a", need=1_000))
    said = run("limit", "set", "orders", "--lease-time", "10", "--period", "2")
    assert said.code == 0
    assert "waits until the leases that are out\nhave ended. Instances keep" in said.out
    assert "It grants nothing new for up to 6" in said.out
    shown = run("limit", "show", "orders", "--json").json
    assert [shown[name] for name in ("shared_capacity", "period", "lease_time")] == [1000, 2, 10]


def test_set_to_the_present_lease_and_period_needs_no_wait(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a", need=300))
    said = run("limit", "set", "orders", "--period", "0.05", "--lease-time", "60")
    assert said.code == 0
    assert "nothing" not in said.out
    assert run("limit", "show", "orders", "--json").json["uncertain"] == 0


def test_running_instances_adopt_another_lease_and_period(run: Run, url: str) -> None:
    with resource(url) as limiter:
        limiter.give_me(10_000)
        until(lambda: limiter.partitions)
        assert run("limit", "set", "orders", "--lease-time", "1", "--period", "0.5").code == 0
        until(lambda: limiter.period == 0.5)
        limiter.give_me(10_001)
        until(lambda: limiter.partitions == pytest.approx(10))
    with resource(url) as late:  # this instance was made with the old values
        late.give_me(10_000)
        until(lambda: late.period == 0.5 and late.partitions == pytest.approx(10))


def test_a_factor_beyond_the_capacity_is_one_partition(run: Run, url: str) -> None:
    said = run("limit", "set", "orders", "--shared-capacity=1", "--factor=1e12")
    assert said.code == 0
    assert "1, worth 1" in said.out
    assert run("limit", "show", "orders").code == 0
    assert "of 1 partition" in run("leases", "orders").out


@pytest.mark.parametrize("name", ["two words", "$(reboot)", "it's", "a;b"])
def test_a_proposed_command_can_be_copied_for_any_name(run: Run, url: str, name: str) -> None:
    said = run("limit", "show", name)
    assert said.code == 3
    words = shlex.split(said.err.rpartition("or: ")[2])
    command = ["dispatcher", "limit", "set", name, "--shared-capacity", "CAPACITY"]
    assert words == [*command, "--redis", url]


def test_a_name_that_is_no_text_is_refused_in_plain_words(run: Run, url: str) -> None:
    said = run("limit", "show", "\udcff")
    assert said.code == 2
    assert said.err.startswith("dispatcher: name must be a text that UTF-8 can write")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shared-capacity=5e-324"], "--shared-capacity must be at least 1e-100, not 5e-324"),
        (["--shared-capacity=1e308"], "--shared-capacity must be at most 1e+100, not 1e+308"),
        (["--shared-capacity=5", "--ramp=1e100/1e-300"], "--ramp must be finite, not inf"),
        (["--shared-capacity=0"], "--shared-capacity must be more than zero, not 0.0"),
        (["--shared-capacity=nan"], "--shared-capacity must be finite, not nan"),
        (["--shared-capacity=-5"], "--shared-capacity must be more than zero, not -5.0"),
        (["--shared-capacity=5", "--factor=0"], "--factor must be more than zero, not 0.0"),
        (["--shared-capacity=5", "--period=0"], "--period must be more than zero seconds, not 0.0"),
        (
            ["--shared-capacity=5", "--period=0.0001"],
            "--period must be from 0.001 to 86400 seconds",
        ),
        (["--shared-capacity=5", "--lease-time=1e300"], "--lease-time must be from 0.2 to 86400"),
        (["--shared-capacity=5", "--lease-time=0.1"], "--lease-time must be from 0.2 to 86400"),
        (["--shared-capacity=5", "--lease-time=-1"], "--lease-time must be more than zero seconds"),
        (["--shared-capacity=5", "--ramp=0/5"], "--ramp must be more than zero, not 0.0"),
        (["--shared-capacity=5", "--ramp=5/0"], "--ramp must be more than zero seconds, not 0.0"),
        (["--shared-capacity=10001"], "--factor must be at least 1.0001 for a capacity of 10001"),
    ],
)
def test_wrong_values_are_refused_with_the_name_of_the_option(
    run: Run, url: str, arguments: list[str], message: str
) -> None:
    said = run("limit", "set", "orders", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"dispatcher: {message}")
    assert run("limit", "show", "orders").code == 3


def test_more_than_10_000_partitions_are_refused_also_for_an_existing_limit(
    run: Run, url: str
) -> None:
    assert run("limit", "set", "orders", "--shared-capacity", "10000").code == 0
    said = run("limit", "set", "orders", "--shared-capacity", "20000")
    assert said.code == 2
    assert "--factor must be at least 2 for a capacity of 20000" in said.err
    assert run("limit", "set", "orders", "--shared-capacity", "20000", "--factor", "2").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["limit"], "ACTION"),
        (["limit", "show"], "NAME"),
        (["limit", "set", "orders", "--ramp", "100/1"], "--ramp goes with --shared-capacity"),
        (["limit", "set", "orders"], "say what to change: --shared-capacity, --factor, "),
        (
            ["limit", "set", "orders", "--shared-capacity", "many"],
            "must be a number, or limits by",
        ),
        (["limit", "set", "orders", "--shared-capacity=5", "--ramp=5"], "like 1000/60"),
        (["limit", "set", "orders", "--shared-capacity=5", "--ramp=5/x"], "not a number"),
        (["leases", "orders", "--watch", "1", "--evict", "a"], "not allowed with"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, arguments: list[str], message: str) -> None:
    said = run(*arguments)
    assert said.code == 2
    assert message in said.err


def test_a_stopped_instance_is_not_listed(run: Run, url: str) -> None:
    with resource(url) as limiter:
        limiter.give_me(300)
        until(lambda: limiter.capacity)
        assert run("limit", "show", "orders", "--json").json["instances"] == 1
    assert run("limit", "show", "orders", "--json").json["instances"] == 0
    assert run("leases", "orders", "--json").json["instances"] == []
    assert "no instance asks for any of it" in run("leases", "orders").out


# limit delete


def test_delete_removes_a_limit_once(run: Run, manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=300))
    said = run("limit", "delete", "orders", "--yes")
    assert said.code == 0
    assert "limit orders is deleted" in said.out
    assert manager.look() is None
    assert run("limit", "delete", "orders", "--yes").code == 3


def test_delete_of_an_old_format_deletes_only_that(
    run: Run, manager: RedisLeaseManager, url: str
) -> None:
    hold(manager, asks("a", need=300))
    said = run("limit", "delete", "orders", "--old-format", "--yes")
    assert (said.code, said.out) == (3, "")
    assert "nothing of an older format is stored of limit 'orders'" in said.err
    with closing(Redis.from_url(url)) as client:
        client.delete(old_keys_of("dispatcher", "orders")[0])
        client.hset(old_keys_of("dispatcher", "orders")[0], "capacity", "5")
    refused = run("limit", "set", "orders", "--shared-capacity", "5")
    assert refused.code == 4
    assert "limit delete orders --old-format" in refused.err
    said = run("limit", "delete", "orders", "--old-format", "--yes")
    assert (said.code, said.err) == (0, "")
    assert "what an older version has stored of limit orders is deleted" in said.out
    assert run("limit", "show", "orders", "--json").json["instances"] == 1


def test_delete_needs_yes_where_it_cannot_ask(manager: RedisLeaseManager) -> None:
    hold(manager, asks("a", need=300))
    said = outside("limit", "delete", "orders")
    assert (said.code, said.out) == (1, "")
    assert "use --yes" in said.err
    assert manager.look() is not None


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 1), ("", 1)])
def test_delete_asks_on_a_terminal(manager: RedisLeaseManager, answer: str, code: int) -> None:
    hold(manager, asks("a", need=300))
    with Terminal([*COMMAND, "limit", "delete", "orders"]) as terminal:
        asked = terminal.read_until("Type yes: ")
        assert f"Delete limit orders in {manager.where}? 1 instance took part lately. " in asked
        terminal.type(f"{answer}\n")
        assert terminal.end() == code
    assert (manager.look() is None) == (code == 0)
