"""How commands reach the Redis that their options name, and what to say if it gives no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dispatcher.cli._options.redis import LimitOptions, RedisOptions
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
    return type(error)(f"{said}{end}{another(options)}")


def another(options: RedisOptions) -> str:
    """How to name another Redis; "" if somebody has named this one."""
    if not options.is_local:
        return ""
    return " Name another Redis: --redis URL, or the variable DISPATCHER_REDIS."
