"""`dispatcher`: parse the command line, run the command, and report how it ended.

A wrong command line raises ValueError, here and in the library; a failure raises DispatcherError.
`_exit_codes` has the code of each.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from dispatcher.cli._exit_codes import DONE, FAILED, SIGNALLED, code_of
from dispatcher.cli._options.declaring import CommandElsewhere, CommandGroup, imported
from dispatcher.cli._options.parser import Parser
from dispatcher.cli._signals import WORDS, SignalledError, raised
from dispatcher.cli._text.showable import showable


def _elsewhere(name: str, help: str) -> CommandElsewhere:  # noqa: A002
    return CommandElsewhere(help, f"dispatcher.cli._commands.{name}.options:{name.upper()}")


DISPATCHER = CommandGroup(
    description="Batches, as fast as a shared limit allows and never faster.",
    epilog="Options may stand in variables too, DISPATCHER_REDIS for --redis, and in a TOML "
    "file that\n--config or DISPATCHER_CONFIG names. The command line counts most, then "
    "variables, then the file.\n\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 not there, 4 no answer from Redis, 5 partly "
    "done,\n130 interrupted, 143 terminated",
    title="commands",
    metavar="COMMAND",
    commands={
        name: _elsewhere(name, text)
        for name, text in {
            "demo": "see it work: four processes and one limit, kept in three ways",
            "limit": "show, set or delete a limit that many instances share",
            "leases": "the instances of a limit and what they hold, live; evict one",
            "worker": "handle due messages of a topic, as fast as a limit allows",
            "timeline": "see and change the messages of a topic",
            "top": "the cluster, live: what each instance holds and spends, and what waits",
            "exporter": "show the whole cluster to Prometheus, from Redis alone",
            "completion": "a script for bash, zsh or fish that completes commands and options",
        }.items()
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` name. Return the exit code."""
    _open_what_is_closed()
    # a terminal without these characters still gets numbers
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # `| head` has seen enough
        _discard_output()
        return FAILED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        _discard_output()
        sys.stderr.write(f"dispatcher: the output cannot be written: {error.strerror}\n")
        return FAILED


def _run(arguments: Sequence[str]) -> int:
    parser = command_line()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        from dispatcher.cli._commands.completion.answer import answer

        answer(parser)
    given = parser.parse_args(arguments)
    if given.version:
        return _show_version()
    call = given.parser.settle(parser, given, arguments)
    try:
        with raised():
            imported(call.command.run)(call.options(), call)
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, SignalledError) else signal.SIGINT
        with suppress(OSError):  # the terminal may be gone
            sys.stderr.write(call.interrupted.replace("interrupted", WORDS[number]))
        return SIGNALLED + number
    except Exception as error:
        return _failed(call.by_its_option(error))
    return DONE


def command_line() -> Parser:
    """Return all commands and their options."""
    parser = Parser(declared=DISPATCHER, prog="dispatcher")
    parser.add_argument("--version", action="store_true", help="show the version")
    return parser


def _open_what_is_closed() -> None:
    """Replace streams that were closed by `<&-` and `>&-`: nothing is read, and output is lost."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _discard_output() -> None:
    """Discard output that cannot be written: otherwise Python would try it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    code = code_of(error)
    if code is None:
        raise error
    sys.stderr.write(f"dispatcher: {showable(str(error))}\n")
    return code


def _show_version() -> int:
    import dispatcher

    try:
        sys.stdout.write(f"dispatcher {dispatcher.__version__}\n")
    except AttributeError as error:  # the package is not installed, only its files are there
        sys.stderr.write(f"dispatcher: {error}\n")
        return FAILED
    sys.stdout.flush()
    return DONE


if __name__ == "__main__":
    sys.exit(main())
