"""Tables of the options that a class takes, generated from the dataclass that declares them.

The directive `parameters` (see `directives`) puts them into the pages.
"""

from __future__ import annotations

from importlib import import_module

from limiters._support.options import DeclaredOption, options_of


def table(dataclass: str) -> str:
    """The options of `dataclass`, such as "dispatcher._core.options.BatcherOptions", as a table in
    Markdown."""
    rows = (
        f"| `{option.name}` | {_default(option)} | {option.help} |"
        for option in options_of(declaring(dataclass)).values()
    )
    return "\n".join(["| option | default | |", "| --- | --- | --- |", *rows])


def declaring(dataclass: str) -> type:
    """The dataclass of that name."""
    module, _, name = dataclass.rpartition(".")
    found: type = getattr(import_module(module), name)
    return found


def _default(option: DeclaredOption) -> str:
    if option.required:
        return "required"
    if option.default is None:
        return "none"
    if isinstance(option.default, (int, float)) and not isinstance(option.default, bool):
        return f"{option.default:,g} {option.unit}".rstrip()
    return f"`{option.default!r}`"
