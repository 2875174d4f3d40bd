"""Measures how often a task calls its handler, and how long the calls take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dispatcher._handler import Handler
from dispatcher.spark._task.sums import Sums


class MeasuredHandler:
    """A handler whose calls are added to `sums`, including those that raise."""

    def __init__(self, handler: Handler, sums: Sums) -> None:
        self._handler = handler
        self._sums = sums
        self.is_async = handler.is_async
        self.name = handler.name

    def bound(self, context: object) -> Callable[[Any], Any]:
        """Return the function that `Handler.bound` returns, with its calls measured."""
        call = self._handler.bound(context)
        if not self.is_async:

            def called(rows: Any) -> Any:
                with self._measured():
                    return call(rows)

            return called

        async def awaited(rows: Any) -> Any:
            with self._measured():
                return await call(rows)

        return awaited

    @contextmanager
    def _measured(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._sums.add(calls=1, handling=time.monotonic() - began)
