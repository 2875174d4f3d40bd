"""The options of `dispatcher completion`."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import Command, argument

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, kw_only=True)
class CompletionOptions:
    """The shell to complete in."""

    shell: str = argument("SHELL", "bash, zsh or fish", choices=SHELLS)


COMPLETION = Command(
    description="Prints a script with which a shell completes commands and options.",
    epilog="examples, for ~/.bashrc, ~/.zshrc (after compinit) and "
    "~/.config/fish/config.fish:\n"
    '  eval "$(dispatcher completion bash)"\n'
    '  eval "$(dispatcher completion zsh)"\n'
    "  dispatcher completion fish | source",
    options=CompletionOptions,
    run="dispatcher.cli._commands.completion.command:run",
)
