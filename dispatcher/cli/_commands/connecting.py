"""Connect to the Redis that the options name, and suggest what to do if it does not answer."""

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
"""The option for each parameter."""

PATIENCE = 2.0
"""Seconds that each step of a connection may take: a person is waiting."""


@contextmanager
def lease_manager(options: LimitOptions) -> Iterator[RedisLeaseManager]:
    """Return the lease manager of the named limit."""
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
    """Add to the error what to do if the Redis was not named by the user."""
    if not options.is_local or isinstance(error, DamagedLimitError):
        return error
    said = str(error)
    end = "" if said.endswith((".", "?", "!")) else "."
    return type(error)(f"{said}{end}{another(options)}")


def another(options: RedisOptions) -> str:
    """Return how to name another Redis; "" if the user has named this one."""
    if not options.is_local:
        return ""
    return " Name another Redis: --redis URL, or the variable DISPATCHER_REDIS."
