"""When it is worth asking again: who is expected to bring back partitions, and when. Pure."""

from __future__ import annotations

HAND_OVER_MS = 3
"""How long after a holder's next request what it releases is expected to be there."""

AT_ONCE_MS = 50
"""How soon the next request comes from one who is to release at once."""


class Coming:
    """See the module. Not thread-safe.

    >>> coming = Coming()
    >>> coming.brings_back("a", 0, 50)
    >>> coming.pick(0), coming.pick(0)
    (53, -1)
    """

    def __init__(self) -> None:
        self.at_ms: dict[str, int] = {}

    def forget(self, name: str) -> None:
        """Nothing is expected of it."""
        self.at_ms.pop(name, None)

    def came(self, name: str, now_ms: int) -> None:
        """This one is here, and those whose time is over are not waited for."""
        self.at_ms = {one: at for one, at in self.at_ms.items() if at > now_ms and one != name}

    def brings_back(self, name: str, now_ms: int, soon_ms: int) -> None:
        """It will ask again that soon, and release."""
        self.at_ms[name] = now_ms + soon_ms + HAND_OVER_MS

    def answer(
        self,
        name: str,
        now_ms: int,
        *,
        releases_in_ms: int | None,
        uncertain_ms: int,
        short: bool,
        much: bool,
    ) -> int:
        """How soon `name`, who is here, is to ask again; -1 for when it would anyway.

        `releases_in_ms`: it has too much, and will release so soon. `uncertain_ms`: for how long
        nothing is granted. `short`: it has less than it may have. `much`: it had nothing, and
        was granted most of what there is.
        """
        self.came(name, now_ms)
        if releases_in_ms is not None:
            self.brings_back(name, now_ms, releases_in_ms)
            return -1
        if uncertain_ms:
            return uncertain_ms
        if much:
            # Others may come at the same moment: they get their share two requests later.
            self.brings_back(name, now_ms, 2 * AT_ONCE_MS)
            return AT_ONCE_MS
        return self.pick(now_ms) if short else -1

    def pick(self, now_ms: int) -> int:
        """How soon the first of them is there, for one who waits for it; -1 if there is none.
        Who comes next waits for the next one."""
        if not self.at_ms:
            return -1
        first = min(self.at_ms, key=lambda one: (self.at_ms[one], one))
        return self.at_ms.pop(first) - now_ms
