"""Prometheus sees it: every query has an answer, every alert fires for its cause and resolves.

The rules are those that are checked in, made by the same code, at two hundred times the pace: five
minutes are a second and a half.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.timeline import Message, Timeline
from grafana import rules
from grafana.alerts import ALERTS, RECORDS
from grafana.files import HERE
from grafana.pace import Pace
from limiters.embedded import EmbeddedRedis, free_port
from limiters.tethered import Tethered
from tests.processes import ROOT
from tests.servers import wait_until
from tests.servers.prometheus import MISSING, REQUIRED, Prometheus, promtool
from tests.spark_totals import finish, introduce

pytestmark = pytest.mark.skipif(
    MISSING and not REQUIRED, reason="there is no prometheus here: apt-get install prometheus"
)

PACE = Pace(1 / 200, least=5)
PATIENCE = 100.0
WRONG = {
    ("Unwatched", ""),
    ("RedisAway", "dispatcher-cluster"),
    ("RedisAway", "far"),
    ("SyncFailing", "far"),
    ("LimitNearlyUsed", "orders"),
    ("Throttled", "refused"),
    ("BatchesFailing", "refused"),
    ("CapacityIdle", "hoarded"),
    ("BufferNearlyFull", "orders"),
    ("BacklogGrowing", "letters"),
    ("TopicLate", "letters"),
    ("NobodyConsumes", "letters"),
    ("DeadLetters", "mails"),
    ("ClockDrift", "dispatcher-cluster"),
    ("SparkRowsRejected", "clicks"),
}
"""What is wrong in the example: the alert that is for it, and what that is about."""
ALSO = {("BufferNearlyFull", "hoarded"), ("BufferNearlyFull", "far"), ("BatchesFailing", "store")}
"""As is this: each process has more to do than it may, and a mail in four cannot be sent."""
BUSY = {("BufferNearlyFull", "refused"), ("LimitNearlyUsed", "refused")}
"""And this, once nothing is refused any more."""

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
        """Ends the trouble."""
        assert self._process.stdin is not None
        self._process.stdin.write("mend\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Ends it."""
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


class Example:
    """A cluster in which everything is wrong that there is an alert for."""

    def __init__(self, directory: Path, ended: ExitStack) -> None:
        self._directory, self._ended = directory, ended
        self.redis = ended.enter_context(EmbeddedRedis())
        self.far = ended.enter_context(EmbeddedRedis(appendonly=True))
        self.client = ended.enter_context(Redis.from_url(self.redis.url))
        self.clock = directory / "clock"
        self.clock.write_text("90")
        self.exporters = [free_port() for _ in range(3)]
        self.worker_port = free_port()
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
        self._worker("mails", f"--metrics-port={self.worker_port}", "--limit=store")
        introduce(self.client, "clicks")
        making = threading.Thread(target=self._make)
        making.start()
        self._ended.callback(making.join)
        self._ended.callback(self._stop_making.set)
        wait_until(lambda: all(one.place for one in [*self.good, self.refused, self.cut_off]))

    def watch(self) -> None:
        """The exporters."""
        near, far, wrong = self.exporters
        self._command("exporter", f"--redis={self.redis.url}", f"--port={near}")
        self._command("exporter", f"--redis={self.far.url}", f"--port={far}")
        code = [sys.executable, "-c", WRONG_CLOCK, str(self.clock)]
        self._run("clock", *code, "exporter", f"--redis={self.redis.url}", f"--port={wrong}")

    def mend(self) -> None:
        """Ends every cause."""
        self._stop_making.set()
        self.far.restart(empty=False)
        self.clock.write_text("0")
        for one in (*self.good, self.starving, self.cut_off):
            one.close()
        self.refused.mend()
        self.greedy.mend()
        self._worker("letters")
        producer = self.mails.producer("example")
        producer.delete([one.id for one in self.mails.dead()[0]])

    @property
    def jobs(self) -> dict[str, list[str]]:
        """What is to be scraped."""
        processes = [*self.good, self.refused, self.greedy, self.starving, self.cut_off]
        return {
            "dispatcher-cluster": [f"127.0.0.1:{port}" for port in self.exporters],
            "dispatcher-worker": [
                f"127.0.0.1:{self.worker_port}",
                *(one.place for one in processes),
            ],
        }

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
        """Work, as it comes in: some mails nobody can send, letters that nobody takes, and rows
        that are refused."""
        mails, letters = self.mails.producer("example"), self.letters.producer("example")
        letters.create([Message({"to": "me"}) for _ in range(150)])
        while not self._stop_making.wait(0.5):
            mails.create([Message({"to": to}) for to in ("me", "you", "them", "")])
            letters.create([Message({"to": "me"}) for _ in range(40)])
            finish(self.client, "clicks")


@contextmanager
def noted(prometheus: Prometheus) -> Iterator[set[tuple[str, str]]]:
    """Which alerts have been firing, and about what."""
    seen: set[tuple[str, str]] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.25):
            seen.update(firing(prometheus))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def firing(prometheus: Prometheus) -> set[tuple[str, str]]:
    """The alerts that are firing now, and what they are about."""
    subjects = ("limit", "topic", "query", "job")
    return {
        (
            labels["alertname"].removeprefix("Dispatcher"),
            next((labels[one] for one in subjects if one in labels), ""),
        )
        for labels in prometheus.firing()
    }


def substituted(expression: str, example: Example) -> str:
    """With the variables of a dashboard as somebody might choose them."""
    several = re.sub(r'=~"\$\w+"', '=~".*"', expression)
    chosen = {
        "limit": "orders",
        "topic": "mails",
        "instance": example.good[0].place,
        "__rate_interval": "5s",
        "__range": "1m",
    }
    return re.sub(r"\$(\w+)", lambda found: chosen[found[1]], several)


def panels() -> Iterator[tuple[str, str]]:
    """Each query of each panel, and where it stands."""
    for path in sorted((HERE / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", target["expr"]


def scraped(place: str) -> str:
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.timeout(300)
def test_every_query_has_an_answer_and_every_alert_fires_for_its_cause_and_resolves(
    tmp_path: Path,
) -> None:
    with ExitStack() as ended:
        example = Example(tmp_path, ended)
        example.start()
        written = rules.text(PACE)
        prometheus = ended.enter_context(Prometheus(tmp_path, example.jobs, written))
        seen = ended.enter_context(noted(prometheus))

        # Nobody watches yet.
        wait_until(lambda: ("Unwatched", "") in seen, within=PATIENCE)
        example.watch()
        wait_until(lambda: prometheus.now('dispatcher_cluster_demand{limit="far"} > 0'))
        example.far.kill()

        try:
            wait_until(lambda: seen >= WRONG, within=PATIENCE)
        except AssertionError:
            pytest.fail(f"not firing: {WRONG - seen}; active: {prometheus.alerts()}")
        for place in (example.jobs["dispatcher-cluster"][0], *example.jobs["dispatcher-worker"]):
            assert promtool("check", "metrics", given=scraped(place)) == "", place

        example.mend()
        try:
            # What is refused no more goes on, and uses its limit: that is no trouble of this kind.
            wait_until(lambda: not firing(prometheus) - BUSY, within=PATIENCE)
            example.refused.close()
            wait_until(lambda: not prometheus.firing(), within=PATIENCE)
        except AssertionError:
            pytest.fail(f"not resolved: {prometheus.alerts()}")
        assert seen <= WRONG | ALSO | BUSY, "some have called for nothing"

        asked = [(where, substituted(expression, example)) for where, expression in panels()]
        asked += [(record.name, record.name) for record in RECORDS]
        silent = [
            (where, expression)
            for where, expression in asked
            if all(math.isnan(value) for value in prometheus.values(expression))
        ]
        assert silent == []


def test_every_alert_has_a_cause_in_the_example() -> None:
    assert {f"Dispatcher{name}" for name, _ in WRONG} == {alert.name for alert in ALERTS}


def test_promtool_finds_nothing_in_the_rules_at_either_pace(tmp_path: Path) -> None:
    for number, written in enumerate((rules.text(), rules.text(PACE))):
        path = tmp_path / f"{number}.yml"
        path.write_text(written)
        said = promtool("check", "rules", "--lint=all", "--lint-fatal", str(path))
        assert f"SUCCESS: {len(ALERTS) + len(RECORDS)} rules found" in said


def test_promtool_finds_nothing_in_the_settings_that_are_checked_in() -> None:
    said = promtool("check", "config", "--lint=all", "--lint-fatal", str(HERE / "prometheus.yml"))
    assert "1 rule files found" in said
