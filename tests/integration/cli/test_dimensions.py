"""Limits of several dimensions on the command line, in its file and in variables, over a Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dispatcher.timeline import Message, Timeline
from limiters import Limits, RedisLeaseManager, SharedResource
from tests.commands import COMMAND, Run
from tests.terminals import Terminal
from tests.waiting import refusal, until

TEXT = "requests=600/60s+10/1s,tokens=90000/60s,calls=20slots"


@contextmanager
def instance(url: str, text: str = TEXT, **options: object) -> Iterator[SharedResource]:
    with (
        closing(RedisLeaseManager(url, name="llm", lease_time=5)) as manager,
        SharedResource(
            shared_capacity=Limits.parse(text),
            lease_manager=manager,
            max_interval=0.1,
            **options,  # type: ignore[arg-type]
        ) as made,
    ):
        yield made


def rows(out: str) -> dict[str, str]:
    return dict(re.split("  +", line, maxsplit=1) for line in out.splitlines() if "  " in line)


def test_a_limit_is_made_and_shown_as_it_is_written(run: Run, url: str) -> None:
    made = run("limit", "set", "llm", "--shared-capacity", TEXT)
    assert (made.code, made.err) == (0, "")
    assert "limit llm is new" in made.out
    said = run("limit", "show", "llm")
    shown = rows(said.out)
    assert shown["capacity"] == TEXT
    assert shown["requests"] == "600 in 60 s"
    assert shown["requests/1s"] == "10 a second"
    assert shown["calls"] == "20 in flight, of at most 60 s"
    free = said.out.partition("free")[2].partition("instances")[0]
    assert [line.strip() for line in free.splitlines()] == [
        "100 % of requests",
        "100 % of requests/1s",
        "100 % of tokens",
        "20 of calls",
    ]
    assert TEXT in run("limit", "list").out
    bounds = run("limit", "show", "llm", "--json").json["bounds"]
    assert [(one["dimension"], one["kind"], one["shared_capacity"]) for one in bounds] == [
        ("requests", "rate", 600),
        ("requests/1s", "rate", 10),
        ("tokens", "rate", 90_000),
        ("calls", "slots", 20),
    ]
    again = run("limit", "set", "llm", "--shared-capacity", shown["capacity"])
    assert again.out.startswith("limit llm is as it was\n")


def test_c9_those_who_run_follow_a_capacity_and_a_window(run: Run, url: str) -> None:
    with instance(url) as limiter:
        limiter.give_me({"requests": 5, "tokens": 400, "calls": 1})
        limiter.wait_until_provisioned()
        run("limit", "set", "llm", "--shared-capacity", "tokens=120000,calls=5slots")
        until(lambda: limiter.max_capacity == {"requests": 10, "tokens": 120_000, "calls": 5})
        said = run("limit", "set", "llm", "--shared-capacity", "tokens=60000/120s")
        assert "Another period, lease time or longest call waits until the leases" in said.out
        until(lambda: limiter.period == 120)
        most = {"requests": 10, "tokens": 60_000, "calls": 5}
        until(lambda: limiter.max_capacity == most)
    with instance(url) as late:  # made with the terms of before
        late.give_me({"requests": 5, "tokens": 400, "calls": 1})
        late.wait_until_provisioned()
        until(lambda: late.period == 120)


def test_a_ramp_is_by_dimension_or_a_duration_for_all(run: Run, url: str) -> None:
    run("limit", "set", "llm", "--shared-capacity", TEXT)
    said = run("limit", "set", "llm", "--shared-capacity", "tokens=120000", "--ramp", "30m")
    assert "rising by 16.7 each second to 120,000, in 30 min" in said.out
    more = ("--shared-capacity", "tokens=130000,requests=700")
    run("limit", "set", "llm", *more, "--ramp", "tokens=600/1m")
    bounds = run("limit", "show", "llm", "--json").json["bounds"]
    assert [one["rising_per_second"] for one in bounds] == [0, 0, 10, 0]
    said = run("limit", "set", "llm", *more, "--ramp", "1000/60")
    assert said.code == 2
    assert "--ramp must say of which dimension the amount is" in said.err


@pytest.mark.parametrize(
    ("capacity", "says"),
    [
        ("tokns=5", "--shared-capacity must name requests, tokens or calls, not 'tokns=5'"),
        ("requests=8", "--shared-capacity must allow less in requests/1s (10/1s) than"),
        ("calls=2.5slots", "--shared-capacity must have a whole number of slots for calls"),
        ("5", "--shared-capacity must say of which dimension it is"),
        ("requests=6/60s+7/1s", "--shared-capacity must be a possible limit for requests"),
    ],
)
def test_what_cannot_be_is_refused_by_its_dimension_and_changes_nothing(
    run: Run, url: str, capacity: str, says: str
) -> None:
    run("limit", "set", "llm", "--shared-capacity", TEXT)
    said = run("limit", "set", "llm", "--shared-capacity", capacity)
    assert (said.code, said.out) == (2, "")
    assert says in said.err
    assert rows(run("limit", "show", "llm").out)["capacity"] == TEXT


@pytest.mark.parametrize("also", [(), ("--shared-capacity", "tokens=5")])
def test_what_a_partition_is_worth_is_for_limits_of_one_number(
    run: Run, url: str, also: tuple[str, ...]
) -> None:
    run("limit", "set", "llm", "--shared-capacity", TEXT)
    for command in (
        ("limit", "set", "llm", "--factor", "5", *also),
        ("limit", "set", "new", "--factor", "5", "--shared-capacity", TEXT),
    ):
        said = run(*command)
        assert (said.code, said.out) == (2, "")
        assert "--factor must be left out where dimensions have names, not 5.0" in said.err


def test_other_dimensions_start_it_over_and_those_of_before_are_refused_by_name(
    run: Run, url: str
) -> None:
    with instance(url) as old:
        assert old.acquire({"requests": 1, "tokens": 400}, timeout=5)
        other = "requests=600/60s,reads=5/1s"
        command = ("limit", "set", "llm", "--start-over", "--shared-capacity", other)
        said = run(*command)
        assert (said.code, said.out) == (1, "")
        assert "nothing was changed: there is no terminal to ask on (Start limit llm" in said.err
        assert f"It is {TEXT} now, and 1 instance took part lately" in said.err
        assert rows(run("limit", "show", "llm").out)["capacity"] == TEXT
        said = run(*command, "--yes")
        assert (said.code, said.err) == (0, "")
        assert "It has other dimensions: it starts over when the leases" in said.out
        assert rows(run("limit", "show", "llm").out)["capacity"] == other
        with instance(url) as late:
            late.give_me({"requests": 1})
            refused = refusal(late)
        assert "reads is no dimension here and a rate per 1 s there" in refused
        assert "dispatcher limit set llm --start-over --shared-capacity" in refused


def test_what_forgets_nothing_is_not_asked_about(run: Run, url: str) -> None:
    for capacity in (TEXT, TEXT.replace("600/60s", "500/60s")):  # it is new; the same dimensions
        said = run("limit", "set", "llm", "--start-over", "--shared-capacity", capacity)
        assert (said.code, said.err) == (0, "")
        assert rows(run("limit", "show", "llm").out)["capacity"] == capacity


def test_a_limit_of_many_dimensions_fits_a_terminal_of_80_columns(run: Run, url: str) -> None:
    text = (
        "requests=600/60s+10/1s,tokens=90000/60s:counts=end:max_operation_time=30s,"
        "calls=20slots,connections=50slots"
    )
    run("limit", "set", "llm", "--shared-capacity", text)
    with Terminal([*COMMAND, "limit", "show", "llm"], COLUMNS="80") as terminal:
        lines = terminal.read_until("connections=50slots").replace("\r", "").splitlines()
        assert terminal.end() == 0
    assert lines[-1].split() == ["capacity", text]  # in one piece, to be copied
    assert all(len(line.rstrip()) <= 80 for line in lines[:-1])
    wrapped = [line for line in lines if line.startswith(" ") and " of " not in line]
    assert wrapped == []


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 1)])
def test_starting_over_asks_on_a_terminal(run: Run, url: str, answer: str, code: int) -> None:
    run("limit", "set", "llm", "--shared-capacity", TEXT)
    command = [*COMMAND, "limit", "set", "llm", "--start-over", "--shared-capacity", "a=5/1s"]
    with Terminal(command) as terminal:
        asked = terminal.read_until("Type yes: ")
        assert "0 instances took part lately" in " ".join(asked.split())
        terminal.type(f"{answer}\n")
        assert terminal.end() == code
    expected = "a=5/1s" if code == 0 else TEXT
    assert rows(run("limit", "show", "llm").out)["capacity"] == expected


def test_a_new_limit_says_what_each_number_counts(run: Run, url: str) -> None:
    """A mistyped name is a new limit as well."""
    run("limit", "set", "llm", "--shared-capacity", TEXT)
    said = run("limit", "set", "lmm", "--shared-capacity", "calls=30")
    assert (said.code, said.out) == (2, "")
    assert "--shared-capacity must say what 30 counts, not 'calls=30'" in said.err
    assert "there is no limit 'lmm' yet that it could change" in said.err


def test_c10_the_number_of_partitions_is_set_and_stays(run: Run, url: str) -> None:
    run("limit", "set", "llm", "--shared-capacity", TEXT, "--parts", "50")
    for change in (("--shared-capacity", "requests=900"), ("--parts", "20")):
        shown = rows(run("limit", "show", "llm").out)["partitions"]
        assert shown == "50, each 2 % of all"
        assert run("limit", "set", "llm", *change).code == 0
    assert rows(run("limit", "show", "llm").out)["partitions"] == "20, each 5 % of all"
    made = run("limit", "set", "orders", "--shared-capacity", "100", "--parts", "20")
    assert rows(made.out)["partitions"].split("  ")[-1].strip() == "20, each worth 5"


def test_leases_and_top_show_each_bound(run: Run, url: str) -> None:
    with (
        instance(url, reserved_capacity={"tokens": 50}) as limiter,
        limiter.reserve({"requests": 1, "tokens": 400, "calls": 2}, timeout=5),
    ):
        until(lambda: "in use 10 %" in run("leases", "llm").out)
        said = run("leases", "llm").out
        titles = next(line for line in said.splitlines() if line.startswith("instance"))
        names = ["requests", "requests/1s", "tokens", "calls"]
        assert titles.split()[2:6] == names
        one = run("leases", "llm", "--dimension", "calls").out
        assert "limit llm: calls 20 in flight" in one
        told = run("leases", "llm", "--json").json
        [held] = told["instances"]
        assert [it["dimension"] for it in held["bounds"]] == names
        assert [it["reserved"] for it in held["bounds"]] == [0, 0, 50, 0]
        assert held["bounds"][3]["spends"] == 2
        shown = run("top", "llm", "--once").out
        assert all(any(line.startswith(name) for line in shown.splitlines()) for name in names)
        refused = run("leases", "llm", "--dimension", "request")
        assert refused.code == 2
        assert "the limit has no 'request'; it has requests, requests/1s, tokens, calls" in (
            refused.err
        )


WORKER = ("worker", "json:dumps", "--topic", "mails", "--limit", "llm", "--check")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--cost tokens=size --batch-cost requests=1,calls=1", f"ok  limit    llm: {TEXT}"),
        ("--cost tokns=size", "--cost must be of requests, tokens and calls alone, not {'tokns"),
        ("--cost 5", "--cost must say of which dimension it is, not 5.0"),
        ("--cost size", "as in requests=1,tokens=size,calls=1"),
        ("--factor 5", "--factor must be left out with Limits, not 5.0; say --parts 100 for"),
        (
            "--cost requests=1,calls=1 --max-operation-time 90",
            "--max-operation-time must be at most 60 seconds, the max_operation_time of calls=",
        ),
        ("--cost tokens=100000,calls=1", "more than the limiter's max_capacity of 90000 of tokens"),
        ("--cost tokens=5", "--cost must name calls, of which each call takes one or more"),
        ("--cost tokens=n --batch-cost calls=1.5", "--batch-cost['calls'] must be a whole number"),
        ("--reserved 100", "--reserved must say of which dimension it is, not 100.0"),
        ("--shared-capacity tokens=5/6s", "requests is no dimension here and a rate per 60 s"),
    ],
)
def test_a_worker_checks_its_costs_against_the_dimensions(
    run: Run, url: str, options: str, says: str
) -> None:
    with closing(Timeline(url, "mails")) as timeline:
        timeline.producer("us").create([Message("x", delay=3_600)])
    run("limit", "set", "llm", "--shared-capacity", TEXT)
    said = run(*WORKER, *options.split())
    assert says in said.out
    assert said.code == (0 if says.startswith("ok") else said.code or 1)


@pytest.mark.parametrize(
    ("options", "wrong", "not_tried"),
    [
        ("--limit new --shared-capacity calls=20", ["option"], ["limit", "worker"]),
        ("--shared-capacity tokens=5/6s --cost requests=1", ["limit"], ["worker"]),
        ("--cost tokens=", ["option"], ["worker"]),
        ("--weight 0 --cost tokens=size --batch-cost calls=1", ["option"], []),
        ("--cost tokens=size --batch-cost calls=1", [], []),
    ],
)
def test_a_check_judges_nothing_by_the_default_of_an_option_that_is_wrong(
    run: Run, url: str, options: str, wrong: list[str], not_tried: list[str]
) -> None:
    """It would say that there is no limit, although a right option would make it."""
    run("limit", "set", "llm", "--shared-capacity", TEXT)
    said = run(*WORKER, "--create-topic", *options.split())
    found = [line.split()[:2] for line in said.out.partition("tried")[2].splitlines()[1:]]
    assert [tried for mark, tried in found if mark == "NO"] == wrong
    assert [tried for mark, tried in found if mark == "-"] == not_tried
    assert ["ok", "worker"] in found or not_tried


def test_a_file_has_a_table_of_dimensions(run: Run, url: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(
        '[limit.set.shared-capacity]\nrequests = "600/60s+10/1s"\ntokens = "500/1s"\n'
        'calls = "20slots"\n[worker]\ncost = { tokens = "size" }\nreserved = { tokens = 5 }\n'
    )
    assert run("limit", "set", "llm", "--config", str(file)).code == 0
    shown = rows(run("limit", "show", "llm").out)
    assert shown["capacity"] == "requests=600/60s+10/1s,tokens=500/1s,calls=20slots"
    used = rows(run(*WORKER, "--config", str(file)).out)
    assert used["cost"].startswith("tokens=size ")
    file.write_text('[limit.set]\nfactor = { tokens = "5" }\n')
    said = run("limit", "set", "llm", "--config", str(file))
    assert said.code == 2
    assert "[limit.set] [factor]: factor is one value, not a table" in said.err


def test_a_variable_has_the_same_text(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_SHARED_CAPACITY", TEXT)
    assert run("limit", "set", "llm").code == 0
    assert rows(run("limit", "show", "llm").out)["capacity"] == TEXT
