"""The directives `modules`, `options` and `parameters`: generated tables of modules, of a command's
options and of what a class takes, in a page of the docs."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from docs import option_table, parameter_table
from docs.module_table import ROOT, table


def _flag(argument: str | None) -> None:
    if argument:
        raise ValueError("it takes no value")


class ModulesDirective(SphinxDirective):
    """Its argument is a folder, from the root of the project; the option `shallow` leaves out
    subfolders."""

    required_arguments = 1
    option_spec: ClassVar[Any] = {"shallow": _flag}

    def run(self) -> list[Any]:
        """The table. Sphinx renders the page again when one of these modules has changed."""
        folder = self.arguments[0]
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".lua"):
                self.env.note_dependency(str(path))
        return self.parse_text_to_nodes(table(folder, shallow="shallow" in self.options))


class OptionsDirective(SphinxDirective):
    """Its argument is a command: worker, or timeline peek."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[Any]:
        """The table. Sphinx renders the page again when an option has changed."""
        for folder in ("dispatcher/cli", "dispatcher/worker"):
            for path in (ROOT / folder).rglob("*options.py"):
                self.env.note_dependency(str(path))
        return self.parse_text_to_nodes(option_table.table(self.arguments[0].split()))


class ParametersDirective(SphinxDirective):
    """Its argument is the dataclass with its module."""

    required_arguments = 1

    def run(self) -> list[Any]:
        """The table. Sphinx renders the page again when the module has changed."""
        dataclass = self.arguments[0]
        self.env.note_dependency(inspect.getfile(parameter_table.declaring(dataclass)))
        return self.parse_text_to_nodes(parameter_table.table(dataclass))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives; called by Sphinx."""
    app.add_directive("modules", ModulesDirective)
    app.add_directive("options", OptionsDirective)
    app.add_directive("parameters", ParametersDirective)
    return {"parallel_read_safe": True}
