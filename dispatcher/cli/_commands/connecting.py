"""How commands reach the Redis that their options name, and what to say if that does not work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

from dispatcher.cli._exit_codes import NotThereError
from dispatcher.cli._options.redis import LimitOptions, RedisOptions
from dispatcher.cli._text.showable import printable
from limiters._redis.url import shown
from limiters._support.validation import named
from limiters.errors import DamagedLimitError, DispatcherError, LeaseManagerError

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager

URL_OPTION = {"url_or_client": "--redis"}
"""The option that gives the parameter."""

PATIENCE = 2.0
"""How many seconds each step towards a Redis may take: somebody sits there and waits."""


@contextmanager
def lease_manager(options: LimitOptions) -> Iterator[RedisLeaseManager]:
    """Who keeps the leases of the limit that was named."""
    from limiters.leases.redis import RedisLeaseManager

    with named(URL_OPTION):
        manager = RedisLeaseManager(
            options.redis, name=options.name, prefix=options.prefix, timeout=PATIENCE
        )
    try:
        yield manager
    except LeaseManagerError as error:
        raise naming_another(options, error) from None
    finally:
        manager.close()


def naming_another(options: RedisOptions, error: DispatcherError) -> DispatcherError:
    """The same, with what to do if nobody has said which Redis is meant."""
    if not options.is_local or isinstance(error, DamagedLimitError):
        return error
    said = str(error)
    end = "" if said.endswith((".", "?", "!")) else "."
    return type(error)(f"{said}{end}{_another(options)}")


def _another(options: RedisOptions) -> str:
    if not options.is_local:
        return ""
    return " Name another Redis: --redis URL, or the variable DISPATCHER_REDIS."


def no_limit(where: str, options: LimitOptions) -> NotThereError:
    """What to say if there is none of that name."""
    name = printable(options.name)
    return NotThereError(
        f"there is no limit {name!r} in {where} under the prefix {options.prefix!r}."
        f"{_another(options)} The first of its instances that starts makes it, or: "
        f"dispatcher limit set {quote(name)} --shared-capacity CAPACITY"
    )


def no_topic(where: str, topic: str, options: RedisOptions) -> NotThereError:
    """What to say if there is none of that name."""
    name = printable(topic)
    return NotThereError(
        f"there is no topic {name!r} in {where} under the prefix {options.prefix!r}."
        f"{_another(options)} The first program that uses it makes it, or: "
        f"dispatcher timeline create {quote(name)} --new-topic --group GROUP BODY"
    )


def none_at_all(kind: str, options: RedisOptions) -> str:
    """What to say if there is nothing to list."""
    where, prefix = shown(options.redis), printable(options.prefix)
    return f"there is no {kind} in {where} under the prefix {prefix!r}\n"


def no_such(missing: Sequence[str], options: RedisOptions) -> NotThereError:
    """What to say if some of what was named is not there."""
    return NotThereError(
        f"there is no {printable(', no '.join(missing))} in {shown(options.redis)} "
        f"under the prefix {options.prefix!r}"
    )
