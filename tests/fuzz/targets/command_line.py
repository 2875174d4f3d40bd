"""Words of a command line, variables and a configuration file: they are refused with exit code 2
and a message, or with a ValueError that names the option; or all options of the command exist."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from dispatcher.cli._options.parser import CONFIG, Parser
from dispatcher.cli.main import command_line
from limiters.errors import DispatcherError
from tests.fuzz.inputs import Input, of_blob, scratch

COMMANDS = (
    *(["leases"], ["top"], ["exporter"], ["worker"], ["demo"]),
    *(["limit", "show"], ["limit", "set"], ["limit", "delete"]),
    *(["timeline", it] for it in ("create", "peek", "stats", "histogram", "move", "delete")),
)


def check(data: bytes) -> None:
    given = Input(data)
    command = given.choice(COMMANDS)
    words = [given.text().replace("\0", "") for _ in range(given.byte() % 6)]
    parser, output = _parser(), io.StringIO()
    variables = {
        given.choice(_variables(parser, command)): given.text().replace("\0", "")
        for _ in range(given.byte() % 6)
    }
    toml = given.rest()
    with scratch() as folder, patch.dict(os.environ, variables, clear=True):
        if toml:
            path = Path(folder) / "a.toml"
            path.write_bytes(toml)
            os.environ[CONFIG] = str(path)
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            try:
                read = parser.parse_args([*command, *words])
                call = read.parser.settle(parser, read, words)
            except SystemExit as end:
                assert end.code in (0, 2)
                assert output.getvalue().strip()
                return
        try:
            call.options()
        except (ValueError, DispatcherError) as error:
            assert str(call.by_its_option(error))


@functools.cache
def _parser() -> Parser:
    return command_line()


def _variables(parser: Parser, command: list[str]) -> list[str]:
    for word in command:
        parser = parser.fill().below[word]
    return [one.variable for one in parser.fill().settings if one.variable]


def seeds() -> Iterator[bytes]:
    whole = b"""redis = "redis://db:6379/0"
[limit.set]
shared-capacity = "1000/60"
factor = 5
[worker]
topic = "jobs"
lease_time = 30.5
"""
    for number, _ in enumerate(COMMANDS):
        yield bytes([number, 1]) + of_blob("orders") + b"\1\1" + of_blob("5") + whole
    yield b"\6\3" + of_blob("orders") + of_blob("--factor") + of_blob("1e9") + b"\0"
    yield b"\3\0\0at = 2026-05-01T08:00:00Z\n[timeline.create]\ngroup = ['a', 1.5e3, inf, nan]\n"
