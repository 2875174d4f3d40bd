"""`dispatcher`: reads the command line and says how it ended.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from limiters.errors import DispatcherError

DONE, FAILED, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that `arguments` name; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: everything was stopped\n")
        return INTERRUPTED
    except (DispatcherError, ValueError) as error:
        sys.stderr.write(f"dispatcher: {error}\n")
        return FAILED
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dispatcher",
        description="Batches, as fast as a shared limit allows and never faster.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted",
    )
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
    demo.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> None:
    try:
        from dispatcher.cli.demo import run
    except ImportError as error:
        raise DispatcherError(
            f"the demo draws with {error.name}: pip install 'batch-dispatcher[cli]'"
        ) from None
    run(capacity=options.capacity, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
