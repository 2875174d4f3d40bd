"""The stage of a fault: a cluster, a stream, a driver, and the notes of the handlers."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from limiters.embedded import EmbeddedRedis
from tests.acceptance.spark_runs import Driver, Note, Notes, Scene
from tests.processes.spark_sink import Setting
from tests.servers.spark_cluster import SparkCluster, descendants

PLAIN = {f"s{subject}": 20 for subject in range(20)}
LONGER = dict.fromkeys(PLAIN, 60)
"""Enough rows for a second run to begin in the middle."""
LOPSIDED = {**dict.fromkeys(PLAIN, 10), "s0": 1_710}
"""One subject has nine tenths of the rows."""
MANY = {f"p{subject}": 2 for subject in range(300)} | {"s0": 25}
"""Many subjects share a batch; one is larger than a batch."""
LEASE = 2.0
"""The sink's `lease_time` in the driver's program, in seconds."""


@dataclass
class Stage:
    """One stream on a cluster, on which a scenario causes faults."""

    cluster: SparkCluster
    scene: Scene
    stack: ExitStack
    killed: int = 0
    """How many processes were killed that may have been in the middle of handlers."""
    continued: dict[int, float] = field(default_factory=dict)
    """The processes that were stopped, and the times at which they continued."""

    @property
    def setting(self) -> Setting:
        """The setting of the driver."""
        return self.scene.setting

    @property
    def folder(self) -> Path:
        """The folder of all files of this stage."""
        return Path(self.setting.log).parent

    @property
    def notes(self) -> Notes:
        """The notes of the handlers. A call whose process was stopped ends when the process
        continues, even if other calls were sent in the meantime; nothing can prevent that, so such
        an end is marked as late."""
        began: dict[tuple[int, str], float] = {}
        notes = []
        for one in sorted(self.scene.notes.all, key=lambda one: one.when):
            call, continued = (one.pid, one.key), self.continued.get(one.pid, math.inf)
            if one.what == "began":
                began[call] = one.when
            elif began[call] < continued <= one.when:
                one = replace(one, what="ended late")
            notes.append(one)
        return Notes(notes)

    def driver(self) -> Driver:
        """Start a new driver, and return it when it is ready."""
        log = self.folder / "driver.log"
        return self.stack.enter_context(Driver(self.setting, str(log)))

    def run(self, files: int) -> Driver:
        """Start a stream that has `files` to send and has begun to send them."""
        self.scene.more(files)
        driver = self.driver()
        driver.do("start")
        self.scene.wait_for_batches(10)
        return driver

    def finish(self, driver: Driver) -> None:
        """Send all rows, and stop."""
        driver.do("drain")
        driver.do("stop")

    def kill(self, pid: int) -> None:
        """Kill a process that runs handlers, or one that starts such processes."""
        self.killed += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def pause(self, pids: list[int]) -> Iterator[None]:
        """Stop processes, and all that they have started, during the block."""
        family = [one for pid in pids for one in [pid, *descendants(pid)]]
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        yield
        now = time.monotonic()
        for pid in family:
            self.continued[pid] = now
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def begun_when_superseded(self) -> list[Note]:
        """Return the calls that stopped processes began after they continued: there are none if
        they have successors."""
        began = self.scene.notes.of("began")
        return [one for one in began if one.when >= self.continued.get(one.pid, math.inf)]

    def events(self) -> str:
        """Return Spark's own log of events."""
        files = sorted((self.folder / "events").rglob("*"))
        return "".join(one.read_text() for one in files if one.is_file())


@contextlib.contextmanager
def staged(
    cluster: SparkCluster,
    folder: Path,
    *,
    conf: Mapping[str, str],
    sizes: Mapping[str, int],
) -> Iterator[Stage]:
    """Return a stage with a Redis of its own."""
    for name in ("source", "events"):
        (folder / name).mkdir(parents=True)
    with ExitStack() as stack:
        url = stack.enter_context(EmbeddedRedis(appendonly=True)).url
        setting = Setting(
            redis=url,
            source=str(folder / "source"),
            checkpoint=str(folder / "checkpoint"),
            log=str(folder / "log"),
            master=cluster.url,
            max_batch_size=10,
            slow=0.05,
            conf={
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": (folder / "events").as_uri(),
                "spark.eventLog.compress": "false",
                **conf,
            },
        )
        yield Stage(cluster, Scene(setting, sizes), stack)
