"""Answer a shell that asks how a command line can continue. Needs argcomplete."""

from __future__ import annotations

import argparse
import os
from typing import Any

from argcomplete.completers import BaseCompleter, FilesCompleter
from argcomplete.finders import CompletionFinder

from dispatcher.cli._options.parser import Parser


class ValueCompleter(BaseCompleter):
    """Completes values of options without choices: files, or nothing."""

    def __call__(self, *, action: argparse.Action, **asked: Any) -> Any:
        return FilesCompleter()(action=action, **asked) if action.metavar == "FILE" else ()


def answer(parser: Parser) -> None:
    """Answer the shell that has started this process, and exit."""
    below = parser
    for word in os.environ["COMP_LINE"].split():  # argcomplete examines the parser first
        below = below.fill().below.get(word, below)
    below.fill()
    CompletionFinder()(parser, always_complete_options=False, default_completer=ValueCompleter())
