"""`dispatcher`: reads the command line and says how it ended.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Whatever is wrong with the
command line itself is a ValueError, here and in the library; what fails is a DispatcherError.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from dispatcher.cli._commands import exporter
from dispatcher.cli._commands.completion import command as completion
from dispatcher.cli._commands.leases import command as leases
from dispatcher.cli._commands.limit import command as limit
from dispatcher.cli._commands.timeline import command as timeline
from dispatcher.cli._commands.top import command as top
from dispatcher.cli._commands.worker import command as worker
from dispatcher.cli._options.options import Parser, add_option, settle
from limiters._redis.url import without_passwords
from limiters.errors import DispatcherError

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that `arguments` name; the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that knows no bars still gets numbers
        sys.stdout.reconfigure(errors="replace")
    parser = command_line()
    options = parser.parse_args(arguments)
    settle(parser, options)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(options.interrupted)
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (DispatcherError, ValueError) as error:
        said = str(options.parser.by_its_option(error, options.used))
        sys.stderr.write(f"dispatcher: {without_passwords(said)}\n")
        return FAILED if isinstance(error, DispatcherError) else MISUSED
    return DONE


def command_line() -> Parser:
    """All commands and their options."""
    parser = Parser(
        prog="dispatcher",
        description="Batches, as fast as a shared limit allows and never faster.",
        epilog="Options may stand in variables too, DISPATCHER_REDIS for --redis, and in a TOML "
        "file that\n--config or DISPATCHER_CONFIG names. The command line counts most, then "
        "variables, then the file.\n"
        "exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted",
    )
    parser.set_defaults(interrupted="interrupted\n")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="see it work: one limited datastore, first without us, then with us",
        description="Two jobs write to one datastore that allows so many request units a "
        "second: first on\ntheir own, then through a Batcher. Needs nothing but this package and "
        "the extra cli.",
        epilog="example:\n  dispatcher demo --capacity 5000 --seconds 3",
    )
    add_option(
        demo,
        "--capacity",
        float,
        metavar="C",
        default=20_000.0,
        text="request units a second, 20000 if not said",
    )
    add_option(
        demo,
        "--seconds",
        float,
        metavar="S",
        default=6.0,
        text="how much work there is, at best, 6 if not said",
    )
    demo.add_argument(
        "--report",
        metavar="FILE",
        help="write a page with charts for a browser; a picture if it ends with .svg",
    )
    demo.set_defaults(run=_demo, interrupted="interrupted: everything was stopped\n")
    limit.add_commands(commands)
    leases.add_command(commands)
    worker.add_command(commands)
    timeline.add_command(commands)
    top.add_command(commands)
    exporter.add_command(commands)
    completion.add_command(commands, parser)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *said: object) -> None:
        sys.stdout.write(f"dispatcher {version('batch-dispatcher')}\n")
        parser.exit(DONE)


def _demo(options: argparse.Namespace) -> None:
    try:
        from dispatcher.cli._commands.demo.command import run
    except ImportError:
        raise DispatcherError(
            "the demo draws with rich: pip install 'batch-dispatcher[cli,redis,embedded]'"
        ) from None
    run(capacity=options.capacity, seconds=options.seconds, report=options.report)


if __name__ == "__main__":
    sys.exit(main())
