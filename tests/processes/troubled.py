"""A cluster in which everything is wrong that there is an alert for, until it is repaired."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

from redis import Redis

from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from limiters._support.tethered import Tethered
from limiters.embedded import EmbeddedRedis
from limiters.leases._messages import Request, Terms
from limiters.leases._scripts import keys_of
from tests.processes import ROOT
from tests.processes.watched import CAPACITY
from tests.servers.ports import own_port
from tests.spark_totals import finish, introduce
from tests.waiting import until

# A machine whose clock is wrong, as long as the file says so.
WRONG_CLOCK = """
import sys, time
from pathlib import Path
right, wrong = time.time, Path(sys.argv.pop(1))
time.time = lambda: right() + float(wrong.read_text())
from dispatcher.cli.main import main
main()
"""


class Watched:
    """A process of tests/processes/watched.py."""

    def __init__(self, url: str, limit: str, trouble: str = "") -> None:
        plan = json.dumps({"url": url, "limit": limit, "trouble": trouble})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.watched", plan],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )
        self._port = ""

    @property
    def place(self) -> str:
        """Where it serves, once it does."""
        if not self._port:
            assert self._process.stdout is not None
            self._port = self._process.stdout.readline().strip()
        return f"127.0.0.1:{self._port}"

    def mend(self) -> None:
        """Ask the process to end its trouble."""
        assert self._process.stdin is not None
        self._process.stdin.write("mend\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the process, and wait for it."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


OTHER_LEASE = Terms.scalar(400, 20, 1_000, 600_000)
"""Instances of a limit that was made with another lease than its instances have."""


class Example:
    """A cluster in which everything is wrong that there is an alert for."""

    def __init__(self, directory: Path, ended: ExitStack) -> None:
        self._directory, self._ended = directory, ended
        self.redis = ended.enter_context(EmbeddedRedis())
        self.far = ended.enter_context(EmbeddedRedis(appendonly=True))
        self.client = ended.enter_context(Redis.from_url(self.redis.url))
        self.far_client = ended.enter_context(Redis.from_url(self.far.url))
        self.clock = directory / "clock"
        self.clock.write_text("90")
        self.exporters = [own_port() for _ in range(3)]
        self.worker_port = own_port()
        self._stop_making = threading.Event()
        self.mails, self.letters = (
            ended.enter_context(closing(Timeline(self.redis.url, topic)))
            for topic in ("mails", "letters")
        )

    def start(self) -> None:
        """Everything but what only Prometheus sees."""
        url = self.redis.url
        self.good = [self._watched(url, "orders") for _ in range(2)]
        self.refused = self._watched(url, "refused", "refused")
        self.greedy = self._watched(url, "hoarded", "greedy")
        self.starving = self._watched(url, "hoarded")
        self.cut_off = self._watched(self.far.url, "far")
        self.hung = self._watched(url, "contract", "hung")
        for name in ("misfit", "doubted"):
            self._limit(name).sync(Request.scalar("somebody", 1, OTHER_LEASE, need=100))
        self.misfit = self._watched(url, "misfit")
        self._limit("doubted").set_terms(period=2)
        assert self.mails.buckets == self.letters.buckets  # they are there before their workers
        self._worker("mails", f"--metrics-port={self.worker_port}", "--limit=store")
        introduce(self.client, "clicks")
        self.client.set(keys_of("dispatcher", "damaged")[0], "no limit")
        making = threading.Thread(target=self._make)
        making.start()
        self._ended.callback(making.join)
        self._ended.callback(self._stop_making.set)
        begun = [*self.good, self.refused, self.cut_off, self.hung]
        until(lambda: all(one.place for one in begun))

    def is_known(self) -> bool:
        """Whether an exporter that looks now finds all limits and topics: next time is later."""
        there = named(self.client) | named(self.far_client)
        limits = {"orders", "refused", "hoarded", "far", "store", "misfit", "doubted", "contract"}
        return there >= limits | {"mails", "letters"}

    def watch(self) -> None:
        """Start an exporter for each cluster."""
        near, far, wrong = self.exporters
        self._command("exporter", f"--redis={self.redis.url}", f"--port={near}")
        self._command("exporter", f"--redis={self.far.url}", f"--port={far}")
        code = [sys.executable, "-c", WRONG_CLOCK, str(self.clock)]
        self._run("clock", *code, "exporter", f"--redis={self.redis.url}", f"--port={wrong}")

    def change(self, limit: str) -> None:
        """Change the limit, as an operator does."""
        self._limit(limit).set_terms(capacity=CAPACITY - 10)

    def mend(self) -> None:
        """End the cause of every alert."""
        self._stop_making.set()
        self.far.restart(empty=False)
        self.clock.write_text("0")
        self.hung.mend()
        for one in (self.hung, *self.good, self.starving, self.cut_off, self.misfit):
            one.close()
        for name in ("misfit", "doubted"):
            self._limit(name).delete()
        self.refused.mend()
        self.greedy.mend()
        self._worker("letters")
        producer = self.mails.producer("example")
        producer.delete([one.id for one in self.mails.dead()[0]])

    @property
    def jobs(self) -> dict[str, list[str]]:
        """The targets to scrape."""
        processes = [
            *self.good,
            self.refused,
            self.greedy,
            self.starving,
            self.cut_off,
            self.misfit,
            self.hung,
        ]
        return {
            "dispatcher-cluster": [f"127.0.0.1:{port}" for port in self.exporters],
            "dispatcher-worker": [
                f"127.0.0.1:{self.worker_port}",
                *(one.place for one in processes),
            ],
        }

    def _limit(self, name: str) -> RedisLeaseManager:
        manager = RedisLeaseManager(self.redis.url, name=name)
        return self._ended.enter_context(closing(manager))

    def _watched(self, url: str, limit: str, trouble: str = "") -> Watched:
        return self._ended.enter_context(closing(Watched(url, limit, trouble)))

    def _worker(self, topic: str, *options: str) -> None:
        shared = ["--shared-capacity=1000", "--factor=100"] if options else []
        self._command(
            "worker",
            "examples.watched.handlers:send",
            f"--topic={topic}",
            f"--redis={self.redis.url}",
            *options,
            *shared,
        )

    def _command(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "dispatcher.cli.main", *arguments]
        self._run("-".join(arguments[:1]), *command)

    def _run(self, name: str, *command: str) -> None:
        place = Path(self._directory, f"{name}-{time.monotonic_ns()}")
        place.mkdir()
        here = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(ROOT), *command]
        process = Tethered(here, place, place.with_suffix(".log"))
        self._ended.callback(process.end)

    def _make(self) -> None:
        """Work, as it comes in: some mails that cannot be sent, letters without a consumer, and
        rows that are refused."""
        mails, letters = self.mails.producer("example"), self.letters.producer("example")
        letters.create([Message({"to": "me"}) for _ in range(150)])
        while not self._stop_making.wait(0.5):
            mails.create([Message({"to": to}) for to in ("me", "you", "them", "")])
            letters.create([Message({"to": "me"}) for _ in range(40)])
            finish(self.client, "clicks")


def named(client: Redis) -> set[str]:
    """The limits and topics that are there."""
    keys = (bytes(key).decode() for key in client.scan_iter())
    found = (re.search(r"\{(\w+)\}:(limit|settings)$", key) for key in keys)
    return {one[1] for one in found if one}
