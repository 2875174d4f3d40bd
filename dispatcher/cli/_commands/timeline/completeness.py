"""Decide how an action on many messages ends if some of them failed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dispatcher.cli._commands.timeline.wording import WORDS, summed_up
from dispatcher.cli._exit_codes import NotThereError, PartlyDoneError
from dispatcher.timeline import NotFound
from limiters.errors import DispatcherError


def check_complete(counts: Mapping[str, int], done: str, *also_fine: str) -> None:
    """Raise PartlyDoneError if some messages are neither `done` nor fine without that. If none is:
    NotThereError if all were not found, otherwise DispatcherError."""
    fine: Collection[str] = (done, *also_fine)
    failed = {word: number for word, number in counts.items() if number and word not in fine}
    if not failed:
        return
    if any(counts.get(word) for word in fine):
        raise PartlyDoneError(f"not all could be {done}: {summed_up(failed)}")
    kind = NotThereError if set(failed) == {WORDS[NotFound]} else DispatcherError
    raise kind(f"nothing was {done}: {summed_up(failed)}")
