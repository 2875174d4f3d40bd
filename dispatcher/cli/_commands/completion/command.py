"""`dispatcher completion bash|zsh|fish`, the scripts of argcomplete."""

from __future__ import annotations

import sys

from dispatcher.cli._commands.completion.options import CompletionOptions
from dispatcher.cli._options.parser import Invocation
from limiters.errors import DispatcherError


def run(options: CompletionOptions, call: Invocation) -> None:
    """Print the script for the shell."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise DispatcherError(
            "completion needs argcomplete: pip install 'batch-dispatcher[cli]'"
        ) from None
    sys.stdout.write(shellcode(["dispatcher"], use_defaults=False, shell=options.shell))
