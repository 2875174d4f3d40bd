"""A standalone cluster of Spark: a master and two workers, each a process on an address of its own.

On one address Spark starts no speculative copies, and tells executors and hosts apart by nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyspark

from tests.waiting import until

DRIVER = "127.0.0.1"
HOSTS = ("127.0.0.2", "127.0.0.3")
EXECUTOR = b"CoarseGrainedExecutorBackend"
PATIENCE = 120.0


class Daemon:
    """A master, a worker or another server: a Java process in its own process group, with a log."""

    def __init__(self, folder: Path, name: str, *arguments: str, **environment: str) -> None:
        self.log = folder / f"{name}.log"
        home = Path(pyspark.__file__).parent
        # By the shell's exec, this is the Java process itself.
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env=os.environ
                | {
                    "SPARK_HOME": str(home),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_LOCAL_DIRS": str(folder),
                    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
                    **environment,
                },
            )

    @property
    def pid(self) -> int:
        """Process id of the Java process."""
        return self._process.pid

    def wait_for(self, pattern: str) -> str:
        """The first group of `pattern` in what it has logged, once it has."""
        found: list[str] = []

        def look() -> bool:
            if self._process.poll() is not None:
                raise AssertionError(f"it ended: {self.log.read_text()[-2000:]}")
            match = re.search(pattern, self.log.read_text())
            found.extend(match.groups() if match else ())
            return match is not None

        until(look, within=PATIENCE)
        return found[0] if found else ""

    def kill(self) -> None:
        """End it immediately, with all that it has started, unless it has ended."""
        if self._process.poll() is not None:
            return
        for pid in [*descendants(self.pid), self.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def kill_alone(self) -> None:
        """End it immediately; its executors notice by themselves."""
        self._process.kill()
        self._process.wait()


class SparkCluster:
    """A context manager. `url` is what a driver takes as its master."""

    def __init__(self, folder: Path, *, cores: int = 1, memory: str = "1g") -> None:
        self._folder = folder
        self._size = ("--cores", str(cores), "--memory", memory)
        self._started = 0
        self.url = ""
        self.workers: dict[str, Daemon] = {}
        """Executors by their address."""

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        places = ("--host", DRIVER, "--port", "0", "--webui-port", "0")
        name = "org.apache.spark.deploy.master.Master"
        self._master = Daemon(self._folder, "master", name, *places)
        try:
            self.url = self._master.wait_for(r"Starting Spark master at (spark://\S+)")
            for host in HOSTS:
                self.start_worker(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for daemon in (*self.workers.values(), self._master):
            daemon.kill()

    def start_worker(self, host: str) -> None:
        """A worker on `host`; returns when the master lists it."""
        self._started += 1
        name = f"worker-{self._started}"
        places = ("--host", host, "--port", "0", "--webui-port", "0")
        work = ("--work-dir", str(self._folder / name))
        program = "org.apache.spark.deploy.worker.Worker"
        worker = Daemon(self._folder, name, program, *places, *self._size, *work, self.url)
        self.workers[host] = worker
        worker.wait_for("Successfully registered with master")

    def executors(self, host: str | None = None) -> list[int]:
        """The processes of executors, on `host` or on all."""
        workers = self.workers.values() if host is None else [self.workers[host]]
        return [pid for one in workers for pid in descendants(one.pid) if _is_executor(pid)]


def descendants(pid: int) -> list[int]:
    """All processes that `pid` and those that it has started have started."""
    found = []
    for child in _children(pid):
        found += [child, *descendants(child)]
    return found


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield from map(int, (task / "children").read_text().split())


def _is_executor(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
