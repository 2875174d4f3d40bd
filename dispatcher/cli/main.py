"""`dispatcher`: reads the command line and says how it ended.

Whatever is wrong with the command line itself is a ValueError, here and in the library; what
fails is a DispatcherError. `_exit_codes` says how each ends.
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
            "leases": "who holds how much of a limit, live; evict one",
            "worker": "handle what is due on a timeline, as fast as a limit allows",
            "timeline": "see and change the messages of a topic",
            "top": "the cluster, live: who holds and spends what, and what waits",
            "exporter": "show the whole cluster to Prometheus, from Redis alone",
            "completion": "what bash, zsh or fish need to complete commands and options",
        }.items()
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that `arguments` name; the exit code."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that knows no bars still gets numbers
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
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next
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
    """All commands and their options."""
    parser = Parser(declared=DISPATCHER, prog="dispatcher")
    parser.add_argument("--version", action="store_true", help="show the version")
    return parser


def _open_what_is_closed() -> None:
    """`<&-` and `>&-` close them: then nothing is read, and what is written is lost."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _discard_output() -> None:
    """Else Python would try it once more when it ends."""
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
    except AttributeError as error:  # only the files are there, nothing is installed
        sys.stderr.write(f"dispatcher: {error}\n")
        return FAILED
    sys.stdout.flush()
    return DONE


if __name__ == "__main__":
    sys.exit(main())
