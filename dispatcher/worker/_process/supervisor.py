"""The supervisor: several worker processes, restarted with a back-off when they end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

from dispatcher.worker._process.children import SILENCE, Child, RestartVerdict
from dispatcher.worker._process.health_server import Pages, asked, verdict
from dispatcher.worker._process.process import Signals
from dispatcher.worker._process.systemd import LINE, READY, STOPPING, WATCHDOG, Notifier

logger = logging.getLogger("dispatcher.worker")

CHILD = "DISPATCHER_WORKER_CHILD"
"""The environment variable with the number of a process."""

STEP = 0.05


class _WorkerProcess:
    """A worker process, and the socket on which it gives signs of life."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.child = Child()
        self.running: subprocess.Popen[bytes] | None = None
        # Inherited, without a name: a file would outlive a supervisor that is killed.
        self._line, self._its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.setblocking(False)

    def start(self, command: Sequence[str], now: float) -> None:
        environment = {
            **os.environ,
            CHILD: str(self.number),
            LINE: str(self._its_end.fileno()),
            "WATCHDOG_USEC": str(int(SILENCE / 3 * 1e6)),
        }
        for ours in ("NOTIFY_SOCKET", "WATCHDOG_PID"):
            environment.pop(ours, None)
        # In a session of its own: Ctrl-C is for the supervisor alone. Its standard input ends when
        # it is to drain, and when the supervisor ends for any reason.
        self.running = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            pass_fds=[self._its_end.fileno()],
            start_new_session=True,
        )
        self.child.start(now)

    def listen(self, now: float, drain_time: float) -> None:
        while True:
            try:
                words = self._line.recv(4096).decode(errors="replace").splitlines()
            except BlockingIOError:
                return
            self.child.hear(now, ready=READY in words)
            if STOPPING in words:  # it alone was asked to stop
                self.child.drains(drain_time)

    def ask_to_stop(self, now: float, drain_time: float) -> None:
        """Ask it to stop, not by a signal: it may have received one already, and a second one ends
        it immediately. A process that was never ready has nothing to drain, and may not listen yet.
        """
        self.listen(now, drain_time)  # it may have become ready in this very moment
        self.close_its_input()
        if self.running is not None and not self.child.ready:
            self.running.send_signal(signal.SIGTERM)

    def close_its_input(self) -> None:
        if self.running is not None and self.running.stdin is not None:
            self.running.stdin.close()

    def close(self) -> None:
        if self.running is not None:
            if self.running.poll() is None:
                self.running.kill()
            self.running.wait()
            self.close_its_input()
        self._line.close()
        self._its_end.close()


class Supervisor:
    """Runs `command` in `number` processes until a signal comes, and has them drain. A second
    signal ends all processes immediately. `ports` are those of the pages that the processes serve,
    if they do."""

    def __init__(self, command: Sequence[str], number: int, ports: Sequence[int] = ()) -> None:
        self._command = list(command)
        self._number = number
        self._ports = list(ports)
        self._any_was_ready = False
        self._drain_time = 0.0
        self._processes: list[_WorkerProcess] = []

    def run(
        self,
        signals: Signals,
        notifier: Notifier,
        *,
        host: str,
        port: int | None,
        drain_time: float,
    ) -> int:
        """Return the exit code: 0, or that of a process that could not even start."""
        self._drain_time = drain_time
        self._processes = [_WorkerProcess(it) for it in range(self._number)]
        pages = None
        if port is not None:
            probes = {
                "/healthz": lambda: verdict(self._asked("/healthz", host)),
                "/readyz": lambda: verdict(self._asked("/readyz", host)),
            }
            pages = Pages(probes, host, port)
        try:
            code = self._supervise(signals, notifier)
            notifier.send(STOPPING)
            worst = self._stop()
            return code or worst
        finally:
            for one in self._processes:
                one.close()
            if pages is not None:
                pages.close()

    def _supervise(self, signals: Signals, notifier: Notifier) -> int:
        signals.at_once = self._end_at_once
        told_ready, next_word = False, 0.0
        interval = notifier.watchdog_interval
        while not signals.stop.is_set():
            now = time.monotonic()
            for one in self._processes:
                code = self._look_after(one, now)
                if code is not None:
                    return code
            if not told_ready and all(one.child.ready for one in self._processes):
                notifier.send(READY)
                told_ready = True
            if interval is not None and now >= next_word:
                notifier.send(WATCHDOG)
                next_word = now + interval
            signals.stop.wait(STEP)
        return 0

    def _look_after(self, one: _WorkerProcess, now: float) -> int | None:
        """Check one process. Return an exit code if the supervisor is to give up."""
        one.listen(now, self._drain_time)
        self._any_was_ready = self._any_was_ready or one.child.ready
        if one.running is None:
            if now >= one.child.restart_at:
                one.start(self._command, now)
            return None
        code = one.running.poll()
        if code is None:
            if one.child.is_silent(now):
                facts = {"happening": "process-killed", "pid": one.running.pid}
                logger.error("process %d hangs and is killed", one.running.pid, extra=facts)
                one.running.kill()
            return None
        fate = one.child.ended(now, any_was_ready=self._any_was_ready)
        if fate is RestartVerdict.GIVE_UP:
            facts = {"happening": "process-ended", "pid": one.running.pid, "code": code}
            logger.error(
                "a process ended with %d before any was ready: giving up", code, extra=facts
            )
            return exit_code(code) or 1
        wait = one.child.restart_at - now
        pid = one.running.pid
        facts = {"happening": "process-ended", "pid": pid, "code": code}
        logger.error("process %d ended with %d; again in %g s", pid, code, wait, extra=facts)
        one.close_its_input()
        one.running = None
        return None

    def _stop(self) -> int:
        """Ask all processes to drain; kill those that have not ended long after their drain
        time."""
        for one in self._processes:
            one.ask_to_stop(time.monotonic(), self._drain_time)
        deadline = time.monotonic() + self._drain_time + SILENCE
        worst = 0
        for one in self._processes:
            if one.running is None:
                continue
            try:
                code = one.running.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                facts = {"happening": "process-killed", "pid": one.running.pid}
                logger.error("process %d does not end and is killed", one.running.pid, extra=facts)
                one.running.kill()
                code = one.running.wait()
            if one.child.ready:  # otherwise it may not have installed its handler yet
                worst = max(worst, exit_code(code))
        return worst

    def _end_at_once(self) -> None:
        self._each(lambda running: running.kill())

    def _each(self, act: Callable[[subprocess.Popen[bytes]], None]) -> None:
        for one in self._processes:
            if one.running is not None and one.running.poll() is None:
                act(one.running)

    def _asked(self, path: str, host: str) -> str:
        """Return what is wrong with any of them."""
        troubles = []
        for one in self._processes:
            process = one.running  # the supervising thread may remove it meanwhile
            running = process is not None and process.poll() is None
            said = "it does not run at present"
            if running:
                said = "" if one.child.ready or path == "/healthz" else "it is not ready"
            if running and not said and self._ports:
                said = asked(host, self._ports[one.number], path)
            if said and (path == "/readyz" or running):
                troubles.append(f"process {one.number}: {said}")
        return "\n".join(troubles)


def exit_code(status: int) -> int:
    """Return an exit code as a shell does: 128 and the number of the signal that ended the process.

    >>> exit_code(-9), exit_code(1)
    (137, 1)
    """
    return 128 - status if status < 0 else status
