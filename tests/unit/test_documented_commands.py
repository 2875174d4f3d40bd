"""The documents and the help describe the command line correctly: commands, options, variables,
exit codes, fields of JSON, defaults."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.cli import _exit_codes
from dispatcher.cli._commands.exporter.options import PORT
from dispatcher.cli._commands.leases.table import COLUMNS, as_json, page
from dispatcher.cli._commands.limit.command import as_json as limit_as_json
from dispatcher.cli._options.parser import CONFIG, Parser
from dispatcher.cli._options.redis import REDIS
from dispatcher.cli._signals import WORDS
from dispatcher.cli.main import command_line
from dispatcher.worker._process.supervisor import CHILD
from tests.views import instance, limit

ROOT = Path(__file__).parents[2]
PAGES = {
    path.name: path.read_text("utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
COMMAND_LINE = PAGES["command_line.md"]
USUAL = {"--help", "--config", "--version"}


def parsers(parser: Parser) -> Iterator[Parser]:
    yield parser.fill()
    for one in parser.below.values():
        yield from parsers(one)


ALL = {one.prog: one for one in parsers(command_line())}
LEAVES = {prog: one for prog, one in ALL.items() if not one.below}


def flags_of(parser: Parser) -> set[str]:
    return {flag for it in parser._actions for flag in it.option_strings} | USUAL


def wrong_with(line: str) -> str | None:
    """Return the parts of a documented command line that do not exist."""
    words = shlex.split(line.replace("...", ""))[1:]
    parser = ALL["dispatcher"]
    while words and words[0] in parser.below:
        parser = parser.below[words.pop(0)]
    if parser.below and words and re.fullmatch("[a-z]+", words[0]):
        return f"{parser.prog} has no command {words[0]}"
    said = {word.partition("=")[0] for word in words if word.startswith("--")}
    unknown = said - flags_of(parser)
    return f"{parser.prog} has no {unknown}" if unknown else None


def written_down(text: str) -> list[str]:
    """Calls of the command, up to a pipe or a redirection; in code, since words are not calls."""
    text = text.replace("\\\n", " ")
    blocks = re.findall(r"^(?:\$| ) *(dispatcher [^\n]*)", text, re.MULTILINE)
    inline = re.findall(r"`(dispatcher [^`\n]+)`", text)
    return [re.split(r" [|<>&#] ?|;|\)\"", line)[0].rstrip("\\") for line in blocks + inline]


@pytest.mark.parametrize("name", PAGES)
def test_commands_in_the_documents_exist(name: str) -> None:
    for line in written_down(PAGES[name]):
        assert wrong_with(line) is None, f"{line}: {wrong_with(line)}"


@pytest.mark.parametrize("prog", ALL)
def test_examples_in_the_help_exist(prog: str) -> None:
    parser = ALL[prog]
    for line in written_down(f"{parser.description}\n{parser.epilog}"):
        assert wrong_with(line) is None, f"{line}: {wrong_with(line)}"


def test_the_documents_have_examples() -> None:
    assert len([line for text in PAGES.values() for line in written_down(text)]) > 40
    assert wrong_with("dispatcher limit start orders") == "dispatcher limit has no command start"
    assert wrong_with("dispatcher leases orders --evcit a") is not None


def test_the_page_lists_every_command() -> None:
    table = COMMAND_LINE.partition("## Which Redis")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `dispatcher ")]
    for prog in LEAVES:
        group, _, last = prog.rpartition(" ")
        assert any(
            f"`{prog}" in row or (f"`{group} " in row and f"`{last}`" in row) for row in rows
        )


@pytest.mark.parametrize("prog", sorted(LEAVES.keys() - {"dispatcher worker"}))  # a table is made
def test_the_documents_name_every_option(prog: str) -> None:
    told = "\n".join(PAGES.values())
    for one in LEAVES[prog].settings:
        if not one.looks.positional:
            assert re.search(rf"{one.flag}\b|^{one.name} = ", told, re.MULTILINE), one.flag


def test_variables_in_the_documents_exist() -> None:
    known = {one.variable for parser in LEAVES.values() for one in parser.settings}
    known |= {CONFIG, CHILD}
    for name, text in PAGES.items():
        for variable in re.findall(r"\bDISPATCHER_[A-Z_]+\b", text):
            assert variable in known, f"{name}: {variable}"


def test_the_page_and_the_help_have_every_exit_code() -> None:
    known = {value for name, value in vars(_exit_codes).items() if name.isupper()}
    known -= {_exit_codes.SIGNALLED}
    signalled = {_exit_codes.SIGNALLED + number for number in WORDS}
    rows = re.findall(r"^\| (\d+) \|", COMMAND_LINE.partition("## Exit codes")[2], re.MULTILINE)
    assert set(map(int, rows)) == known | signalled
    said = (ALL["dispatcher"].epilog or "").partition("exit codes: ")[2]
    assert set(map(int, re.findall(r"\d+", said))) == known | signalled - {129}


def test_the_exit_codes_of_a_worker_are_among_them() -> None:
    table = PAGES["worker.md"].partition("| exit code |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+)(?:, (\d+))? \|", table, re.MULTILINE)
    listed = {int(code) for row in rows for code in row if code}
    assert listed == {0, 1, 2, 3, 4, 130, 143}
    said = (ALL["dispatcher worker"].epilog or "").partition("exit codes: ")[2]
    assert listed == set(map(int, re.findall(r"\d+", said)))


def test_columns_and_fields_of_json_have_the_names_on_the_page() -> None:
    odd = {"waits_for": 5.0, "weight": 2.0, "reserved": 1.0, "evicted": True}
    view = limit(instance("a", held=0.5, **odd))
    table = COMMAND_LINE.partition("| column |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([^|`]+) \| (`[^|]+`) \|", table, re.MULTILINE)
    titles = {title for text, _ in rows for title in text.split(", ")}
    fields = {field for _, text in rows for field in re.findall(r"`(\w+)`", text)}
    shown = {title.lstrip("=>") for title in page("orders", view).columns}
    assert titles - {"(last)"} == shown - {""}
    assert len(COLUMNS) + 2 == len(shown)
    told: dict[str, Any] = as_json("orders", view)
    assert fields | {"permit", "bounds"} == set(told["instances"][0])
    named = set(re.findall(r"`(\w+)`", COMMAND_LINE))
    assert {"held", "demand", "spend", "uncertain", "cause", "clock_skew"} <= named & set(told)


def test_fields_that_examples_pick_exist() -> None:
    known = set(as_json("orders", limit())) | set(limit_as_json("orders", limit()))
    known |= {"instances", "label", "spends", "limits", "orders", "steps", "id", "body", "topic"}
    known |= {"backlog_age", "name"}
    for parser in ALL.values():
        for path in re.findall(r"jq (?:-\w )?'?(\.[^\n']+)'?", parser.epilog or ""):
            assert set(re.findall(r"\.([a-z_]+)", path)) <= known, path


def test_defaults_on_the_page_are_those_of_the_options() -> None:
    assert f"| `--redis URL` | `DISPATCHER_REDIS` | `{REDIS}` |" in COMMAND_LINE
    assert f"localhost:{PORT}" in (ALL["dispatcher exporter"].epilog or "")
    assert f":{PORT}" in PAGES["metrics.md"]
    new = {one.attribute: one.default for one in ALL["dispatcher worker"].settings}
    assert (
        f"`--factor`: what one partition is worth, {new['factor']:g} for a new limit"
        in COMMAND_LINE
    )
    times = f"seconds, {new['period']:g} and {new['limit_lease_time']:g} for a new limit"
    assert f"`--period`, `--lease-time`: {times}" in COMMAND_LINE
