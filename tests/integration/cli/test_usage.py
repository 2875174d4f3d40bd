"""One rule for exit codes: 2 for what is wrong with the command line, 1 for what failed."""

from __future__ import annotations

import shlex

import pytest

from tests.commands import Run, outside
from tests.servers.ports import own_port

WRONG = [
    ("demo --capacity 1", "--capacity must be at least"),
    ("demo --seconds x", "not a number"),
    ("limit", "ACTION"),
    ("limit show", "NAME"),
    ("limit show a --prefix a{b}", "prefix must be without braces"),
    ("limit show a --redis http://x", "--redis must"),
    ("limit set a --shared-capacity 0", "--shared-capacity must be more than zero"),
    ("limit set a --shared-capacity 5 --ramp 5/0", "--ramp must be more than zero"),
    ("leases a --watch 0", "--watch must be more than zero"),
    ("leases a --redis x", "--redis must"),
    ("top a --interval 0", "--interval must be more than zero"),
    ("timeline stats a{b}", "topic must be without braces"),
    ("timeline delete a", "select messages"),
    ("timeline delete a b --all", "but not both"),
    ("timeline move a --delay 1s", "select messages"),
    ("timeline move a b --at=-1h", "--at must not be in the past"),
    ("timeline requeue a b --of-group c", "but not both"),
    ("timeline move a b --at=--", "argument --at: '--'"),
    ("leases a --redis=--", "--redis must begin with"),
    (
        "limit set a --shared-capacity=--",
        "--shared-capacity must be a number, or limits by dimension, as in",
    ),
    ("timeline create a --group=-- --id a y z", "--id is for one BODY"),
    ("timeline create a --group g --id a y z", "--id is for one BODY"),
    ("timeline create a --group g --id a", "are for a BODY"),
    ("timeline create a --group g --body-json {", "BODY must be JSON"),
    ("timeline create a --group g b --at=-1h", "at must not be before now"),
    ("exporter --redis http://x --once", "--redis must"),
    ("completion csh", "invalid choice"),
    ("nothing", "invalid choice"),
    ("workr", "; did you mean worker?"),
    ("limit lst", "; did you mean list?"),
    ("timeline peek mails --state newe", "; did you mean new?"),
]


def test_wrong_usage_is_one_line_that_names_the_help(run: Run) -> None:
    said = run("worker", "--topic")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.endswith(" (see dispatcher worker --help)\n")


WRONG_OF_A_WORKER = [
    ("--processes 100000", "--processes must be at most 1,000"),
    ("--lease-time 0.001", "--lease-time must be at least 0.1 s"),
    ("--shared-capacity 5", "--shared-capacity needs --limit"),
    ("--limit x --shared-capacity 5 --limit-lease-time 1", "--max-interval must be at most 0.25"),
    ("--cost nan", "--cost must be finite"),
    ("--cost requests=1,tokens=", "cost['tokens'] must name a field of the body"),
    ("--batch-cost requests=-1", "--batch-cost['requests'] must be zero or more"),
    ("--batch-cost size", "--batch-cost must be a number"),
    ("--redis http://x", "--redis must"),
    ("--topic a{b}", "topic must be without braces"),
    ("--processes 2 --metrics-port 0", "name the first of"),
    ("--check --limit-lease-time 0.1", "--limit-lease-time must be from 0.2"),
    ("--check --weight 0 --shared-capacity=-1", "--weight must be more than zero"),
    ("--log-format xml", "invalid choice: 'xml'"),
    ("--check --cost nan", "cost must be finite"),
    ("--check --processes 3 --metrics-port 65534", "port must be 0-65535"),
]

FAILS = [
    ("limit show a", "refuses connections"),
    ("limit delete a --yes", "refuses connections"),
    ("leases a", "refuses connections"),
    ("top a --once", "refuses connections"),
    ("timeline stats a", "refuses connections"),
    ("timeline delete a b", "refuses connections"),
    ("timeline create a --group g b", "refuses connections"),
]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """Where no Redis is: what is wrong by itself is reported all the same."""
    url = f"redis://127.0.0.1:{own_port()}/0"
    monkeypatch.setenv("DISPATCHER_REDIS", url)
    return url


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[line for line, _ in WRONG])
def test_wrong_usage_ends_with_2(run: Run, nowhere: str, line: str, message: str) -> None:
    said = run(*shlex.split(line))
    assert (said.code, said.out) == (2, "")
    assert message in said.err


@pytest.mark.parametrize(("line", "message"), FAILS, ids=[line for line, _ in FAILS])
def test_what_fails_ends_with_1(run: Run, nowhere: str, line: str, message: str) -> None:
    said = run(*shlex.split(line))
    assert (said.code, said.out) == (4, "")
    assert message in said.err


@pytest.mark.parametrize(
    ("options", "message"), WRONG_OF_A_WORKER, ids=[options for options, _ in WRONG_OF_A_WORKER]
)
def test_wrong_usage_of_a_worker_ends_with_2(
    run: Run, nowhere: str, options: str, message: str
) -> None:
    said = run("worker", "math:fsum", "--topic", "t", *shlex.split(options))
    assert said.code == 2
    assert ("option " in said.out) == ("--check" in options)  # the table, whatever is wrong
    assert message in said.err + said.out
    assert "Traceback" not in said.err


@pytest.mark.parametrize("option", [["--check"], ["--fail-fast"]])
def test_a_worker_whose_redis_is_away_ends_with_1(nowhere: str, option: list[str]) -> None:
    said = outside("worker", "math:fsum", "--topic", "t", *option)
    assert said.code == 4
    assert "refuses connections" in said.err + said.out
