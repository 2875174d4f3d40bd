"""The configuration file, and which of four places an option's value comes from."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dispatcher.cli._commands.limit.ramp import OneRamp
from dispatcher.cli._commands.worker.used_table import page
from dispatcher.cli._options.configuration import (
    Commands,
    Configuration,
    ConfigurationError,
    Found,
    read,
)
from dispatcher.cli._options.declaring import Command, CommandGroup, argument, flag, option
from dispatcher.cli._options.parser import Invocation, Parser
from dispatcher.cli._terminal.tables import plain
from dispatcher.cli.main import command_line
from limiters._limits_text import read_number_or_text

KNOWN = Commands(
    below={
        "worker": Commands(frozenset({"redis", "topic", "lease-time"})),
        "limit": Commands(below={"set": Commands(frozenset({"redis", "factor"}))}),
    }
)


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    handler: str = argument("HANDLER", "what to call", variable="DISPATCHER_HANDLER")
    ids: tuple[str, ...] = argument("ID", "these alone", ())
    redis: str = option("where", "URL", "redis://localhost")
    topic: tuple[str, ...] = option("of what", "TOPIC", ())
    lease_time: float = option("how long, 100 %", "S", 30.0)
    concurrency: int = option("how many", "N", 16)
    cost: float | str = option("a number, or a field", "C", 1.0, read=read_number_or_text)
    order: str | None = option("in which", "", choices=["time", "none"])
    level: str = option("of the log", "", "INFO", read=str.upper, choices=["DEBUG", "INFO"])
    fail_fast: bool = flag("do not wait for Redis")
    watch: float | None = option("again and again", "S")
    evict: str | None = option("one of them", "ID")


@dataclass(frozen=True, kw_only=True)
class WorthOptions:
    factor: float | None = option("worth", "F")


PROGRAM = CommandGroup(
    description="",
    epilog="",
    title="commands",
    metavar="COMMAND",
    commands={
        "worker": Command(
            description="",
            epilog="",
            options=WorkOptions,
            run="",
            exclusive=("watch", "evict"),
            replaced={"ids": ("order", "fail_fast")},
        ),
        "limit": CommandGroup(
            description="",
            epilog="",
            title="actions",
            metavar="ACTION",
            commands={"set": Command(description="", epilog="", options=WorthOptions, run="")},
        ),
    },
)


def called(root: Parser, *arguments: str) -> Invocation:
    given = root.parse_args(arguments)
    call: Invocation = given.parser.settle(root, given, arguments)
    return call


def settled(*arguments: str) -> Any:
    return called(Parser(declared=PROGRAM, prog="dispatcher"), *arguments).options()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DISPATCHER_REDIS", raising=False)
    monkeypatch.setenv("DISPATCHER_CONFIG", str(tmp_path / "shop.toml"))
    return tmp_path / "shop.toml"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        settled(*arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_the_nearest_place_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["worker", "shop:send"]
    file.write_text("")
    assert settled(*asked).redis == "redis://localhost"
    file.write_text('redis = "redis://top"\n')
    assert settled(*asked).redis == "redis://top"
    file.write_text('redis = "redis://top"\n[worker]\nredis = "redis://table"\n')
    assert settled(*asked).redis == "redis://table"
    monkeypatch.setenv("DISPATCHER_REDIS", "redis://variable")
    assert settled(*asked).redis == "redis://variable"
    assert settled(*asked, "--redis", "redis://line").redis == "redis://line"
    monkeypatch.setenv("DISPATCHER_REDIS", "")
    assert settled(*asked).redis == "redis://table"


def test_each_kind_is_read_from_the_file(file: Path) -> None:
    file.write_text(
        '[worker]\nhandler = "shop:send"\ntopic = ["a", "b"]\nlease_time = 5\n'
        'concurrency = 4\ncost = 2.5\norder = "time"\nfail-fast = true\n[limit.set]\nfactor = 1e3\n'
    )
    options = settled("worker")
    assert (options.handler, options.topic, options.lease_time) == ("shop:send", ("a", "b"), 5)
    assert (options.concurrency, options.cost, options.order) == (4, 2.5, "time")
    assert options.fail_fast is True
    assert settled("worker", "--no-fail-fast").fail_fast is False
    assert settled("limit", "set").factor == 1000


def test_each_kind_is_read_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "HANDLER": "shop:send",
        "TOPIC": "a, b,",
        "LEASE_TIME": "5",
        "FAIL_FAST": "yes",
        "COST": "weight",
    }.items():
        monkeypatch.setenv(f"DISPATCHER_{name}", text)
    options = settled("worker")
    assert (options.handler, options.topic, options.lease_time) == ("shop:send", ("a", "b"), 5)
    assert (options.fail_fast, options.cost) == (True, "weight")


def test_defaults_and_repetition() -> None:
    options = settled("worker", "shop:send", "--topic", "a", "--topic=b")
    assert (options.topic, options.cost, options.fail_fast) == (("a", "b"), 1.0, False)
    assert settled("worker", "shop:send").topic == ()


def test_the_file_may_be_named_before_and_after_the_command(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text("[worker]\nlease-time = 7\n")
    for arguments in (
        ["--config", str(path), "worker", "shop:send"],
        ["worker", "shop:send", "--config", str(path)],
    ):
        assert settled(*arguments).lease_time == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("redi = 1", "shop.toml redi: there is no such option; did you mean redis?"),
        ("[worker]\nleasetime = 1", "[worker] leasetime: there is no such option; did you mean"),
        ("[workers]\na = 1", "[workers]: there is no such command; did you mean worker?"),
        ("[limit.sett]\na = 1", "[limit] [sett]: there is no such command; did you mean set?"),
        ("[limit.set]\ntopic = 'a'", "[limit.set] topic: there is no such option; there are"),
        ("[worker]\nlease-time = 1\nlease_time = 2", "it was set before, as lease-time"),
        ("[worker]\nlease-time = '1'", "[worker] lease-time is '1': it must be a number"),
        ("[worker]\nlease-time = true", "[worker] lease-time is True: it must be a number"),
        ("[worker]\nconcurrency = 1.5", "concurrency is 1.5: it must be a whole number"),
        ("[worker]\ncost = [1]", "cost is [1]: it must be a text or a number"),
        ("[worker]\ntopic = [1]", 'topic is 1: it must be a text in "quotes" or a list of such'),
        ("[worker]\nfail-fast = 'yes'", "fail-fast is 'yes': it must be true or false"),
        ("[worker]\norder = 'tim'", "order is 'tim': it is one of time, none"),
        ("redis = 5", "shop.toml redis is 5: it must be a text"),
        (f"[worker]\nlease-time = 0x{'f' * 5000}", "[worker] lease-time: the number is too long"),
        (f"redis = 0x{'f' * 5000}", "shop.toml redis: the number is too long"),
        ("a = 1\nb = = 2", "shop.toml: not TOML: Invalid value (at line 2, column 5)"),
        ("[worker]\nredis = ['redis://:secret@a']", "redis is ['redis://***@a']: it must be a"),
    ],
)
def test_what_the_file_gets_wrong_is_named(
    file: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file.write_text(text)
    assert message in refused(capsys, "worker", "shop:send")


def test_a_file_that_cannot_be_read(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "shop.toml cannot be read: No such file" in refused(capsys, "worker", "shop:send")
    said = refused(capsys, "worker", "shop:send", "--config", str(tmp_path))
    assert "cannot be read: Is a directory" in said
    file.write_bytes(b"a = '\xff'")
    assert "not UTF-8 at byte 5" in refused(capsys, "worker", "shop:send")
    file.write_text(f"a = {'9' * 5000}")
    assert "shop.toml: not TOML: Exceeds the limit" in refused(capsys, "worker", "shop:send")
    file.write_text(f"a = {'[' * 20_000}")
    assert "shop.toml: not TOML: it is nested too deep" in refused(capsys, "worker", "shop:send")


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("FAIL_FAST", "perhaps", "--no-fail-fast: DISPATCHER_FAIL_FAST is 'perhaps': it is one of"),
        ("LEASE_TIME", "long", "argument --lease-time: DISPATCHER_LEASE_TIME is 'long': not a"),
        ("ORDER", "size", "DISPATCHER_ORDER is 'size': it is one of time, none"),
    ],
)
def test_what_a_variable_gets_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    text: str,
    message: str,
) -> None:
    monkeypatch.setenv(f"DISPATCHER_{variable}", text)
    assert message in refused(capsys, "worker", "shop:send")


def test_what_is_needed_may_come_from_anywhere(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("")
    assert "arguments are required: HANDLER" in refused(capsys, "worker")
    file.write_text('[worker]\nhandler = "shop:send"\n')
    assert settled("worker").handler == "shop:send"


def test_of_options_that_exclude_each_other_that_of_the_nearest_place_counts(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["worker", "shop:send"]
    file.write_text("[worker]\nwatch = 1\n")
    assert settled(*asked).watch == 1
    options = settled(*asked, "--evict", "a")
    assert (options.watch, options.evict) == (None, "a")
    said = refused(capsys, *asked, "--evict", "a", "--watch", "1")
    assert "argument --evict: not allowed with argument --watch" in said
    monkeypatch.setenv("DISPATCHER_WATCH", "1")
    monkeypatch.setenv("DISPATCHER_EVICT", "a")
    places = ["--evict (from DISPATCHER_EVICT)", "--watch (from DISPATCHER_WATCH)"]
    assert "argument {}: not allowed with argument {}".format(*places) in refused(capsys, *asked)
    assert settled(*asked, "--watch", "2").watch == 2


def test_options_from_afar_do_not_count_with_names_that_replace_them(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHER_ORDER", "time")
    file.write_text("[worker]\nfail-fast = true\n")
    asked = settled("worker", "shop:send")
    assert (asked.order, asked.fail_fast) == ("time", True)
    named = settled("worker", "shop:send", "a", "b")
    assert (named.ids, named.order, named.fail_fast) == (("a", "b"), None, False)
    both = settled("worker", "shop:send", "a", "--order", "none")
    assert (both.order, both.fail_fast) == ("none", False), "the command has its own opinion"


def test_a_choice_that_there_is_not_is_shown_as_it_was_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert settled("worker", "shop:send", "--level", "debug").level == "DEBUG"
    said = refused(capsys, "worker", "shop:send", "--level", "loud")
    assert "argument --level: invalid choice: 'loud' (choose from 'DEBUG', 'INFO')" in said


def test_a_missing_option_is_reported_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = refused(capsys, "worker", "shop:send", "--lease-tine=5")
    hint = "(see dispatcher worker --help)"
    assert said.endswith(
        f"unrecognized arguments: --lease-tine=5; did you mean --lease-time? {hint}"
    )
    assert refused(capsys, "worker", "shop:send", "--xyz").endswith(f"arguments: --xyz {hint}")


def test_what_would_be_used_is_shown_with_its_source(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('redis = "redis://:secret@db:6379/0"\n[worker]\ntopic = ["a", "b"]\n')
    monkeypatch.setenv("DISPATCHER_LEASE_TIME", "5")
    root = Parser(declared=PROGRAM, prog="dispatcher")
    call = called(root, "worker", "shop:send", "--fail-fast")
    lines = {line.split()[0]: line.split()[1:] for line in plain(page(call.used)).splitlines()}
    assert lines["handler"] == ["shop:send", "command", "line"]
    assert lines["redis"] == ["redis://db:6379/0", str(file), "redis"]
    assert lines["topic"] == ["a,", "b", str(file), "[worker]", "topic"]
    assert lines["lease-time"] == ["5", "DISPATCHER_LEASE_TIME"]
    assert lines["concurrency"] == ["16", "default"]
    assert lines["fail-fast"] == ["true", "command", "line"]
    assert lines["order"] == ["-", "-"]


@pytest.mark.parametrize(
    ("tables", "command", "found"),
    [
        ({"a": 1}, ["limit", "set"], Found(1, "f.toml a")),
        ({"a": 1, "limit": {"a": 2}}, ["limit", "set"], Found(2, "f.toml [limit] a")),
        ({"limit": {"a": 2, "set": {"a": 3}}}, ["limit", "set"], Found(3, "f.toml [limit.set] a")),
        ({"limit": {"set": {"a": 3}}}, ["limit"], None),
        ({"limit": {"set": {"a": 3}}}, ["set"], None),
    ],
)
def test_the_nearest_table_counts(
    tables: dict[str, Any], command: list[str], found: Found | None
) -> None:
    assert Configuration("f.toml", tables).find(command, "a") == found


def test_a_table_may_say_the_options_of_a_command_below_it(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text('redis = "a"\n[limit]\nfactor = 1\n[limit.set]\nredis = "b"\n')
    read(str(path)).check(KNOWN)
    path.write_text("[worker]\nfactor = 1\n")
    with pytest.raises(ConfigurationError, match=r"\[worker\] factor: there is no such option"):
        read(str(path)).check(KNOWN)


def test_the_example_in_the_documents_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in [name for name in os.environ if name.startswith("DISPATCHER_")]:
        monkeypatch.delenv(variable)
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    [example] = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    path = tmp_path / "shop.toml"
    path.write_text(example)
    said = {}
    for words in (
        ["limit", "set", "orders"],
        ["leases", "orders"],
        ["timeline", "create", "mails"],
        ["timeline", "stats", "mails"],
        ["top"],
        ["demo"],
    ):
        call = called(command_line(), *words, "--config", str(path))
        said[words[0], words[-1]] = call.options()
    assert said["limit", "orders"].ramp == OneRamp(1_000.0, 60.0)
    assert said["limit", "orders"].lease_time == 5
    assert said["limit", "orders"].prefix == said["top", "top"].prefix == "shop"
    assert said["timeline", "mails"].prefix == "shop-timelines"
    assert said["top", "top"].topic == ("mails", "reminders")
    assert said["demo", "demo"].capacity == 5_000
