"""The objects that all parts of one engine share and none of them owns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher._core.mailbox import Mailbox
from dispatcher._core.observers import Observed
from dispatcher._core.options import BatcherOptions

if TYPE_CHECKING:
    from dispatcher._core.batches.executors import Runners


@dataclass(frozen=True, slots=True)
class Environment:
    """These objects are made before the parts and passed to them; no part receives the engine."""

    options: BatcherOptions
    mailbox: Mailbox
    runners: Runners
    emit: Callable[..., None]
    """Queues an event for the listeners."""
    clock: Callable[[], float]
    observed: Observed
