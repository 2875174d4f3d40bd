"""A digest that proves that the first rows of a sequence are those that were acknowledged. Pure.

Spark computes a hash of each row's content. The ledger keeps a digest of the hashes of a sequence's
acknowledged rows, in the order in which they were sent. A replay computes the digest of as many
rows, and compares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

NONE = b"-"
"""The proof of no rows, and of rows that have no hashes."""


class Proof:
    """A digest that grows with each row.

    >>> import numpy as np
    >>> one, other = Proof(np.array([7, 8, 9])), Proof(np.array([7, 8]))
    >>> one.add(range(0, 2)), other.add([0]), other.add([1])
    (None, None, None)
    >>> one.digest() == other.digest()
    True
    """

    def __init__(self, hashes: np.ndarray[Any, Any] | None) -> None:
        self._hashes = None if hashes is None else hashes.astype("<i8", copy=False)
        self._digest = hashlib.blake2b(digest_size=10)
        self._empty = True

    def add(self, places: Sequence[int]) -> None:
        """Add the rows at `places` to the digest."""
        if self._hashes is None or not len(places):
            return
        self._empty = False
        if isinstance(places, range):
            chosen = self._hashes[places.start : places.stop]
        else:
            chosen = self._hashes[places]
        self._digest.update(chosen.tobytes())

    def digest(self) -> bytes:
        """Return the digest of all rows that were added."""
        return NONE if self._empty else self._digest.hexdigest().encode()
