"""Options that fall back to the environment, and the Redis that they name."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from limiters.errors import LeaseManagerError

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager

REDIS = "redis://localhost:6379/0"
PREFIX = "dispatcher"

PATIENCE = 2.0
"""How many seconds each step towards a Redis may take: somebody sits there and waits."""


class Parser(argparse.ArgumentParser):
    """Shows text as it was written, and no passwords of URLs that were misplaced."""

    def __init__(self, **described: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **described)

    def error(self, message: str) -> NoReturn:
        super().error(without_passwords(message))


def without_passwords(text: str) -> str:
    """The same without what stands between :// and @.

    >>> without_passwords("no such limit: redis://:secret@db:6379/0")
    'no such limit: redis://***@db:6379/0'
    """
    return re.sub(r"://\S*@", "://***@", text)


class _FromEnvironment(str):
    """The text of a variable."""

    __slots__ = ()


def add_option(
    parser: argparse._ActionsContainer,
    flag: str,
    kind: Callable[[str], object],
    *,
    metavar: str,
    text: str,
    default: str | None = None,
    required: bool = False,
) -> None:
    """An option with a value, that DISPATCHER_<FLAG> gives as well: `--lease-time 5`."""
    variable = f"DISPATCHER_{flag.strip('-').replace('-', '_').upper()}"
    found = os.environ.get(variable)  # one that is empty counts as none

    def read(given: str) -> object:
        try:
            return kind(given)
        except (ValueError, argparse.ArgumentTypeError) as error:
            source = f"{variable} is " if isinstance(given, _FromEnvironment) else ""
            said = str(error) if isinstance(error, argparse.ArgumentTypeError) else "not a number"
            raise argparse.ArgumentTypeError(f"{source}{given!r}: {said}") from None

    parser.add_argument(
        flag,
        type=read,
        metavar=metavar,
        default=_FromEnvironment(found) if found else default,
        required=required and not found,
        help=f"{text} [{variable}]",
    )


def add_limit(parser: argparse.ArgumentParser) -> None:
    """NAME, and where the limit of that name is kept."""
    parser.add_argument("name", metavar="NAME", help="the limit: the name its instances share")
    add_redis(parser)


def add_redis(parser: argparse.ArgumentParser) -> None:
    """Which Redis, and which of the keys there."""
    add_option(
        parser,
        "--redis",
        str,
        metavar="URL",
        default=REDIS,
        text=f"redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://, {REDIS} "
        "if not said. Better in the variable than here: others can see a command line",
    )
    add_option(
        parser,
        "--prefix",
        str,
        metavar="PREFIX",
        default=PREFIX,
        text=f"with which its keys begin, {PREFIX} if not said",
    )


@contextmanager
def lease_manager(options: argparse.Namespace) -> Iterator[RedisLeaseManager]:
    """Who keeps the leases of the limit that was named."""
    # Here, not above: `dispatcher --help` needs no Redis.
    from limiters.leases.redis import RedisLeaseManager

    try:
        manager = RedisLeaseManager(
            options.redis, name=options.name, prefix=options.prefix, timeout=PATIENCE
        )
    except ValueError as error:
        raise ValueError(str(error).replace("url_or_client", "--redis")) from None
    try:
        yield manager
    except LeaseManagerError as error:
        if options.redis != REDIS:
            raise
        raise LeaseManagerError(
            f"{error} Name another one: --redis URL, or the variable DISPATCHER_REDIS."
        ) from error
    finally:
        manager.close()


def no_limit(manager: RedisLeaseManager, options: argparse.Namespace) -> LeaseManagerError:
    """What to say if there is none of that name."""
    name = printable(manager.name)
    return LeaseManagerError(
        f"there is no limit {name!r} in {manager.where} under the prefix {options.prefix!r}. "
        "The first of its instances that starts makes it, or: "
        f"dispatcher limit set {name} --shared-capacity CAPACITY"
    )


def printable(text: str) -> str:
    """The same without what would do something to a terminal: others have written it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
