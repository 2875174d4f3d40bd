"""A soak from its start to its verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from dispatcher.report import report
from examples.reminders.store import MeteredStore
from grafana import rules
from grafana.pace import Pace
from limiters.embedded import EmbeddedRedis
from tests.processes.noted import lines
from tests.programs import installed
from tests.servers.alerts import firing, noted
from tests.servers.prometheus import Prometheus
from tests.soak.arrivals import PATHS, Arrivals
from tests.soak.cluster import Cluster
from tests.soak.feed import Feed
from tests.soak.handlers import TOGETHER
from tests.soak.plan import Plan
from tests.soak.troubles import Troubles
from tests.soak.verdict import FIRED, Outcome

PACE = Pace(1 / 200, least=5)
"""Five minutes in the rules are a second and a half here."""
SLACK = 1.3
"""The store counts by the time at which a batch reaches it, on a machine whose threads may have to
wait."""
BUSY = {"LimitNearlyUsed", "BufferNearlyFull"}
"""Alerts that are no problem."""
SAID_EVERY = 5.0
PATIENCE = 120.0
"""Seconds without any event after which a soak counts as ended."""


class Story:
    """One soak, in `directory`. `say` is called with what happens."""

    def __init__(
        self,
        directory: Path,
        sizes: Plan,
        *,
        seed: int,
        say: Callable[[str], object],
    ) -> None:
        self._directory = directory
        self._sizes = sizes
        self._seed = seed
        self._say = say
        self._arrivals = Arrivals()
        self._read = 0

    def run(self, choose: Callable[[Troubles], Iterable[str]], written: Path) -> Outcome:
        """Run the soak. `choose` returns the troubles, one after the other. The spending over time
        is `written` to a page."""
        began = time.monotonic()
        with ExitStack() as ended:
            server = ended.enter_context(EmbeddedRedis(appendonly=True))
            store = ended.enter_context(MeteredStore(self._sizes.limit * SLACK))
            plan = replace(
                self._sizes, redis=server.url, store=store.url, directory=str(self._directory)
            )
            Path(plan.source).mkdir()
            cluster = Cluster(plan, server, ended)
            feed = Feed(plan, cluster.register)
            prometheus, seen = self._watch(cluster, ended)

            def alerted(name: str) -> bool:
                return prometheus is None or name in names(seen)

            troubles = Troubles(cluster, store, alerted, self._seed)
            self._say("starts: Redis, the store, workers, Spark")
            cluster.start()
            with feed:
                troubles.wait_for(TOGETHER)  # then messages wait for their device
                feed.registering.set()
                troubles.wait_for(*PATHS)
                for trouble in choose(troubles):
                    self._say(f"{trouble}; {self._follow(store, feed)}")
                    troubles.cause(trouble)
                feed.end()
                self._say(f"nothing more comes in; {self._follow(store, feed)}")
                self._wait_for_all(store, feed)
                unresolved = self._resolved(prometheus, feed, seen)
                left = feed.timeline.stats().remaining
            self._say("ends")
            cluster.end()
            self._follow(store, feed)
        log = spent(plan.notes)
        return Outcome(
            self._arrivals,
            expected(feed),
            store.refused,
            report(written, log, plan.limit, title="A soak"),
            left,
            names(seen) if prometheus else None,
            unresolved,
            troubles.done,
            troubles.spark_kills,
            2 * plan.concurrency * plan.max_batch_size,
            time.monotonic() - began,
        )

    def _watch(
        self, cluster: Cluster, ended: ExitStack
    ) -> tuple[Prometheus | None, set[tuple[str, str]]]:
        if not installed("prometheus"):
            return None, set()
        made = Prometheus(self._directory, cluster.jobs, rules.text(PACE))
        prometheus = ended.enter_context(made)
        return prometheus, ended.enter_context(noted(prometheus))

    def _follow(self, store: MeteredStore, feed: Feed) -> str:
        """Note the rows that have arrived since the last look. Return a text with their number."""
        new = store.log[self._read :]
        self._read += len(new)
        for _, _, status, told in new:
            if status == 201:
                self._arrivals.take(told["who"], told["rows"], told["late"])
        arrived = sum(map(len, self._arrivals.rows.values()))
        return f"{arrived:,} of {sum(expected(feed).values()):,} rows have arrived"

    def _wait_for_all(self, store: MeteredStore, feed: Feed) -> None:
        """Wait until nothing is left, or nothing happens any more."""
        latest, since = -1, time.monotonic()
        reported = since
        while time.monotonic() - since < PATIENCE:
            so_far = self._follow(store, feed)
            arrived = {path: len(rows) for path, rows in self._arrivals.rows.items()}
            if arrived == expected(feed) and not feed.timeline.stats().remaining:
                return
            if self._read != latest:
                latest, since = self._read, time.monotonic()
            if time.monotonic() - reported > SAID_EVERY:
                reported = time.monotonic()
                self._say(so_far)
            time.sleep(0.1)

    def _resolved(
        self, prometheus: Prometheus | None, feed: Feed, seen: set[tuple[str, str]]
    ) -> set[str]:
        """Return the alerts that still fire after an operator has deleted the dead letters."""
        dead = [one.id for one in feed.timeline.dead(10_000)[0]]
        if prometheus is None:
            return set()
        self._say("alerts are waited for, and that they resolve")
        within(PATIENCE, lambda: names(seen) >= FIRED)
        feed.timeline.producer("soak").delete(dead)
        within(PATIENCE, lambda: not names(firing(prometheus)) - BUSY)
        return names(firing(prometheus)) - BUSY


def within(patience: float, condition: Callable[[], object]) -> None:
    """Return when the condition holds, or when patience ends: the verdict shows which."""
    ends = time.monotonic() + patience
    while not condition() and time.monotonic() < ends:
        time.sleep(0.1)


def names(alerts: Iterable[tuple[str, str]]) -> set[str]:
    """Return the names of alerts, without their subjects."""
    return {name for name, _ in set(alerts)}


def expected(feed: Feed) -> dict[str, int]:
    """Return how many rows have to arrive on each way."""
    return {
        "in order": feed.measured,
        "by event time": feed.measured,
        "when due": len(feed.reminded),
    }


def spent(notes: str) -> list[tuple[float, str, float]]:
    """Return the notes of the handlers: time, sender, cost."""
    facts = (line.split("\t") for line in lines(notes))
    return [(float(at), who, float(cost)) for at, who, cost in facts]
