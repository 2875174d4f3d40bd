"""What the scripts for shells know."""

from __future__ import annotations

import re

import pytest

from dispatcher.cli._commands.completion.command import SHELLS
from dispatcher.cli._commands.completion.words import all_words
from dispatcher.cli.main import command_line

WORDS = list(all_words(command_line()))


@pytest.mark.parametrize("shell", SHELLS)
def test_each_command_and_each_option_is_in_each_script(shell: str) -> None:
    script = SHELLS[shell](WORDS)
    for one in WORDS:
        for name, _ in one.commands:
            assert re.search(rf"\b{name}\b", script), name
        for option in one.options:
            for flag in option.flags:
                assert flag in script or f"-l {flag.strip('-')}" in script or "-s h" in script
    assert script.count("'") % 2 == script.count('"') % 2 == 0
    assert "DISPATCHER_" not in script


def test_they_know_what_comes_after_an_option() -> None:
    peek = next(one for one in WORDS if one.path == ("timeline", "peek"))
    options = {option.flags[-1]: option for option in peek.options}
    assert options["--state"].choices == ("new", "lost", "waiting", "processing", "dead")
    assert options["--config"].is_file
    assert options["--limit"].takes_value
    assert not options["--json"].takes_value
    completion = next(one for one in WORDS if one.path == ("completion",))
    assert completion.values == ("bash", "zsh", "fish")
