"""The thread that sends requests to a lease manager when they are due. When the limiter is stopped,
it returns free capacity, and then the capacity of running calls as they end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from limiters._support.wake_signal import WakeSignal
from limiters.leases._messages import Request

LAST_TRIES = 3
"""How many requests may be unanswered after the stop, before the thread gives up."""


class Asking:
    """The thread of one SharedResource that is started.

    * `next_request`: returns the request that is due, or how long to wait for one.
    * `exchange`: sends a request, and returns whether there was an answer.
    * `is_over`: returns whether the limiter is stopped. It is a function, since the caller of
      `stop` may be interrupted.
    * `last_request`: returns the next request after the stop, or how long to wait for it, since
      running calls hold capacity. Neither: there are no more.
    * `failed`: called if no more requests are sent, since another exception was raised.
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
        """Whether the thread runs on after the stop, for the capacity of running calls."""
        self._thread = threading.Thread(target=self.run, name="SharedResource", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread, since a request may be due. A signal handler may call it at any
        point."""
        self._bell.ring()

    def end(self, timeout: float) -> bool:
        """Return free capacity after the stop; False if that takes longer than `timeout`. The
        thread returns the capacity of running calls as they end."""
        self._bell.ring()
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return True
        if not self._handed_back.wait(timeout):
            return False
        if not self._lingers:
            self._thread.join(timeout)
        return True

    def run(self) -> None:
        """Send requests until the end. The thread runs this."""
        try:
            while not self._is_over():
                request, wait = self._next_request()
                if request is not None:
                    self._exchange(request)
                else:
                    self._bell.wait(wait)
            self._hand_back()
        except Exception as error:
            # A user's lease manager or clock may raise. The leases expire by themselves.
            self._failed(error)
        finally:
            self._handed_back.set()

    def _hand_back(self) -> None:
        tries = LAST_TRIES
        while tries:
            request, wait = self._last_request()
            if request is not None:
                if not self._exchange(request) and not self._handed_back.is_set():
                    tries -= 1  # the lease manager may not answer: leases expire by themselves
            elif wait is None:
                return
            else:
                self._lingers = True
                self._handed_back.set()
                self._bell.wait(wait)
