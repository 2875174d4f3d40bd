"""Laws K1, K3, K4 and K7 with real Spark, faults of every kind, in one stream.

Where no executor has to outlive its driver, `make test` has the tasks in the driver's own Java
machine, as each one more takes seconds to start; `make long` has executors everywhere.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.cli._commands.demo.datastore_server import DatastoreServer
from dispatcher.cli.datastore import Datastore
from limiters.embedded import EmbeddedRedis
from tests.acceptance.spark_runs import ENDS, SIZES, Driver, Scene, judge
from tests.processes import ROOT
from tests.processes.noted import lines
from tests.processes.spark_sink import MAX_TOKENS, Setting, tokens_of
from tests.samples import tuples
from tests.servers.spark_connect import ConnectServer
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)

FEW_EACH = {f"t{subject}": 2 for subject in range(1_500)}
CAPACITY = 4_000.0
IN_DRIVER, IN_EXECUTORS = "local[{}]", "local-cluster[{},1,1024]"
"""Masters that run so many tasks at the same time."""
IN_FLIGHT = 2 * 8 * 25
"""The calls that may be on their way to the store at one time, and arrive later than they were
charged."""


@pytest.fixture
def store() -> Iterator[DatastoreServer]:
    with DatastoreServer(Datastore(CAPACITY + 2 * IN_FLIGHT, latency=0.005)) as server:
        yield server


@pytest.fixture
def setting(tmp_path: Path, own_redis_that_saves: EmbeddedRedis, store: DatastoreServer) -> Setting:
    source = tmp_path / "source"
    source.mkdir()
    return Setting(
        redis=own_redis_that_saves.url,
        source=str(source),
        checkpoint=str(tmp_path / "checkpoint"),
        log=str(tmp_path / "log"),
        store_port=store.port,
        shared_capacity=CAPACITY,
        fail_once=str(tmp_path / "fail"),
    )


@pytest.fixture
def own_redis_that_saves() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(appendonly=True) as server:
        yield server


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[ConnectServer]:
    found = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with ConnectServer(tmp_path, "local[2]", {}, **found) as server:
        yield server


@pytest.mark.long  # tests/spark/subject_sink/test_stopped.py does that in the Spark of its process
@pytest.mark.parametrize("master", [IN_DRIVER, IN_EXECUTORS])
def test_k1_k3_k4_without_a_fault_a_slow_handler_is_given_each_batch_once_also_over_a_restart(
    setting: Setting, master: str
) -> None:
    setting.master = master.format(2)
    setting.slow = 0.2
    scene = Scene(setting, SIZES)
    scene.more(2)
    with Driver(setting) as driver:
        driver.do("start")
        driver.do("drain")
        scene.more(1)
        # Stopped in the middle: what is in flight ends, is written down, and is not sent again.
        scene.wait_for_batches(20)
        driver.do("stop")
        driver.do("start")
        driver.do("drain")
        driver.do("stop")
        judge(scene, killed=0)


@pytest.mark.parametrize(
    ("master", "successors"),
    tuples([("local-cluster[1,2,1024]", IN_DRIVER.format(2)), 2 * (IN_EXECUTORS.format(2),)], 2),
)
def test_k1_k3_k7_through_kills_failures_and_a_redis_that_restarts(
    setting: Setting, own_redis_that_saves: EmbeddedRedis, master: str, successors: str
) -> None:
    setting.master = master
    scene = Scene(setting, SIZES)
    scene.more(3)
    with Driver(setting) as driver:
        driver.do("start")
        scene.wait_for_batches(20)

        # A Python worker is killed: Spark runs its task again.
        os.kill(scene.notes.of("began")[-1].pid, signal.SIGKILL)
        scene.wait_for_batches(20)

        # A batch fails for good: its task fails, and is run again.
        Path(setting.fail_once).touch()
        until(lambda: not Path(setting.fail_once).exists(), within=60)

        # Redis is away for a while, and comes back with its data.
        own_redis_that_saves.kill()
        own_redis_that_saves.start()
        driver.do("drain")

        # The driver is killed in the middle; its executors may go on for a while.
        scene.more(3)
        scene.wait_for_batches(20)
        driver.kill_driver_alone()
        setting.partitions, setting.master = 3, successors
        with Driver(setting) as successor:
            successor.do("start")
            successor.do("drain")
            successor.do("stop")
        judge(scene, killed=4)


@pytest.mark.parametrize("several", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize(
    ("master", "executors"),
    tuples(
        [
            (IN_DRIVER, (1,)),
            *((IN_EXECUTORS, numbers) for numbers in [(1, 2), (4, 1), (1, 2, 4), (2, 4, 1)]),
        ],
        every=5,
    ),
)
def test_k8_v1_n1_packs_are_the_same_after_kills_with_any_number_of_executors(
    setting: Setting, master: str, executors: tuple[int, ...], several: bool
) -> None:
    setting.several = several
    setting.partitions = 0  # as many as there are cores
    setting.slow = 0.3
    scene = Scene(setting, FEW_EACH)
    scene.more(1 + len(executors))
    for number in executors:
        setting.master = master.format(number)
        with Driver(setting) as driver:
            driver.do("start")
            scene.wait_for_batches(15)
            driver.kill()
    setting.master = master.format(2)
    with Driver(setting) as driver:
        driver.do("start")
        driver.do("drain")
        driver.do("stop")
    judge(scene, killed=sum(executors))
    # What was in flight at a kill is sent again.
    tasks, again = 4 * scene.files, sum(executors) * setting.concurrency
    ideal = sum(ideal_calls(setting, number) for number in range(scene.files))
    assert scene.notes.calls("began") <= 1.1 * ideal + tasks + again


def ideal_calls(setting: Setting, file: int) -> float:
    """How many there would be of a file if all were full."""
    rows = sum(FEW_EACH.values())
    seqs = [2 * file, 2 * file + 1]
    tokens = len(FEW_EACH) * sum(map(tokens_of, seqs)) if setting.several else 0
    return max(rows / setting.max_batch_size, tokens / MAX_TOKENS)


@pytest.mark.long  # test_failing.py has dead letters without a kill
@pytest.mark.parametrize("master", [IN_DRIVER, IN_EXECUTORS])
def test_k8_a_poisonous_subject_is_dead_alone_though_everything_is_killed(
    setting: Setting, tmp_path: Path, master: str
) -> None:
    setting.master = master.format(2)
    setting.poison, setting.dead = "t7", str(tmp_path / "dead")
    setting.slow = 0.1
    scene = Scene(setting, FEW_EACH)
    scene.more(1)
    with Driver(setting) as driver:
        driver.do("start")
        until(lambda: scene.notes.of("failed"), within=90)
        driver.kill()
    with Driver(setting) as successor:
        successor.do("start")
        successor.do("drain")
        successor.do("stop")

    notes, expected = scene.notes, scene.expected
    del expected["t7"]
    assert notes.lost(expected) == 0
    dead = [json.loads(line) for line in lines(setting.dead)]
    assert {(subject, tuple(seqs)) for subject, _, seqs in dead} == {("t7", (0, 1))}
    assert not [one for one in notes.of(*ENDS) if one.subject == "t7"]
    assert len(notes.sent_again) <= 2 * setting.concurrency
    keys: dict[str, set[str]] = {}
    for one in notes.of("began"):
        keys.setdefault(one.subject, set()).add(one.key)
    assert all(len(mine) == 1 for mine in keys.values()), "in its pack, and alone"
    assert notes.verdict(CAPACITY).holds


@pytest.mark.long  # Spark Connect gives a Python worker 10 s to start, and a busy machine may not
def test_k1_k3_k4_through_spark_connect_also_over_a_restart(
    setting: Setting, connect_server: ConnectServer
) -> None:
    setting.remote = connect_server.url
    setting.slow = 0.2
    scene = Scene(setting, SIZES)
    scene.more(2)
    with Driver(setting) as driver:
        driver.do("start")
        scene.wait_for_batches(20)
        driver.do("stop")
        driver.do("start")
        driver.do("drain")
        driver.do("stop")
        # Its Python workers may have been killed, when it was stopped in the middle.
        judge(scene, killed=2)
