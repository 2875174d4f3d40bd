"""Build the argparse parser of the declared commands, with its error messages."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NoReturn

from dispatcher.cli._options.configuration import Commands, ConfigurationError, read
from dispatcher.cli._options.declaring import (
    Command,
    CommandElsewhere,
    CommandGroup,
    imported,
)
from dispatcher.cli._options.fallback import Used, settled
from dispatcher.cli._options.settings import Setting, settings_of
from dispatcher.cli._text.showable import showable
from limiters._support.near_names import did_you_mean

CONFIG = "DISPATCHER_CONFIG"


@dataclass
class Invocation:
    """One call of a command: its options, and the message for an interruption."""

    command: Command
    arguments: Sequence[str]
    used: Sequence[Used]
    """The options with their sources."""
    interrupted: str
    refused: dict[str, Exception] = field(default_factory=dict)
    """Wrong values by their attributes, if the command is lenient: it gets the defaults instead."""

    def options(self) -> Any:
        """Return an object of the command's dataclass. Wrong values raise."""
        values = {it.setting.attribute: it.value for it in self.used}
        while True:
            try:
                return self.command.options(**values)
            except ValueError as error:
                wrong = self._used_of(error)
                if not values.get(self.command.lenient) or wrong is None:
                    raise
                name = wrong.setting.attribute
                if values[name] == wrong.setting.default:
                    raise
                values[name] = wrong.setting.default
                self.refused[name] = self.by_its_option(error)

    def by_its_option(self, error: Exception) -> Exception:
        """Return `error` about the option that set the value, if it is about a parameter."""
        from limiters._support.validation import ArgumentError

        found = self._used_of(error)
        if found is None or found.setting.looks.positional or not isinstance(error, ArgumentError):
            return error
        _, bracket, part = error.parameter.partition("[")
        return error.of(f"{found.setting.flag}{bracket}{part}{found.from_elsewhere}")

    def _used_of(self, error: Exception) -> Used | None:
        """Return the option that the error is about, if it is about a parameter."""
        from limiters._support.validation import ArgumentError

        if not isinstance(error, ArgumentError):
            return None
        name = error.parameter.partition("[")[0].removeprefix("--").replace("-", "_")
        found = [it for it in self.used if name in (it.setting.attribute, it.setting.flag[2:])]
        return found[0] if found else None


class HelpLines(argparse.HelpFormatter):
    """Formats help: text is filled to the width of the terminal; indented lines, such as examples,
    stay."""

    WIDEST = 100

    def __init__(self, prog: str, **named: Any) -> None:
        columns = min(shutil.get_terminal_size().columns, self.WIDEST)
        super().__init__(prog, **{"width": columns - 2, **named})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for filled, some in groupby(text.splitlines(), lambda it: it[:1] not in ("", " ")):
            block = list(some)
            lines += textwrap.wrap(" ".join(block), width) if filled else block
        return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """The parser of a declared command, which is imported when it is needed.

    Messages show text as it was written, but no passwords of misplaced URLs.
    """

    def __init__(
        self, *, declared: Command | CommandGroup | CommandElsewhere, **named: Any
    ) -> None:
        self._given = declared
        self._declared: Command | CommandGroup | None = None
        self.settings: list[Setting] = []
        self.below: dict[str, Parser] = {}
        super().__init__(formatter_class=HelpLines, **named)
        self.set_defaults(parser=self)

    def fill(self) -> Parser:
        """Import the command, and add its arguments. Return this parser."""
        if self._declared is None:
            found = self._given
            if isinstance(found, CommandElsewhere):
                found = imported(found.where)
            assert isinstance(found, (Command, CommandGroup))
            self._declared = found
            self.description, self.epilog = found.description, found.epilog
            self.add_argument(
                "--config",
                metavar="FILE",
                default=argparse.SUPPRESS,  # otherwise a command would override options before it
                help=f"a TOML file with options of the commands [{CONFIG}]",
            )
            if isinstance(found, Command):
                self._add_options(found)
            else:
                self._add_commands(found)
        return self

    def _add_commands(self, group: CommandGroup) -> None:
        actions = self.add_subparsers(title=group.title, metavar=group.metavar)
        for name, command in group.commands.items():
            self.below[name] = actions.add_parser(name, help=command.help, declared=command)

    def _add_options(self, command: Command) -> None:
        self.settings = settings_of(command.options)
        groups: dict[str, argparse._ActionsContainer] = {"": self}
        for one in self.settings:
            title = one.looks.group
            group = groups.get(title) or groups.setdefault(title, self.add_argument_group(title))
            _add(group, one)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report unknown arguments of this command, and collect values that stand between options,
        for the argument that takes all."""
        self.fill()
        found, rest = super().parse_known_args(args, namespace)
        if rest and not self.below:
            values = [it for it in self.settings if it.looks.positional and it.many]
            if not values or any(word.startswith("-") for word in rest):
                self.error(f"unrecognized arguments: {' '.join(rest)}{self._nearest(rest)}")
            name = values[0].attribute
            setattr(found, name, [*getattr(found, name, []), *rest])
            rest = []
        return found, rest

    def _nearest(self, words: Sequence[str]) -> str:
        flags = [flag for it in self._actions for flag in it.option_strings if len(flag) > 2]
        unknown = next((word for word in words if word.startswith("--")), "")
        question = did_you_mean(unknown.partition("=")[0], flags)
        return f"; {question}" if question else ""

    def format_help(self) -> str:
        """Return the help, with all options of the command."""
        self.fill()
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        """Write the help. OSError if it was asked for and cannot be written."""
        if file is not None:
            super().print_help(file)
            return
        sys.stdout.write(self.format_help())
        sys.stdout.flush()

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line: the usage of a worker alone would fill a screen."""
        self.exit(2, f"{self.prog}: error: {showable(message)} (see {self.prog} --help)\n")

    def settle(
        self, root: Parser, given: argparse.Namespace, arguments: Sequence[str]
    ) -> Invocation:
        """Return the call, with options that the command line left open taken from a variable, from
        the file, or from their defaults."""
        command = self.fill()._declared
        if not isinstance(command, Command):
            self._without_command()
        path = getattr(given, "config", None) or os.environ.get(CONFIG)
        try:
            file = read(path) if path else None
            if file is not None:
                file.check(root.commands())
            words = self.prog.split()[1:]
            all_used = settled(command, self.settings, vars(given), words, file)
        except (ConfigurationError, argparse.ArgumentTypeError) as error:
            self.error(str(error))
        return Invocation(command, arguments, all_used, command.interrupted)

    def _without_command(self) -> NoReturn:
        assert isinstance(self._declared, CommandGroup)
        self.print_help(sys.stderr)
        missing = f"the following arguments are required: {self._declared.metavar}"
        self.exit(2, f"\n{self.prog}: error: {missing}\n")

    def commands(self) -> Commands:
        """Return the commands that the configuration file may contain."""
        self.fill()
        names = frozenset(one.name for one in self.settings if one.variable)
        tables = frozenset(one.name for one in self.settings if one.is_by_dimension)
        return Commands(names, tables, {name: it.commands() for name, it in self.below.items()})

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            question = did_you_mean(str(value), map(str, action.choices or ()))
            error.message += f"; {question}" if question else ""
            raise

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as error:
            if action.nargs is None and action.option_strings:
                option = action.option_strings[-1]
                error.message += f"; what begins with a dash is written with =, {option}=-..."
            raise

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of an option; argparse of Python 3.11 drops the value of `--id=--`."""
        if not action.option_strings or arg_strings != ["--"]:
            return super()._get_values(action, arg_strings)
        value = self._get_value(action, "--")
        self._check_value(action, value)
        return value


def _add(parser: argparse._ActionsContainer, one: Setting) -> None:
    """Add an option as text; `settle` parses it."""
    how: dict[str, Any] = {"default": argparse.SUPPRESS, "help": one.help.replace("%", "%%")}
    if one.kind is bool:
        parser.add_argument(
            one.flag, dest=one.attribute, action=argparse.BooleanOptionalAction, **how
        )
        return
    how |= {"metavar": one.metavar, "choices": one.looks.choices}
    if one.looks.choices and one.read:
        how["type"] = _choice(one.read, one.looks.choices)
    if not one.looks.positional:
        action = "append" if one.many else "store"
        parser.add_argument(one.flag, dest=one.attribute, action=action, **how)
    elif one.many or one.variable:
        parser.add_argument(one.attribute, nargs="*" if one.many else "?", **how)
    else:
        parser.add_argument(one.attribute, **how)


def _choice(read: Callable[[str], object], choices: Sequence[str]) -> Callable[[str], object]:
    """Return a parser for one of `choices`; any other text is kept for the message."""

    def read_if_known(text: str) -> object:
        value = read(text)
        return value if value in choices else text

    return read_if_known
