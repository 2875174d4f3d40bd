"""The configuration file: a TOML table for each command, and above them common options."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from typing import Any, NamedTuple

from limiters._support.near_names import did_you_mean
from limiters.errors import DispatcherError


class ConfigurationError(DispatcherError):
    """The file does not exist, is no TOML, or contains unknown options."""


class Found(NamedTuple):
    """The value of an option in the file, and its place."""

    value: object
    where: str


@dataclass(frozen=True, slots=True)
class Commands:
    """The options of a command, and the commands below it."""

    options: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    """Options that may be a table, with a value for each dimension."""
    below: Mapping[str, Commands] = field(default_factory=dict)

    def all_options(self) -> frozenset[str]:
        """Return its own options, and those of all commands below it: the options allowed in its
        table."""
        return self.options.union(*(command.all_options() for command in self.below.values()))

    def all_tables(self) -> frozenset[str]:
        """Return those of all_options that may be tables."""
        return self.tables.union(*(command.all_tables() for command in self.below.values()))


@dataclass(frozen=True, slots=True)
class Configuration:
    """A file as it was read. A table applies to its command and those below it; the nearest table
    with a value counts."""

    path: str
    tables: Mapping[str, Any]

    def find(self, command: Sequence[str], option: str) -> Found | None:
        """Return the value of an option of a command.

        >>> file = Configuration("a.toml", {"redis": "redis://db", "limit": {"set": {"factor": 5}}})
        >>> file.find(["limit", "set"], "factor")
        Found(value=5, where='a.toml [limit.set] factor')
        >>> file.find(["leases"], "redis"), file.find(["leases"], "factor")
        (Found(value='redis://db', where='a.toml redis'), None)
        """
        table, found = self.tables, None
        for depth in range(len(command) + 1):
            for key, value in table.items():
                if option_of(key) == option and key not in command[depth : depth + 1]:
                    found = Found(value, self._where(command[:depth], key))
            below = table.get(command[depth]) if depth < len(command) else None
            if not isinstance(below, dict):
                break
            table = below
        return found

    def check(self, known: Commands) -> None:
        """Refuse tables and options that do not exist, with the nearest name."""
        for message in self._unknown((), self.tables, known):
            raise ConfigurationError(message)

    def _unknown(
        self, command: tuple[str, ...], table: Mapping[str, Any], known: Commands
    ) -> Iterator[str]:
        options, seen = known.all_options(), dict[str, str]()
        for key, value in table.items():
            if isinstance(value, dict) and key in known.below:
                yield from self._unknown((*command, key), value, known.below[key])
                continue
            is_command = isinstance(value, dict) and option_of(key) not in known.all_tables()
            where = self._where(command, f"[{key}]" if is_command else key)
            if is_command and option_of(key) in options:
                yield f"{where}: {option_of(key)} is one value, not a table"
            elif is_command:
                yield f"{where}: {_no_such('command', key, known.below, options)}"
            elif option_of(key) not in options:
                yield f"{where}: {_no_such('option', key, options, known.below)}"
            elif option_of(key) in seen:
                yield f"{where}: it was set before, as {seen[option_of(key)]}"
            seen[option_of(key)] = key

    def _where(self, command: Sequence[str], key: str) -> str:
        table = f"[{'.'.join(command)}] " if command else ""
        return f"{self.path} {table}{key}"


def option_of(key: str) -> str:
    """Return the option that a key means: shared_capacity is the same as shared-capacity.

    >>> option_of("shared_capacity")
    'shared-capacity'
    """
    return key.replace("_", "-")


def read(path: str) -> Configuration:
    """Read the file at `path`; ConfigurationError names the problem, and its line."""
    try:
        with open(path, "rb") as file:
            return Configuration(path, tomllib.load(file))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: not TOML: it is nested too deep") from None
    except ValueError as error:  # TOMLDecodeError is one, and so is a number of 5,000 digits
        raise ConfigurationError(f"{path}: not TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(
            f"the configuration file {path} cannot be read: {error.strerror}"
        ) from None


def as_text(value: object) -> str:
    """Return a value as it would be written on a command line.

    >>> as_text(5), as_text("1000/60"), as_text(date(2026, 5, 1))
    ('5', '1000/60', '2026-05-01')
    >>> as_text({"tokens": "600/60s", "calls": "2slots"})
    'tokens=600/60s,calls=2slots'
    """
    if isinstance(value, dict):
        return ",".join(f"{name}={as_text(one)}" for name, one in value.items())
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


def _no_such(
    kind: str, key: str, names: Mapping[str, object] | frozenset[str], others: object
) -> str:
    if not names:
        return f"there is no such {kind} here"
    others = f"there are {', '.join(sorted(names))}"
    return f"there is no such {kind}; {did_you_mean(option_of(key), sorted(names), others)}"
