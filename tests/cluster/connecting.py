"""The driver is a server of Spark Connect: its clients come and go, and their queries stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.cluster.faults import Fault, executors_killed, in_several_dimensions, plainly
from tests.cluster.shipping import PROGRAM, PYTHON, ROOT, arguments_of, came_from, others, zipped
from tests.cluster.stage import MANY, Stage
from tests.servers.spark_connect import ConnectServer


def through_connect(stage: Stage) -> None:
    """A client sends all rows."""
    connect(stage)
    plainly(stage)


def executors_killed_through_connect(stage: Stage) -> None:
    """The executors of the server are killed."""
    connect(stage)
    executors_killed(stage)


def server_killed(stage: Stage) -> None:
    """The server's query ends with it; a client of another server takes over."""
    server = connect(stage)
    driver = stage.run(files=4)
    server.kill()
    driver.kill()
    stage.killed += 2
    connect(stage)
    take_over(stage)


def client_killed(stage: Stage) -> None:
    """The server goes on with its query, until a second client starts that query."""
    connect(stage)
    stage.run(files=4).kill()
    stage.killed += 2
    take_over(stage)


def take_over(stage: Stage) -> None:
    """A second client starts the query, and sends the rows that are left."""
    successor = stage.driver()
    successor.do("start")
    stage.finish(successor)


def as_artifact(stage: Stage) -> None:
    """A client sends a zip for executors that have no package of this project. The server has the
    project: Spark runs the function of foreachBatch there, and does not look at artifacts for
    it."""
    archive, site = zipped(stage.folder), others(stage.folder)
    conf = {**stage.setting.conf, "spark.executorEnv.PYTHONPATH": str(site)}
    found = {"PYSPARK_PYTHON": PYTHON, "PYTHONPATH": os.pathsep.join([str(archive), str(site)])}
    server = ConnectServer(stage.folder, stage.cluster.url, conf, **found)
    remote = stage.stack.enter_context(server).url
    stage.scene.more(2)
    connected = {**arguments_of(stage), "remote": remote, "archive": str(archive)}
    done = subprocess.run(
        [sys.executable, PROGRAM, json.dumps(connected)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    came_from(stage, f"/{archive.name}/")


def connect(stage: Stage) -> ConnectServer:
    """Start a server whose Pythons find this project, and make drivers its clients."""
    conf = {**stage.setting.conf, "spark.executorEnv.PYTHONPATH": str(ROOT)}
    found = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    server = ConnectServer(stage.folder, stage.cluster.url, conf, **found)
    stage.setting.remote = stage.stack.enter_context(server).url
    return server


CONNECTED = (
    Fault("through Spark Connect", through_connect),
    Fault("through Spark Connect, executors killed", executors_killed_through_connect),
    Fault(
        "through Spark Connect, several dimensions, executors killed",
        in_several_dimensions(executors_killed_through_connect),
        sizes=MANY,
    ),
    Fault("through Spark Connect, the server killed", server_killed),
    Fault("through Spark Connect, the client killed", client_killed),
    Fault("through Spark Connect, a zip as an artifact", as_artifact),
)
