"""The generated files and their content."""

from __future__ import annotations

from pathlib import Path

from grafana import drawing, rules
from grafana.boards import BOARDS

HERE = Path(__file__).parent


def files() -> dict[Path, str]:
    """Return the content of each file by its path."""
    made = {HERE / "dashboards" / f"{board.uid}.json": drawing.text(board) for board in BOARDS}
    return made | {HERE / "rules" / "dispatcher.yml": rules.text()}
