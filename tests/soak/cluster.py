"""The processes of a soak, and the harm that is done to them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from limiters._support.tethered import Tethered
from limiters.embedded import EmbeddedRedis
from tests.acceptance.spark_runs import Driver
from tests.processes import ROOT
from tests.servers.ports import own_port
from tests.soak.feed import TOPIC
from tests.soak.plan import Plan
from tests.waiting import until

COMMAND = [sys.executable, "-m", "dispatcher.cli.main"]
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Cluster:
    """All processes except the store, Redis and Prometheus. They are ended with `ended`."""

    def __init__(self, plan: Plan, server: EmbeddedRedis, ended: ExitStack) -> None:
        self.plan = plan
        self.server = server
        self._ended = ended
        self._directory = Path(plan.directory)
        self._ports = {name: own_port() for name in ("exporter", *self._worker_names)}
        self._workers: dict[str, Tethered] = {}

    @property
    def jobs(self) -> dict[str, list[str]]:
        """The addresses that Prometheus scrapes."""
        places = {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}
        return {
            "dispatcher-cluster": [places["exporter"]],
            "dispatcher-worker": [places[name] for name in self._worker_names],
        }

    def start(self) -> None:
        """Start all processes. Return when the streams run."""
        port = self._ports["exporter"]
        self._tethered("exporter", "exporter", f"--port={port}", f"--redis={self.plan.redis}")
        self._start_registrar()
        self.start_workers()
        self._start_driver()

    def register(self, device: str) -> None:
        """Have a device registered soon."""
        assert self._registrar.stdin is not None
        self._registrar.stdin.write(f"{device}\n")
        self._registrar.stdin.flush()

    def end(self) -> None:
        """End all processes as an operator would: they finish the work that they have begun."""
        self.driver.do("stop")
        self.driver.kill()
        self.stop_workers()
        _, _ = self._registrar.communicate(timeout=60)
        assert self._registrar.returncode == 0, self._log("registrar").read_text()

    # Workers.

    def start_workers(self) -> None:
        for name in self._worker_names:
            self._start_worker(name)

    def stop_workers(self) -> None:
        """Stop all workers gracefully."""
        for worker in self._workers.values():
            worker.signal(signal.SIGTERM)
        until(lambda: not any(worker.running for worker in self._workers.values()))

    def kill_worker(self, number: int) -> None:
        """Kill one worker and start it again."""
        name = self._worker_names[number % self.plan.workers]
        self._workers[name].end()
        self._start_worker(name)

    @property
    def _worker_names(self) -> list[str]:
        return [f"worker-{number}" for number in range(self.plan.workers)]

    def _start_worker(self, name: str) -> None:
        limit, lease_time = self.plan.limiter, str(self.plan.lease_time)
        self._workers[name] = self._tethered(
            name,
            *("worker", "tests.soak.handlers:due", "--topic", TOPIC, "--redis", self.plan.redis),
            *("--limit", limit.name, "--shared-capacity", str(limit.shared_capacity)),
            *("--factor", str(limit.factor), "--max-interval", str(limit.max_interval)),
            *("--limit-lease-time", str(limit.lease_time), "--lease-time", lease_time),
            *("--max-batch-size", str(self.plan.max_batch_size), "--backoff", "0.1"),
            *("--max-backoff", "1", "--max-attempts", "100"),
            *("--metrics-port", str(self._ports[name])),
        )

    # Spark.

    def kill_executor(self, number: int) -> None:
        """Kill one of the Java processes, and its Python workers with it. Spark starts another
        one."""
        executors = self._executors()
        victim = executors[number % len(executors)]
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(set(self._executors()) - {victim}) >= 2, within=60)

    def kill_driver(self) -> None:
        """Kill the driver, whose executors then notice, and start it again."""
        self.driver.kill_driver_alone()
        self._start_driver()

    def _executors(self) -> list[int]:
        until(lambda: len(_pids(self.driver.pid, EXECUTOR)) >= 2, within=60)
        return _pids(self.driver.pid, EXECUTOR)

    def _start_driver(self) -> None:
        self.driver = Driver(self.plan, str(self._log("driver")))
        self._ended.callback(self.driver.kill)
        self.driver.do("start")

    # Redis.

    def restart_redis(self, *, away: float) -> None:
        """Kill Redis, and start it with all its data."""
        self.server.kill()
        time.sleep(away)
        self.server.start()

    # Inside.

    def _start_registrar(self) -> None:
        with self._log("registrar").open("ab") as log:
            self._registrar = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.registrar", self.plan.as_argument()],
                stdin=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, **self.plan.environment},
                text=True,
                start_new_session=True,
            )
        self._ended.callback(self._kill_registrar)

    def _kill_registrar(self) -> None:
        self._registrar.kill()
        with contextlib.suppress(BrokenPipeError):
            self._registrar.communicate()

    def _tethered(self, name: str, *arguments: str) -> Tethered:
        place = self._directory / name
        place.mkdir(exist_ok=True)
        words = {**self.plan.environment, "PYTHONPATH": str(ROOT)}
        environment = [f"{name}={value}" for name, value in words.items()]
        process = Tethered(["env", *environment, *COMMAND, *arguments], place, self._log(name))
        self._ended.callback(process.end)
        return process

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


def _pids(session: int, word: bytes) -> list[int]:
    """Return the processes of a session whose command contains a word, sorted."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, OSError):  # not a process, or not any more
            pid = int(path.name)
            if os.getsid(pid) == session and word in (path / "cmdline").read_bytes():
                found.append(pid)
    return sorted(found)
