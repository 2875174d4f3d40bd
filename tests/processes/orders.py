"""A process whose standard input says what it does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping


def obey(orders: Mapping[str, Callable[[], object]]) -> None:
    """Says that it is ready, does what each line names, and says of each what came of it. Returns
    at the end of the input."""
    _say("ready")
    for line in sys.stdin:
        order = line.strip()
        try:
            orders[order]()
        except Exception as error:
            _say(f"failed {type(error).__name__}: {str(error)[:2000]!r}")
        else:
            _say(f"did {order}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
