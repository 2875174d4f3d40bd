"""`dispatcher completion bash|zsh|fish`: prints the script."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from dispatcher.cli._commands.completion import bash, fish, zsh
from dispatcher.cli._commands.completion.words import all_words
from dispatcher.cli._options.options import Parser

SHELLS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}


def add_command(commands: Any, root: Parser) -> None:
    """Adds `completion` to the commands."""
    parser = commands.add_parser(
        "completion",
        help="print what bash, zsh or fish need to complete commands and options",
        description="Prints a script for a shell. It knows the commands and options of this "
        "version: print it again after\nan upgrade, or let each new shell do so.",
        epilog="examples, for ~/.bashrc, ~/.zshrc (after compinit) and "
        "~/.config/fish/config.fish:\n"
        '  eval "$(dispatcher completion bash)"\n'
        '  eval "$(dispatcher completion zsh)"\n'
        "  dispatcher completion fish | source",
    )
    parser.add_argument("shell", choices=SHELLS, help="which shell")
    parser.set_defaults(run=partial(_run, root))


def _run(root: Parser, options: argparse.Namespace) -> None:
    sys.stdout.write(SHELLS[options.shell](list(all_words(root))))
