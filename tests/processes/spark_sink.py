"""A driver whose stream is sent by a SubjectSink, and the handler that its executors run.

`python -m tests.processes.spark_sink '{"redis": ..., "source": ..., ...}'`. Its standard input
says what it does: `start` runs the query, `drain` waits until it has sent all there is, `stop`
stops it; it answers each with a line. It ends when its input does.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from dispatcher.cli._commands.demo.datastore_server import DatastoreClient
from dispatcher.cli.datastore import TooManyRequestsError
from dispatcher.outcomes import Throttled
from limiters._support.clock import MonotonicClock
from limiters.limits import InFlight, Limits, Rate
from tests.processes.noted import append
from tests.processes.orders import obey
from tests.starts import began

SCHEMA = "subject string, seq long, at timestamp"


@dataclass
class Setting:
    """The settings of a driver."""

    PROGRAM: ClassVar[str] = "tests.processes.spark_sink"

    redis: str
    source: str
    checkpoint: str
    log: str
    store_port: int = 0
    master: str = "local-cluster[2,1,1024]"
    remote: str = ""
    """The address of a Spark Connect server, in place of a master."""
    shared_capacity: float = 4_000.0
    max_batch_size: int = 25
    slow: float = 0.02
    """How long the handler takes."""
    fail_once: str = ""
    """While this file exists, the handler that deletes it fails."""
    concurrency: int = 8
    query: str = "measurements"
    conf: dict[str, str] = field(default_factory=dict)
    """More options of Spark."""
    slow_subject: str = ""
    slower: float = 1.0
    """How much longer the handler takes for the slow subject."""
    partitions: int = 2
    """0: as many as Spark has cores."""
    limited: bool = True
    """If there is no limit, only the ledger keeps a task from sending."""
    pack: bool = True
    poison: str = ""
    """A subject that the store never takes: it goes to the file `dead`."""
    dead: str = ""
    several: bool = False
    """Whether the limit has several dimensions: those of LIMITS."""

    def as_argument(self) -> str:
        """The form in which it is handed to a process."""
        return json.dumps(asdict(self))


CALL_SECONDS = 10
"""How long a call of the handler may take."""

LIMITS = Limits(
    rows=Rate(4_000),
    tokens=Rate(60_000, per=10, also=[Rate(8_000)]),
    requests=Rate(300),
    calls=InFlight(6, max_operation_time=CALL_SECONDS),
)
"""In several dimensions. A call that was killed keeps its slot for some seconds."""
MAX_TOKENS = 100
"""Tokens that a batch costs at most, by the sink's options."""


def tokens_of(seq: int) -> int:
    """Return the tokens that a row costs: in some files batches are full of rows, in others of
    tokens."""
    return 1 + 2 * (seq % 5)


_clients: dict[int, DatastoreClient] = {}
_now = MonotonicClock.now  # the clock of `began`, which goes on while the machine sleeps


def send(rows: list[Any], context: Any, *, setting: dict[str, Any]) -> None:
    """Writes down when it began, and, when the store has it, when it ended: a line for each
    subject."""
    call = {"pid": os.getpid(), "batch": context.batch_id, "call": context.key}
    told = [
        {
            **call,
            "subject": one.subject,
            "key": one.key,
            "late": one.late,
            "seqs": [rows[one.start]["seq"], rows[one.end - 1]["seq"], one.end - one.start],
        }
        for one in context.subjects
    ]
    subjects = {one.subject for one in context.subjects}
    _note(setting["log"], told, "began", began() if setting["limited"] else _now())
    if setting["fail_once"] and _unlinked(setting["fail_once"]):
        raise RuntimeError("failed on purpose")
    time.sleep(setting["slow"] + setting["slower"] * (setting["slow_subject"] in subjects))
    if setting["poison"] in subjects:
        _note(setting["log"], told, "failed", _now())
        raise RuntimeError("not liked")
    if setting["store_port"]:
        client = _clients.setdefault(os.getpid(), DatastoreClient(setting["store_port"]))
        try:
            client.write(len(rows), len(rows))
        except TooManyRequestsError:
            _note(setting["log"], told, "refused", _now())
            raise Throttled from None
    _note(setting["log"], told, "ended", _now())


def take_dead(rows: list[Any], context: Any, *, path: str) -> None:
    """Writes down whose rows are dead."""
    append(path, json.dumps([context.subject, context.key, [row["seq"] for row in rows]]))


def _note(log: str, told: list[dict[str, Any]], what: str, when: float) -> None:
    append(log, "\n".join(json.dumps({"what": what, "when": when, **one}) for one in told))


def _unlinked(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def session(master: str, more: dict[str, str] | None = None) -> Any:
    """A Spark session whose executors find this project."""
    from pyspark.sql import SparkSession

    project = str(Path(__file__).parents[2])
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.executorEnv.PYTHONPATH": project,
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # A query without new rows looks for some again; by default after 10 ms, which keeps a core
        # busy.
        "spark.sql.streaming.pollingDelay": "100ms",
        **(more or {}),
    }
    builder: Any = SparkSession.builder
    builder = builder.master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _limiter(setting: Setting) -> Any:
    from limiters import LimiterConfig

    if setting.several:
        return LimiterConfig(
            url=setting.redis, name="orders", shared_capacity=LIMITS, lease_time=2.0
        )
    return LimiterConfig(
        url=setting.redis,
        name="orders",
        shared_capacity=setting.shared_capacity,
        factor=setting.shared_capacity / 20,
        lease_time=2.0,
    )


def _costs(setting: Setting) -> dict[str, Any]:
    """Return the options for costs: a number, an expression and a function."""
    if not setting.several:
        return {}
    return {
        "cost": {"rows": 1, "tokens": "1 + 2 * (seq % 5)", "requests": lambda row: 0},
        "batch_cost": {"requests": 1, "calls": 1},
        "max_operation_time": CALL_SECONDS,
        "max_batch_cost": {"tokens": MAX_TOKENS},
    }


def query(spark: Any, setting: Setting) -> Any:
    """Start the query, and return it."""
    from dispatcher.spark import SubjectSink

    sink = SubjectSink(
        functools.partial(send, setting=asdict(setting)),
        subject="subject",
        time="at",
        rows="dict",
        max_batch_size=setting.max_batch_size,
        concurrency=setting.concurrency,
        partitions=setting.partitions or None,
        pack=setting.pack,
        dead_letters=functools.partial(take_dead, path=setting.dead) if setting.dead else None,
        query=setting.query,
        checkpoint=setting.checkpoint if setting.remote else None,
        lease_time=2.0,
        redis=setting.redis,
        limiter=_limiter(setting) if setting.limited else None,
        **_costs(setting),
    )
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(setting.source)
    return (
        rows.writeStream.foreachBatch(sink)
        .option("checkpointLocation", setting.checkpoint)
        .queryName(setting.query)
        .start()
    )


def connected(remote: str) -> Any:
    """A session of Spark Connect."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    return builder.remote(remote).getOrCreate()


def main() -> None:
    """Run the driver with its settings."""
    setting = Setting(**json.loads(sys.argv[1]))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    spark = connected(setting.remote) if setting.remote else session(setting.master, setting.conf)
    running: list[Any] = []
    obey(
        {
            "start": lambda: running.append(query(spark, setting)),
            "drain": lambda: running[-1].processAllAvailable(),
            "stop": lambda: running[-1].stop(),
        }
    )


if __name__ == "__main__":
    main()
