"""The page on stability is correct: formats, and where things are listed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text()
STORED = PAGE.partition("## Stored formats")[2].partition("\n## ")[0]
FORMATS = {
    "a shared limit": ("limiters/leases/_format.py", "FORMAT"),
    "a timeline": ("dispatcher/timeline/_encoding/layout.py", "FORMAT"),
    "a gate's entities, Redis": ("dispatcher/registration/stores/redis.py", "FORMAT"),
    "a gate's entities, SQLite": ("dispatcher/registration/_sqlite/records.py", "FORMAT"),
    "the ledger of a Spark query": ("dispatcher/spark/_ledger/claims.py", "FORMAT"),
    "the state of `event_time_batches` and `hold_back`": (
        "dispatcher/spark/stateful/_parcels.py",
        "_VERSION",
    ),
    "`EventTimeBuilder.dump()`": ("dispatcher/builders/_windows/saved.py", "FORMAT"),
}
"""Where each number is declared."""


def constant(path: str, name: str) -> str:
    """Its value, as text; the module need not be imported, as some need Spark."""
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            value = ast.literal_eval(node.value)
            return value.decode() if isinstance(value, bytes) else str(value)
    raise LookupError(f"{path} has no constant {name}")


def stated() -> dict[str, str]:
    """The format of each thing, as the page says."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| `(.+?)` \|", STORED, re.MULTILINE)
    places = [what for what, _, _ in rows]
    return {
        what if places.count(what) == 1 else f"{what}, {where.partition(',')[0]}": number
        for what, where, number in rows
    }


def test_the_formats_are_those_of_the_code() -> None:
    assert stated() == {what: constant(*place) for what, place in FORMATS.items()}


@pytest.mark.parametrize("package", ["dispatcher", "limiters"])
def test_every_format_of_the_code_is_on_the_page(package: str) -> None:
    declared = {
        str(path.relative_to(ROOT))
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"^_?FORMAT = ", path.read_text(), re.MULTILINE)
    }
    copies = {"dispatcher/metrics/_cluster/spark_totals.py"}  # reads the ledger without Spark
    assert declared - copies <= {path for path, _ in FORMATS.values()}


def test_the_warning_it_speaks_of_is_not_ignored_by_the_tests() -> None:
    """Deprecated names fail the library's own tests until they use the replacement."""
    assert 'filterwarnings = ["error"]' in (ROOT / "pyproject.toml").read_text()
