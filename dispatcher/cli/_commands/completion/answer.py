"""What may come next on a command line: the answer to a shell. Needs argcomplete."""

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
    """Answers the shell that has started this process, and ends it."""
    below = parser
    for word in os.environ["COMP_LINE"].split():  # argcomplete looks at what is there already
        below = below.fill().below.get(word, below)
    below.fill()
    CompletionFinder()(parser, always_complete_options=False, default_completer=ValueCompleter())
