"""python -m dispatcher, and the command `dispatcher`."""

import signal
import sys


def program() -> int:
    """Run the command line.

    Until that handles signals itself, Ctrl-C ends the process as it ends a C program: nothing is
    open yet, and a traceback of imports is of no use.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dispatcher.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(program())
