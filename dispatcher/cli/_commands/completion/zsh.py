"""The script for zsh. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.cli._commands.completion.words import Words, flags_with_values

FRAME = """\
#compdef dispatcher
# Completes dispatcher in zsh: eval "$(dispatcher completion zsh)"
_dispatcher() {{
  local at="" before=${{words[CURRENT-1]}} i
  local -a found flags
  for ((i = 2; i < CURRENT; i++)); do
    case "${{words[i-1]}}" in ({with_values}) continue ;; esac
    case "$at ${{words[i]}}" in
{steps}
    esac
  done
  case "$at $before" in
{values}
  esac
  case "$at" in
{words}
  esac
  if [[ ${{words[CURRENT]}} == -* ]]; then
    _describe option flags
  elif (( $#found )); then
    _describe command found
  fi
}}
compdef _dispatcher dispatcher
"""


def script(words: Sequence[Words]) -> str:
    """The script that completes these words."""
    steps = [
        f'      ("{" ".join(one.path[:-1])} {one.path[-1]}") at="{" ".join(one.path)}" ;;'
        for one in words
        if one.path
    ]
    values = [
        f'    ("{" ".join(one.path)} {flag}") {_reply(option.choices, option.is_file)} ;;'
        for one in words
        for option in one.options
        if option.takes_value
        for flag in option.flags
    ]
    after = []
    for one in words:
        flags = [(flag, option.text) for option in one.options for flag in option.flags]
        found = [*one.commands, *((value, "") for value in one.values)]
        after.append(
            f'    ("{" ".join(one.path)}") found=({_told(found)}); flags=({_told(flags)}) ;;'
        )
    return FRAME.format(
        with_values="|".join(flags_with_values(list(words))),
        steps="\n".join(steps),
        values="\n".join(values),
        words="\n".join(after),
    )


def _reply(choices: Sequence[str], is_file: bool) -> str:
    if is_file:
        return "_files; return"
    return f"compadd -- {' '.join(choices)}; return" if choices else "return"


def _told(names: Sequence[tuple[str, str]]) -> str:
    return " ".join(f"'{name}:{text}'" if text else f"'{name}'" for name, text in names)
