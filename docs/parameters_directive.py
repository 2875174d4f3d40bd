"""The directive `parameters`: a generated table of the options that a class takes, in a page of
the docs."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from limiters._support.options import DeclaredOption, options_of


def table(dataclass: str) -> str:
    """The options of `dataclass`, such as "dispatcher._core.options.BatcherOptions", as a table in
    Markdown."""
    rows = (
        f"| `{option.name}` | {_default(option)} | {option.help} |"
        for option in options_of(_found(dataclass)).values()
    )
    return "\n".join(["| option | default | |", "| --- | --- | --- |", *rows])


def _found(dataclass: str) -> type:
    module, _, name = dataclass.rpartition(".")
    found: type = getattr(import_module(module), name)
    return found


def _default(option: DeclaredOption) -> str:
    if option.required:
        return "must be said"
    if option.default is None:
        return "none"
    if isinstance(option.default, (int, float)) and not isinstance(option.default, bool):
        return f"{option.default:,g} {option.unit}".rstrip()
    return f"`{option.default!r}`"


class ParametersDirective(SphinxDirective):
    """Its argument is the dataclass with its module."""

    required_arguments = 1

    def run(self) -> list[Any]:
        """The table. Sphinx renders the page again when the module has changed."""
        dataclass = self.arguments[0]
        self.env.note_dependency(inspect.getfile(_found(dataclass)))
        return self.parse_text_to_nodes(table(dataclass))


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_directive("parameters", ParametersDirective)
    return {"parallel_read_safe": True}
