"""The faults: the configuration of Spark, the harm that is done, and the proof that it happened."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.acceptance.spark_runs import Driver
from tests.cluster.stage import LEASE, LONGER, LOPSIDED, MANY, PLAIN, Stage
from tests.processes.noted import lines
from tests.servers.sentinel import SentinelRedis
from tests.servers.spark_cluster import HOSTS
from tests.waiting import until


class NotSeenError(AssertionError):
    """The fault did not happen: the run shows no sign of it."""


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    play: Callable[[Stage], None]
    conf: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=lambda: PLAIN)


def plainly(stage: Stage) -> None:
    """The stream sends all rows without a fault."""
    stage.finish(stage.run(files=3))


def speculation(stage: Stage) -> None:
    """A task lags behind, so that Spark starts a copy of it on the other host."""
    stage.setting.slow_subject, stage.setting.slower = "s0", 2.0
    stage.finish(stage.run(files=2))
    if '"Speculative":true' not in stage.events():
        raise NotSeenError("Spark has started no speculative copy")


def workers_not_reused(stage: Stage) -> None:
    """Each task has a Python process of its own."""
    plainly(stage)
    tasks = 2 * stage.scene.files
    if len(processes := {one.pid for one in stage.notes.all}) < tasks:
        raise NotSeenError(f"{tasks} tasks have run in {len(processes)} processes")


def dynamic_allocation(stage: Stage) -> None:
    """An executor is removed while there is nothing to do, and comes back."""
    stage.setting.slow = 0.5  # an executor is asked for when tasks wait for a second
    driver = stage.run(files=2)
    driver.do("drain")
    until(lambda: len(stage.cluster.executors()) == 1, within=120)
    stage.scene.more(3)
    until(lambda: len(stage.cluster.executors()) == 2, within=120)
    stage.finish(driver)


def python_workers_killed(stage: Stage) -> None:
    """The processes that run handlers are killed, one after the other."""
    driver = stage.run(files=4)
    for _ in range(2):
        stage.kill(stage.scene.notes.of("began")[-1].pid)
        stage.scene.wait_for_batches(10)
    stage.finish(driver)


def executors_killed(stage: Stage) -> None:
    """One executor is killed, and then both."""
    driver = stage.run(files=5)
    stage.kill(stage.cluster.executors()[0])
    stage.scene.wait_for_batches(20)
    for pid in stage.cluster.executors():
        stage.kill(pid)
    stage.scene.wait_for_batches(10)
    stage.finish(driver)


def poisonous(stage: Stage) -> None:
    """The handler always refuses one subject, while executors are killed: its rows are dead
    letters, and the others of its packs are sent by themselves."""
    stage.setting.poison, stage.setting.dead = "p7", str(stage.folder / "dead")
    executors_killed(stage)
    dead = {json.loads(line)[0] for line in lines(stage.setting.dead)}
    if dead != {"p7"}:
        raise AssertionError(f"dead letters are of {sorted(dead)}")


def in_several_dimensions(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Return `play` with costs of rows and of batches, and calls in flight."""

    def played(stage: Stage) -> None:
        stage.setting.several = True
        play(stage)

    return played


def other_parts(stage: Stage) -> None:
    """The driver is killed, and the next one would divide the rows among more tasks."""
    stage.run(files=4).kill_driver_alone()
    stage.killed += 2
    stage.setting.partitions += 1
    successor = stage.driver()
    successor.do("start")
    stage.finish(successor)


def worker_killed(stage: Stage) -> None:
    """A worker is killed. Its executor ends when it notices; another worker comes."""
    driver = stage.run(files=4)
    stage.killed += 1
    stage.cluster.workers[HOSTS[0]].kill_alone()
    stage.scene.wait_for_batches(20)
    stage.cluster.start_worker(HOSTS[0])
    stage.finish(driver)


def driver_killed(stage: Stage) -> None:
    """The driver is killed. Its executors go on for a while, and then end; a new driver takes
    over."""
    stage.run(files=4).kill_driver_alone()
    stage.killed += 2
    successor = stage.driver()
    successor.do("start")
    stage.finish(successor)


def executor_stopped(stage: Stage) -> None:
    """An executor is stopped for more than two leases, in the middle of its handlers; then it goes
    on."""
    driver = stage.run(files=4)
    with stage.pause(stage.cluster.executors()[:1]):
        time.sleep(2.5 * LEASE)
    stage.killed += 1  # calls that it had begun may have been sent again, with the same key
    stage.finish(driver)


def executors_stopped_and_replaced(stage: Stage) -> None:
    """Executors are stopped while their driver is killed and a new one takes over; then they go
    on."""
    driver = stage.run(files=4)
    old = stage.cluster.executors()
    with stage.pause(old):
        driver.kill_driver_alone()
        stage.killed += 2
        # Stopped executors keep the cores of their workers, so the successor needs other executors.
        for host in HOSTS:
            stage.cluster.workers[host].kill_alone()
            stage.cluster.start_worker(host)
        successor = stage.driver()
        successor.do("start")
        stage.scene.wait_for_batches(20)
    stage.finish(successor)
    if begun := stage.begun_when_superseded():
        raise AssertionError(f"{len(begun)} batches were begun by executors that had a successor")


def second_run(stage: Stage) -> None:
    """A second run starts while the first one is in the middle of a long call. Another task sends
    the rows of that subject in the second run: only the claim waits for that call."""
    successor = successor_with_other_parts(stage)
    stage.setting.slow_subject, stage.setting.slower = OTHER_PART, 30.0
    stage.run(files=1)
    until(lambda: any(one.subject == OTHER_PART for one in stage.notes.all), within=60)
    first = {one.pid for one in stage.notes.all}
    successor.do("start")
    stage.finish(successor)
    check_both_have_sent(stage, first)


def second_run_beside_stopped_workers(stage: Stage) -> None:
    """The first run is alive, but its Python workers are stopped until the second one sends. No
    limit would keep them from sending when they go on."""
    stage.setting.slow, stage.setting.limited = 0.5, False
    successor = successor_with_other_parts(stage)
    stage.run(files=1)
    first = {one.pid for one in stage.notes.all}
    with stage.pause(sorted(first)):
        stage.killed += 1  # calls that it had begun are sent again, with the same key
        successor.do("start")
        stage.scene.wait_for_batches(10)
    stage.finish(successor)
    check_both_have_sent(stage, first)
    if begun := stage.begun_when_superseded():
        raise AssertionError(f"{len(begun)} batches were begun by workers that had a successor")


def successor_with_other_parts(stage: Stage) -> Driver:
    """Return a second driver, which is ready before the first one: it takes over in the middle.
    With packs it would have the tasks of the first one."""
    stage.setting.pack = False
    stage.setting.partitions += 1
    successor = stage.driver()
    stage.setting.partitions -= 1
    return successor


def check_both_have_sent(stage: Stage, first: set[int]) -> None:
    """Check that processes of the `first` run and others have sent parts of one micro-batch."""
    of_first = {one.batch for one in stage.notes.all if one.pid in first}
    if not of_first & {one.batch for one in stage.notes.all if one.pid not in first}:
        raise NotSeenError("the second run has not taken over in the middle of a micro-batch")


def redis_fails_over(stage: Stage) -> None:
    """The master of Redis dies in the middle; a replica takes its place."""
    sentinel = stage.stack.enter_context(SentinelRedis())
    stage.setting.redis = sentinel.url
    driver = stage.run(files=4)
    sentinel.fail_over()
    stage.killed += 2  # if a task fails, data that only the old master had is sent again
    stage.finish(driver)


OTHER_PART = "s7"
"""A subject that Spark puts into task 1 of two, and into task 0 of three."""
ONE_EXECUTOR = {"spark.cores.max": "1"}
"""For each run, so that one executor is left for a second run."""

FAULTS = (
    Fault("none", plainly),
    Fault(
        "speculation",
        speculation,
        {
            "spark.speculation": "true",
            "spark.speculation.interval": "50ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.1",
        },
    ),
    Fault(
        "dynamic allocation",
        dynamic_allocation,
        {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
            "spark.dynamicAllocation.minExecutors": "1",
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
            "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        },
    ),
    Fault("Python workers killed", python_workers_killed),
    Fault("executors killed", executors_killed),
    Fault("executors killed, packed", executors_killed, sizes=MANY),
    Fault("executors killed, a subject that is refused", poisonous, sizes=MANY),
    Fault("the driver killed, and other parts", other_parts, sizes=MANY),
    Fault("several dimensions", in_several_dimensions(plainly), sizes=MANY),
    Fault(
        "several dimensions, executors killed", in_several_dimensions(executors_killed), sizes=MANY
    ),
    Fault(
        "several dimensions, a subject that is refused",
        in_several_dimensions(poisonous),
        sizes=MANY,
    ),
    Fault(
        "several dimensions, the driver killed, and other parts",
        in_several_dimensions(other_parts),
        {"spark.sql.execution.arrow.maxRecordsPerBatch": "10"},
        MANY,
    ),
    Fault("several dimensions, Redis fails over", in_several_dimensions(redis_fails_over)),
    Fault("a worker killed", worker_killed),
    Fault("the driver killed", driver_killed),
    Fault("an executor stopped and continued", executor_stopped),
    Fault("executors stopped, replaced, continued", executors_stopped_and_replaced),
    Fault("a second run during the first", second_run, ONE_EXECUTOR),
    Fault(
        "a second run while workers are stopped",
        second_run_beside_stopped_workers,
        ONE_EXECUTOR,
        LONGER,
    ),
    Fault("Python workers not reused", workers_not_reused, {"spark.python.worker.reuse": "false"}),
    Fault(
        "record batches of ten rows",
        plainly,
        {"spark.sql.execution.arrow.maxRecordsPerBatch": "10"},
    ),
    Fault(
        "executors killed, record batches of one row",
        executors_killed,
        {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"},
        MANY,
    ),
    Fault("one subject with nine tenths of the rows", plainly, sizes=LOPSIDED),
    Fault("Redis fails over", redis_fails_over),
)
