"""The configuration that would be used, and where each value comes from. Pure.

show(page(call.used))                                  # what --check prints
"""

from __future__ import annotations

from collections.abc import Iterable

from dispatcher.cli._options.configuration import as_text
from dispatcher.cli._options.fallback import DEFAULT, Used
from dispatcher.cli._terminal.tables import Row, TablePage
from dispatcher.cli._text.showable import printable, without_passwords
from limiters._redis.url import shown

COLUMNS = ("option", "value", "from")


def page(values: Iterable[Used]) -> TablePage:
    """Return a row for each option, without passwords."""
    return TablePage(COLUMNS, [Row((it.setting.name, _shown(it), _source(it))) for it in values])


def _source(it: Used) -> str:
    return "-" if it.place == DEFAULT and it.written in (None, ()) else printable(it.source)


def _shown(it: Used) -> str:
    return printable(shown(str(it.written))) if it.setting.name == "redis" else _written(it.written)


def _written(value: object) -> str:
    """Return the value as in the file, but without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return printable(as_text(value))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_written, value)) or "-"
    if isinstance(value, float):
        return f"{value:g}" if value.is_integer() and abs(value) < 1e6 else repr(value)
    return "-" if value is None else printable(without_passwords(str(value)))
