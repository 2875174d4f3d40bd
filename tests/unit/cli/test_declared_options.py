"""Each option is declared once, and is then on the command line, in variables and in the file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatcher.cli._commands.limit.options import CHANGE
from dispatcher.cli._commands.timeline.options import CHANGED_STATES, MOST_PEEKED, STATES
from dispatcher.cli._commands.timeline.selecting import FREE
from dispatcher.cli._commands.worker.options import LIMIT
from dispatcher.cli._options.parser import Parser
from dispatcher.cli.main import command_line
from dispatcher.timeline import Status
from dispatcher.timeline._reading.peeking import MOST
from dispatcher.timeline.operator import LIVING
from dispatcher.worker import Worker
from dispatcher.worker._options import WorkerOptions
from docs.option_table import table
from limiters import ArgumentError, LimiterConfig
from limiters._support.options import options_of
from limiters.leases._operator import TermsChange


def commands(parser: Parser) -> Iterator[Parser]:
    if parser.fill().settings:
        yield parser
    for one in parser.below.values():
        yield from commands(one)


COMMANDS = {parser.prog: parser for parser in commands(command_line())}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_may_stand_in_a_variable_and_in_the_file(command: str) -> None:
    """The subject of a call has no flag, and stands on the command line alone."""
    for one in COMMANDS[command].settings:
        assert one.looks.positional or one.variable.startswith("DISPATCHER_"), one.flag
        assert not one.variable or one.name in COMMANDS[command].commands().options


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_names_every_option_and_its_variable(command: str) -> None:
    text = COMMANDS[command].format_help()
    for one in COMMANDS[command].settings:
        assert f"  {one.metavar if one.looks.positional else one.flag}" in text
        assert one.kind is bool or one.metavar in text
        assert one.variable in text


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_fits_a_terminal_of_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the line of usage, and examples, which users copy."""
    monkeypatch.setenv("COLUMNS", "80")
    _, _, text = COMMANDS[command].format_help().partition("\n\n")
    help_, _, _ = text.partition("\nexample")
    assert [line for line in help_.splitlines() if len(line) > 80] == []


def test_one_variable_means_the_same_kind_of_value_to_all_commands() -> None:
    kinds: dict[str, set[object]] = {}
    for command in COMMANDS.values():
        for one in command.settings:
            if one.variable:
                kinds.setdefault(one.variable, set()).add(one.kind or one.read)
    assert {name for name, kind in kinds.items() if len(kind) > 1} == set()


def test_a_variable_of_a_workers_limit_is_that_of_the_limits_own_command() -> None:
    """And one of its messages is not: a worker's DISPATCHER_LEASE_TIME must not change a limit."""
    worker, limit = (
        {one.flag: one.variable for one in COMMANDS[f"dispatcher {name}"].settings}
        for name in ("worker", "limit set")
    )
    shared = {"--shared-capacity", "--factor", "--period"}
    assert {flag: worker[flag] for flag in shared} == {flag: limit[flag] for flag in shared}
    assert worker["--limit-lease-time"] == limit["--lease-time"]
    assert worker["--lease-time"] not in limit.values()


def test_every_number_has_a_check() -> None:
    """`--seconds -1` is refused before anything is done, by its name."""
    unchecked = {
        f"{command} {one.flag}"
        for command, parser in COMMANDS.items()
        for one in parser.settings
        if one.kind in (int, float) and one.declared.check is None
    }
    of_a_timeline = {"peek --limit", "dead --limit", "create --buckets"}  # which checks them itself
    assert unchecked == {f"dispatcher timeline {it}" for it in of_a_timeline}


@pytest.mark.parametrize("seconds", ["-1", "0", "1.9", "nan", "inf", "1e9"])
def test_the_demo_refuses_a_time_that_cannot_be(seconds: str) -> None:
    root, line = command_line(), ["demo", f"--seconds={seconds}"]
    call = root.parse_args(line).parser.settle(root, root.parse_args(line), line)
    with pytest.raises(ArgumentError, match="seconds must be"):
        call.options()


def test_states_and_bounds_are_those_of_the_timeline() -> None:
    """They stand there once more, since `--help` imports no Timeline."""
    assert (*LIVING, Status.DEAD) == STATES
    assert (*FREE, Status.DEAD) == CHANGED_STATES
    assert MOST_PEEKED == MOST


def test_every_option_of_a_worker_that_can_be_written_is_one_of_its_command() -> None:
    declared = options_of(WorkerOptions)
    found = {one.attribute for one in COMMANDS["dispatcher worker"].settings}
    assert set(declared) - found == {"retry"}, "an object, for which --backoff stands"
    for name in found & set(declared):
        assert f"--{name.replace('_', '-')} " in table(["worker"])
        assert f"`{name}`" in (Worker.__doc__ or "")


def test_a_value_that_is_refused_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_CONCURRENCY", "0")
    root, words = command_line(), ["worker", "shop:send", "--topic", "mails"]
    given = root.parse_args(words)
    call = given.parser.settle(root, given, words)
    with pytest.raises(ArgumentError) as refused:
        call.options()
    said = "--concurrency (from DISPATCHER_CONCURRENCY) must be at least 1, not 0"
    assert str(call.by_its_option(refused.value)) == said


def test_every_option_of_a_limit_that_can_be_written_is_one_of_a_worker() -> None:
    worker = {one.attribute for one in COMMANDS["dispatcher worker"].settings}
    written = {name for name, one in options_of(LimiterConfig).items() if one.can_be_written}
    of_a_worker = {own for own, flag in LIMIT.flags.items() if flag[2:].replace("-", "_") in worker}
    assert set(options_of(LimiterConfig)) - written == {"ramp"}, "a pair"
    assert written == of_a_worker


def test_every_term_that_an_operator_can_change_is_an_option_of_limit_set() -> None:
    settings = {one.flag for one in COMMANDS["dispatcher limit set"].settings}
    assert set(options_of(TermsChange)) == set(CHANGE.flags)
    assert set(CHANGE.flags.values()) <= settings


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--limit-lease-time 0.1", "--limit-lease-time must be from 0.2 to 86400 seconds, not 0.1"),
        ("--lease-time 0", "--lease-time must be more than zero seconds, not 0.0"),
        ("--weight 0", "--weight must be more than zero, not 0.0"),
        ("--reserved=-1", "--reserved must be zero or more, not -1.0"),
        ("--period 0", "--period must be more than zero seconds, not 0.0"),
    ],
)
def test_a_worker_refuses_options_of_a_limit_under_its_own_names(words: str, said: str) -> None:
    """Even if it shares none: a later refusal would come at the wrong moment."""
    root, line = command_line(), ["worker", "shop:send", "--topic", "mails", *words.split()]
    call = root.parse_args(line).parser.settle(root, root.parse_args(line), line)
    with pytest.raises(ArgumentError) as refused:
        call.options()
    assert str(call.by_its_option(refused.value)) == said
