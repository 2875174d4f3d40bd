"""Options that fall back to variables and a file, and the Redis that they name."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

from dispatcher.cli._options.configuration import Commands, ConfigurationError, read
from dispatcher.cli._options.fallback import COMMAND_LINE, DEFAULT, Setting, Used, boolean, used
from limiters._redis.url import without_passwords
from limiters._support.validation import ArgumentError, named
from limiters.errors import DamagedLimitError, DispatcherError, LeaseManagerError

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager

REDIS = "redis://localhost:6379/0"

URL_OPTION = {"url_or_client": "--redis"}
"""The option that gives the parameter."""
PREFIX = "dispatcher"
CONFIG = "DISPATCHER_CONFIG"

PATIENCE = 2.0
"""How many seconds each step towards a Redis may take: somebody sits there and waits."""


class Parser(argparse.ArgumentParser):
    """Shows text as it was written, and no passwords of URLs that were misplaced.

    Each command has --config; `settle` completes what the command line leaves open.
    """

    def __init__(self, **described: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **described)
        self.set_defaults(parser=self)
        self.add_argument(
            "--config",
            metavar="FILE",
            default=argparse.SUPPRESS,  # or a command would take back what stands before it
            help=f"a TOML file with options of the commands [{CONFIG}]",
        )

    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2."""
        super().error(without_passwords(message))

    def without_command(self) -> NoReturn:
        """The same for a command line that names no command: it shows which there are."""
        self.print_help(sys.stderr)
        named = next(
            it.metavar for it in self._actions if isinstance(it, argparse._SubParsersAction)
        )
        self.exit(2, f"\n{self.prog}: error: the following arguments are required: {named}\n")

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as error:
            if action.nargs is None and action.option_strings:
                option = action.option_strings[-1]
                error.message += f"; what begins with a dash is written with =, {option}=-..."
            raise

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """A command says itself what it does not know, and gathers values that stand between
        options, for the argument that takes all that there are."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and not self.below():
            values = [it.dest for it in self._get_positional_actions() if it.nargs == "*"]
            if not values or any(word.startswith("-") for word in rest):
                self.error(f"unrecognized arguments: {' '.join(rest)}")
            setattr(found, values[0], [*getattr(found, values[0]), *rest])
            rest = []
        return found, rest

    def settings(self) -> dict[argparse.Action, Setting]:
        """The options that may stand elsewhere than on the command line."""
        return {it: it.setting for it in self._actions if isinstance(it, (_Value, _Flag))}

    def below(self) -> dict[str, Parser]:
        """The commands below this one."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
        }

    def by_its_option(self, error: Exception, options: Sequence[Used] = ()) -> Exception:
        """`error`, of the option that gave the value, if it is about a parameter of that name.
        `options` say which of them stand in a variable or in the file.

        >>> parser = Parser()
        >>> _ = parser.add_argument("--lease-time")
        >>> parser.by_its_option(ArgumentError("lease_time", 0.0, "be more than zero"))
        ArgumentError('--lease-time must be more than zero, not 0.0')
        """
        if not isinstance(error, ArgumentError):
            return error
        name = error.parameter.removeprefix("--").replace("_", "-")
        if f"--{name}" not in self._option_string_actions:
            return error
        source = next((it.source for it in options if it.name == name), COMMAND_LINE)
        elsewhere = "" if source in (COMMAND_LINE, DEFAULT) else f" (from {source})"
        return error.of(f"--{name}{elsewhere}")

    def commands(self) -> Commands:
        """What the configuration file may speak of."""
        names = frozenset(setting.name for setting in self.settings().values())
        return Commands(names, {name: it.commands() for name, it in self.below().items()})


def settle(root: Parser, options: argparse.Namespace) -> None:
    """Gives each option that the command line left open its value: from a variable, from the
    file, or its default. `options.used` says which came from where."""
    parser: Parser = options.parser
    if parser.below():
        parser.without_command()
    command = parser.prog.split()[1:]
    path = getattr(options, "config", None) or os.environ.get(CONFIG)
    options.used = []
    try:
        file = read(path) if path else None
        if file is not None:
            file.check(root.commands())
    except ConfigurationError as error:
        parser.error(str(error))
    missing = []
    for action, setting in parser.settings().items():
        try:
            value = used(setting, getattr(options, action.dest, None), command, file)
        except argparse.ArgumentTypeError as error:
            parser.error(f"argument {_called(action)}: {error}")
        setattr(options, action.dest, value.value)
        options.used.append(value)
        if setting.required and value.value in (None, []):
            missing.append(_called(action))
    if missing:
        parser.error(f"the following arguments are required: {', '.join(missing)}")


def _called(action: argparse.Action) -> str:
    return "/".join(action.option_strings) or str(action.metavar)


class _Value(argparse.Action):
    """Notes the text of a setting, or the texts; `settle` reads them."""

    def __init__(self, *, setting: Setting, **described: Any) -> None:
        super().__init__(**described)
        self.setting = setting

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: Any, option: object = None
    ) -> None:
        if self.setting.many:
            values = [*getattr(namespace, self.dest, []), values]
        setattr(namespace, self.dest, values)


class _Flag(argparse.BooleanOptionalAction):
    """Notes whether a flag was said, or its contrary."""

    def __init__(self, *, setting: Setting, **described: Any) -> None:
        super().__init__(**described)
        self.setting = setting


def add_option(
    parser: argparse._ActionsContainer,
    flag: str,
    kind: Callable[[str], object],
    *,
    metavar: str,
    text: str,
    default: object = None,
    required: bool = False,
    many: bool = False,
    choices: Sequence[str] | None = None,
) -> None:
    """An option with a value, that DISPATCHER_<FLAG> and the configuration file give as well:
    `--lease-time 5`.

    `kind` makes the value of its text; in the file, float, int and str want that type, and any
    other kind a text or a number. `many` times means a list: the option again and again, commas in
    the variable, a list in the file. A `flag` without dashes is an argument without a name.
    """
    setting = Setting(flag.strip("-"), kind, default, required, many, choices)
    needed = "; needed" if required else ""

    positional: dict[str, Any] = {} if flag.startswith("-") else {"nargs": "?"}
    parser.add_argument(
        flag,
        action=_Value,
        setting=setting,
        metavar=metavar,
        default=argparse.SUPPRESS,
        help=f"{text}{needed} [{setting.variable}]".replace("%", "%%"),
        **positional,
    )


def add_flag(
    parser: argparse._ActionsContainer, flag: str, *, text: str, default: bool = False
) -> None:
    """`--fail-fast`, or `--no-fail-fast`; the variable says yes or no, the file true or false."""
    setting = Setting(flag.strip("-"), boolean, default)
    parser.add_argument(
        flag,
        action=_Flag,
        setting=setting,
        default=argparse.SUPPRESS,
        help=f"{text} [{setting.variable}]".replace("%", "%%"),
    )


def add_limit(parser: argparse.ArgumentParser) -> None:
    """NAME, and where the limit of that name is kept."""
    parser.add_argument("name", metavar="NAME", help="the limit: the name its instances share")
    add_redis(parser)


def add_redis(parser: argparse._ActionsContainer) -> None:
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


def naming_another(options: argparse.Namespace, error: DispatcherError) -> DispatcherError:
    """The same, with what to do if nobody has said which Redis is meant."""
    if options.redis != REDIS or isinstance(error, DamagedLimitError):
        return error
    return type(error)(f"{error} Name another one: --redis URL, or the variable DISPATCHER_REDIS.")


def no_limit(manager: RedisLeaseManager, options: argparse.Namespace) -> LeaseManagerError:
    """What to say if there is none of that name."""
    name = printable(manager.name)
    return LeaseManagerError(
        f"there is no limit {name!r} in {manager.where} under the prefix {options.prefix!r}. "
        "The first of its instances that starts makes it, or: "
        f"dispatcher limit set {quote(name)} --shared-capacity CAPACITY"
    )


def no_such(missing: Sequence[str], options: argparse.Namespace) -> DispatcherError:
    """What to say if some of what was named is not there."""
    return DispatcherError(
        f"there is no {printable(', no '.join(missing))} in {without_passwords(options.redis)} "
        f"under the prefix {options.prefix!r}"
    )


def printable(text: str) -> str:
    """The same without what would do something to a terminal: others have written it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
