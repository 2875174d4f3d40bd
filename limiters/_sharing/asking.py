"""The thread that asks a lease manager: what is due, when it is due, and a last time at the end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from limiters._support.wake_signal import WakeSignal
from limiters.leases._messages import Request

LAST_TRIES = 3
"""How often a request may be unanswered at the end, before it is given up."""


class Asking:
    """One per SharedResource that is started.

    * `next_request`: the request that is due, or how long to wait for one.
    * `exchange`: sends it; whether there was an answer.
    * `is_over`: whether the end has come; whoever brings it about may be interrupted there.
    * `last_request`: what is to be sent before the end; None for nothing more.
    * `failed`: told if nothing is asked any more, since something else raised.
    """

    def __init__(
        self,
        next_request: Callable[[], tuple[Request | None, float | None]],
        exchange: Callable[[Request], bool],
        is_over: Callable[[], bool],
        last_request: Callable[[], Request | None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._next_request = next_request
        self._exchange = exchange
        self._is_over = is_over
        self._last_request = last_request
        self._failed = failed
        self._bell = WakeSignal()
        self._thread = threading.Thread(target=self.run, name="SharedResource", daemon=True)

    def start(self) -> None:
        """From now on."""
        self._thread.start()

    def wake(self) -> None:
        """Something may be due. Also from a signal handler, wherever its thread is."""
        self._bell.ring()

    def end(self, timeout: float) -> bool:
        """Asks what is last, as it is over; False if that takes longer than `timeout`."""
        self._bell.ring()
        with contextlib.suppress(RuntimeError):  # its start was interrupted, or this is its thread
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def run(self) -> None:
        """What the thread does."""
        try:
            while not self._is_over():
                request, wait = self._next_request()
                if request is not None:
                    self._exchange(request)
                else:
                    self._bell.wait(wait)
            tries = LAST_TRIES
            while tries and (request := self._last_request()) is not None:
                if not self._exchange(request):
                    tries -= 1  # in the end nobody answers: the leases run out by themselves
        except Exception as error:
            # A reply or a clock may be of the user's own. The leases run out by themselves.
            self._failed(error)
