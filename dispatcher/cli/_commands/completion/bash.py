"""The script for bash. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.cli._commands.completion.words import Words, flags_with_values

FRAME = """\
# Completes dispatcher in bash: eval "$(dispatcher completion bash)"
_dispatcher() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local path="" words="" i
  COMPREPLY=()
  if [[ $current == "=" ]]; then current=""; elif [[ $before == "=" ]]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{COMP_WORDS[i-1]}}" in {with_values}) continue ;; esac
    case "$path ${{COMP_WORDS[i]}}" in
{steps}
    esac
  done
  case "$path $before" in
{values}
  esac
  case "$path" in
{words}
  esac
  [[ $current == -* ]] || words=$(printf '%s\\n' $words | grep -v '^-')
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _dispatcher dispatcher
"""


def script(words: Sequence[Words]) -> str:
    """The script that completes these words."""
    steps = [
        f'      "{" ".join(one.path[:-1])} {one.path[-1]}") path="{" ".join(one.path)}" ;;'
        for one in words
        if one.path
    ]
    values = [
        f'    "{" ".join(one.path)} {flag}") {_reply(option.choices, option.is_file)} ;;'
        for one in words
        for option in one.options
        if option.takes_value
        for flag in option.flags
    ]
    after = [f'    "{" ".join(one.path)}") words="{" ".join(_all(one))}" ;;' for one in words]
    return FRAME.format(
        with_values="|".join(flags_with_values(list(words))),
        steps="\n".join(steps),
        values="\n".join(values),
        words="\n".join(after),
    )


def _reply(choices: Sequence[str], is_file: bool) -> str:
    if is_file:
        return 'COMPREPLY=($(compgen -f -- "$current")); return'
    if choices:
        return f'COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$current")); return'
    return "return"


def _all(one: Words) -> list[str]:
    names = [name for name, _ in one.commands]
    return [*names, *one.values, *(flag for option in one.options for flag in option.flags)]
