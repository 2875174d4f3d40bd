"""The driver of both streams. Its standard input has its orders, see `tests.processes.orders`.

A query that has failed is started again, as in production, and reported on stderr.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from tests.processes.orders import obey
from tests.processes.spark_sink import session
from tests.soak.plan import Plan

SCHEMA = "device string, metric string, seq long, at timestamp"
WINDOW, TIMEOUT = 4, 1.0


class Streams:
    """Both queries, which are started again when they fail."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._spark = session(
            plan.master,
            {
                **{f"spark.executorEnv.{name}": value for name, value in plan.environment.items()},
                # However many are killed, there is a further one.
                "spark.task.maxFailures": "1000",
                "spark.deploy.maxExecutorRetries": "-1",
            },
        )
        self._running: dict[str, Any] = {}
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        for name, begin in self._queries.items():
            self._running[name] = begin()
        self._keeper.start()

    def stop(self) -> None:
        """Stop both queries, and return when they have stopped."""
        self._stopping.set()
        self._keeper.join()
        for query in self._running.values():
            query.stop()

    @property
    def _queries(self) -> dict[str, Callable[[], Any]]:
        return {"in-order": self._in_order, "together": self._together}

    def _keep(self) -> None:
        while not self._stopping.wait(0.2):
            for name, begin in self._queries.items():
                if not self._running[name].isActive:
                    sys.stderr.write(f"{name} failed: {self._running[name].exception()}\n")
                    self._running[name] = begin()

    def _in_order(self) -> Any:
        from dispatcher.spark import SubjectSink

        sink = SubjectSink(
            "tests.soak.handlers:in_order",
            subject="device",
            time="at",
            rows="dict",
            gate=_gate,
            max_batch_size=self._plan.max_batch_size,
            **self._how,
        )
        return self._begin("in-order", self._rows(), sink)

    def _together(self) -> Any:
        from dispatcher.spark import EventTimeSink, event_time_batches

        batches = event_time_batches(
            self._rows(), subject="device", key="metric", time="at", window=WINDOW, timeout=TIMEOUT
        )
        sink = EventTimeSink("tests.soak.handlers:together", rows="dict", **self._how)
        return self._begin("together", batches, sink)

    @property
    def _how(self) -> dict[str, Any]:
        return {
            "limiter": self._plan.limiter,
            "concurrency": self._plan.concurrency,
            "lease_time": self._plan.lease_time,
            "partitions": 2,
        }

    def _rows(self) -> Any:
        rows = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 20)
        return rows.json(self._plan.source)

    def _begin(self, name: str, rows: Any, sink: Any) -> Any:
        return (
            rows.writeStream.foreachBatch(sink)
            .option("checkpointLocation", f"{self._plan.directory}/{name}")
            .queryName(name)
            .start()
        )


def _gate() -> Any:
    from tests.soak.handlers import gate

    return gate()


def main() -> None:
    """Carry out the orders of the input."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    streams = Streams(Plan.from_argument(sys.argv[1]))
    obey({"start": streams.start, "stop": streams.stop})


if __name__ == "__main__":
    main()
