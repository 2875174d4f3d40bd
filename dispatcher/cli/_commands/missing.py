"""Messages for a limit or topic that does not exist: similar names, and how to create it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from shlex import quote
from typing import Literal

from dispatcher.cli._commands.connecting import PATIENCE, another
from dispatcher.cli._commands.finding import NameFinder
from dispatcher.cli._exit_codes import NotThereError
from dispatcher.cli._options.redis import RedisOptions
from dispatcher.cli._text.showable import printable, without_passwords
from limiters._redis.url import shown
from limiters._support.near_names import nearest
from limiters.errors import DispatcherError

Kind = Literal["limit", "topic"]

MOST_NAMED = 10
"""Maximum number of names in a message."""


def no_limit(where: str, name: str, options: RedisOptions, remedy: str = "") -> NotThereError:
    """Return the message for a limit that does not exist; `remedy`: another way to create it."""
    set_it = f"dispatcher limit set {quote(printable(name))} --shared-capacity CAPACITY"
    return NotThereError(
        f"{_missing('limit', name, where, options)} The first of its instances that starts makes "
        f"it{remedy}, or: {set_it}{same_place(options)}"
    )


def no_topic(where: str, topic: str, options: RedisOptions) -> NotThereError:
    """Return the message for a topic that does not exist."""
    create = f"dispatcher timeline create {quote(printable(topic))} --create-topic"
    return NotThereError(
        f"{_missing('topic', topic, where, options)} Its first producer makes it, a worker with "
        f"--create-topic too, or: {create} --group GROUP BODY{same_place(options)}"
    )


def same_place(options: RedisOptions) -> str:
    """Return the options with which another command finds the same keys, without passwords."""
    prefix = "" if options.is_usual("prefix") else f" --prefix {quote(options.prefix)}"
    if options.is_local:
        return prefix
    is_open = without_passwords(options.redis) == options.redis
    return f"{prefix} --redis {quote(options.redis) if is_open else 'URL'}"


def _missing(kind: Kind, name: str, where: str, options: RedisOptions) -> str:
    there = _names_of(kind, options)
    near = nearest(name, there)
    known = "." if near is None else f"; did you mean {printable(near)!r}?"
    if there and near is None:
        more = f" and {len(there) - MOST_NAMED:,} more" if len(there) > MOST_NAMED else ""
        known = f"; there are {', '.join(map(printable, there[:MOST_NAMED]))}{more}."
    return (
        f"there is no {kind} {printable(name)!r} in {where} under the prefix {options.prefix!r}"
        f"{known}{another(options)}"
    )


def _names_of(kind: Kind, options: RedisOptions) -> list[str]:
    """Return all names; none if they cannot be found in time."""
    try:
        with closing(NameFinder(options.redis, options.prefix)) as finder:
            limits, topics = finder.look(PATIENCE)
    except DispatcherError:
        return []
    return limits if kind == "limit" else topics


def none_at_all(kind: str, options: RedisOptions) -> str:
    """Return the message for an empty list."""
    where, prefix = shown(options.redis), printable(options.prefix)
    return f"there is no {kind} in {where} under the prefix {prefix!r}\n"


def no_such(missing: Sequence[str], options: RedisOptions) -> NotThereError:
    """Return the message for named limits or topics that do not exist."""
    return NotThereError(
        f"there is no {printable(', no '.join(missing))} in {shown(options.redis)} "
        f"under the prefix {options.prefix!r}"
    )
