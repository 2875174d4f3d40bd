"""Whether many messages can be added without a look at each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dispatcher.builders._times import LARGEST
from dispatcher.builders._windows.in_order import are_in_order

_KEYS = frozenset((str, int))
_NUMBERS = frozenset((int, float))


def plain_numbers(keys: Sequence[Any], times: Sequence[Any], nows: Sequence[Any]) -> bool:
    """Whether keys are texts or whole numbers, and times finite numbers; `nows` never go back. It
    looks at many at the speed of C. There is one at least."""
    if not _KEYS.issuperset(map(type, keys)):
        return False
    return _are_finite(times) and _are_finite(nows) and are_in_order(nows)


def _are_finite(values: Sequence[Any]) -> bool:
    """Whether all values are finite numbers, and none is too large for a float."""
    kinds = set(map(type, values))
    if not kinds <= _NUMBERS:
        return False
    if float not in kinds:
        return bool(min(values) >= -LARGEST and max(values) <= LARGEST)
    try:
        return all(map(math.isfinite, values))
    except OverflowError:
        return False
