"""The script for fish. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dispatcher.cli._commands.completion.words import Option, Words, flags_with_values

FRAME = """\
# Completes dispatcher in fish: dispatcher completion fish | source
function __dispatcher_at
    set -l at ""
    set -l before ""
    for word in (commandline -opc)[2..-1]
        if contains -- $before {with_values}
            set before ""
            continue
        end
        set before $word
        switch "$at $word"
{steps}
        end
    end
    test "$at" = "$argv"
end
complete -c dispatcher -f
{completes}
"""


def script(words: Sequence[Words]) -> str:
    """The script that completes these words."""
    steps = [
        f"            case '{' '.join(one.path[:-1])} {one.path[-1]}'\n"
        f"                set at '{' '.join(one.path)}'"
        for one in words
        if one.path
    ]
    completes = [line for one in words for line in _lines(one)]
    return FRAME.format(
        with_values=" ".join(flags_with_values(list(words))),
        steps="\n".join(steps),
        completes="\n".join(completes),
    )


def _lines(one: Words) -> Iterator[str]:
    start = f'complete -c dispatcher -n "__dispatcher_at {" ".join(one.path)}"'
    for name, text in one.commands:
        yield f"{start} -a {name} -d '{text}'"
    for value in one.values:
        yield f"{start} -a {value}"
    for option in one.options:
        yield f"{start} {_option(option)} -d '{option.text}'"


def _option(option: Option) -> str:
    names = [f"-l {it[2:]}" if it.startswith("--") else f"-s {it[1:]}" for it in option.flags]
    if option.is_file:
        return " ".join([*names, "-r -F"])
    if option.choices:
        return " ".join([*names, f"-x -a '{' '.join(option.choices)}'"])
    return " ".join([*names, "-x"] if option.takes_value else names)
