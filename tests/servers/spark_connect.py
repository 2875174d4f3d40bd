"""A server of Spark Connect: the driver of a cluster, for clients elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.servers.spark_cluster import DRIVER, Daemon

PROGRAM = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A context manager. `url` is what a client takes as its remote."""

    def __init__(
        self, folder: Path, master: str, conf: Mapping[str, str], **environment: str
    ) -> None:
        self._folder = folder
        conf = {
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.driver.host": DRIVER,
            "spark.driver.bindAddress": DRIVER,
            "spark.connect.grpc.binding.address": DRIVER,
            "spark.connect.grpc.binding.port": "0",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            **conf,
        }
        options = (word for name, value in conf.items() for word in ("--conf", f"{name}={value}"))
        self._arguments = ("--class", PROGRAM, *options, "spark-internal")
        self._environment = {"SPARK_DAEMON_MEMORY": "1g", **environment}
        self.url = ""

    def __enter__(self) -> Self:
        submit = "org.apache.spark.deploy.SparkSubmit"
        arguments = (submit, *self._arguments)
        self._server = Daemon(self._folder, "connect", *arguments, **self._environment)
        try:
            port = self._server.wait_for(r"Spark Connect server started at: \S*:(\d+)")
        except BaseException:
            self.__exit__()
            raise
        self.url = f"sc://{DRIVER}:{port}"
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End the server immediately."""
        self._server.kill()
