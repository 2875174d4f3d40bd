"""`dispatcher`: reads the command line and says how it ended.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from dispatcher.cli import exporter, leases, limit
from dispatcher.cli.options import Parser, without_passwords
from limiters.errors import DispatcherError

DONE, FAILED, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that `arguments` name; the exit code."""
    options = _parser().parse_args(arguments)
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
        sys.stderr.write(f"dispatcher: {without_passwords(str(error))}\n")
        return FAILED
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="dispatcher",
        description="Batches, as fast as a shared limit allows and never faster.",
        epilog="Options with a value may stand in variables: DISPATCHER_REDIS for --redis.\n"
        "exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted",
    )
    parser.set_defaults(interrupted="interrupted\n")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo = commands.add_parser(
        "demo",
        help="see it work: one limited datastore, first without us, then with us",
        description="Two jobs write to one datastore that allows so many request units a "
        "second: first on their own, then through a Batcher. Needs nothing but this package.",
    )
    demo.add_argument(
        "--capacity", type=float, default=20_000, help="request units a second (%(default)s)"
    )
    demo.add_argument(
        "--seconds", type=float, default=6, help="how much work there is, at best (%(default)s)"
    )
    demo.add_argument("--report", metavar="FILE", help="write a page with charts, for a browser")
    demo.set_defaults(run=_demo, interrupted="interrupted: everything was stopped\n")
    limit.add_commands(commands)
    leases.add_command(commands)
    exporter.add_command(commands)
    return parser


def _demo(options: argparse.Namespace) -> None:
    try:
        from dispatcher.cli.demo import run
    except ImportError as error:
        raise DispatcherError(
            f"the demo draws with {error.name}: pip install 'batch-dispatcher[cli]'"
        ) from None
    run(capacity=options.capacity, seconds=options.seconds, report=options.report)


if __name__ == "__main__":
    sys.exit(main())
