"""Tables of the options of a command, generated from where they are declared.

The directive `options` (see `directives`) puts them into the pages; the command line prints
them:

    python -m docs.option_table worker
    python -m docs.option_table timeline peek
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dispatcher.cli.main import command_line


def table(command: Sequence[str]) -> str:
    """The options of a command, as a table in Markdown. KeyError if there is no such command.

    >>> print(table(["demo"]))
    | option | is | default |
    | --- | --- | --- |
    | `--capacity C` | request units a second | 20000 |
    | `--seconds S` | how much work there is: what the datastore allows in so many seconds | 6 |
    | `--report FILE` | write a page with charts for a browser; a picture if it ends with .svg | |
    """
    parser = command_line()
    for word in command:
        parser = parser.fill().below[word]
    rows = ["| option | is | default |", "| --- | --- | --- |"]
    for one in parser.fill().settings:
        name = f"`{one.usage}`".replace("|", "\\|")
        default = "needed" if one.declared.required else one.default_text
        rows.append(f"| {name} | {one.purpose} | {default} |".replace("|  |", "| |"))
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(f"{table(sys.argv[1:])}\n")
