"""The thread that asks a lease manager: what is due, when it is due. In the end it gives back what
is free, and then what calls hold that still run, as they end."""

from __future__ import annotations

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
    * `last_request`: what is to be sent in the end, or how long to wait for it: calls that still
      run hold something. Neither: nothing more.
    * `failed`: told if nothing is asked any more, since something else raised.
    """

    def __init__(
        self,
        next_request: Callable[[], tuple[Request | None, float | None]],
        exchange: Callable[[Request], bool],
        is_over: Callable[[], bool],
        last_request: Callable[[], tuple[Request | None, float | None]],
        failed: Callable[[Exception], None],
    ) -> None:
        self._next_request = next_request
        self._exchange = exchange
        self._is_over = is_over
        self._last_request = last_request
        self._failed = failed
        self._bell = WakeSignal()
        self._handed_back = threading.Event()
        self._lingers = False
        """Whether the thread goes on after the end, for what calls hold."""
        self._thread = threading.Thread(target=self.run, name="SharedResource", daemon=True)

    def start(self) -> None:
        """From now on."""
        self._thread.start()

    def wake(self) -> None:
        """Something may be due. Also from a signal handler, wherever its thread is."""
        self._bell.ring()

    def end(self, timeout: float) -> bool:
        """Gives back what is free, as it is over; False if that takes longer than `timeout`. What
        calls hold that still run, the thread gives back as they end."""
        self._bell.ring()
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return True
        if not self._handed_back.wait(timeout):
            return False
        if not self._lingers:
            self._thread.join(timeout)
        return True

    def run(self) -> None:
        """What the thread does."""
        try:
            while not self._is_over():
                request, wait = self._next_request()
                if request is not None:
                    self._exchange(request)
                else:
                    self._bell.wait(wait)
            self._hand_back()
        except Exception as error:
            # A reply or a clock may be of the user's own. The leases run out by themselves.
            self._failed(error)
        finally:
            self._handed_back.set()

    def _hand_back(self) -> None:
        tries = LAST_TRIES
        while tries:
            request, wait = self._last_request()
            if request is not None:
                if not self._exchange(request) and not self._handed_back.is_set():
                    tries -= 1  # in the end nobody answers: the leases run out by themselves
            elif wait is None:
                return
            else:
                self._lingers = True
                self._handed_back.set()
                self._bell.wait(wait)
