"""Real processes keep all limits of an API while bad things happen to them.

The API is a process of its own, which counts the calls that it sees: each window of each
dimension, and the calls in flight. It judges by when the calls began, as the instances' ledgers
say: a call may arrive late on a busy machine. How much of a limit is used is measured in
benchmarks/contract.py.
"""

from __future__ import annotations

import math
import signal
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from limiters.embedded import EmbeddedRedis
from tests.processes import Process, Processes
from tests.processes.calls import LimitsByDimension
from tests.processes.faults import STOPPED, Faults
from tests.processes.plan import CallerPlan
from tests.servers.counted import Call, most_in_flight
from tests.servers.counting_api import CountingApi, now
from tests.servers.proxy import Proxy
from tests.waiting import until

LEASE, INTERVAL, PERIOD = 1.2, 0.3, 2.0
SLOTS, MAX_OPERATION_TIME = 6, 5.0

CALLS: LimitsByDimension = {"calls": {"in_flight": SLOTS, "max_operation_time": MAX_OPERATION_TIME}}
CONTRACT: LimitsByDimension = {
    "requests": {"rate": 40, "per": PERIOD, "also": [[10, 0.5]]},
    "tokens": {"rate": 8_000, "per": PERIOD},
    **CALLS,
}


class Stage:
    """Processes that share what an API allows, some of them by way of a proxy."""

    def __init__(
        self,
        limits: LimitsByDimension,
        *,
        longest: float,
        tokens: tuple[int, ...] = (60, 400),
        estimated: int = 0,
    ) -> None:
        self._stack = ExitStack()
        enter = self._stack.enter_context
        try:
            server = enter(EmbeddedRedis())
            self.proxy = enter(Proxy(server))
            self.api = enter(CountingApi(limits))
            plan = CallerPlan(
                server.url,
                port=self.api.port,
                limits=limits,
                tokens=tokens,
                estimated=estimated,
                shortest=0.05,
                longest=longest,
                lease_time=LEASE,
                max_interval=INTERVAL,
            )
            self.cluster = enter(Processes(plan))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def start(self, *names: str) -> list[Process]:
        """A process for each name; the first one has the proxy between itself and Redis."""
        first, *others = [[name] for name in names]
        return [
            *self.cluster.start([first], url=self.proxy.url),
            *self.cluster.start(others),
        ]

    def await_calls(self, *names: str, since: float | None = None) -> None:
        """Returns when each of `names` has begun a call that was served, after `since` or now."""
        since = now() if since is None else since

        def called(name: str) -> bool:
            return any(one.began > since for one in self.served(name))

        until(lambda: all(map(called, names)))

    def served(self, name: str) -> list[Call]:
        """The calls of `name` that were not refused."""
        return [one for one in self.api.calls() if one.who == name and not one.refused]

    def is_calling(self, name: str) -> bool:
        """Whether a call of `name` is in flight."""
        return any(one.ended == math.inf for one in self.served(name))

    def judge(self) -> None:
        """Nothing was over, and something happened."""
        verdict = self.api.judged()
        assert verdict.holds, str(verdict)
        assert verdict.calls


@pytest.fixture
def contract() -> Iterator[Stage]:
    with Stage(CONTRACT, longest=0.5) as stage:
        yield stage


@pytest.fixture
def slots() -> Iterator[Stage]:
    with Stage(CALLS, longest=0.3) as stage:
        yield stage


def test_v1_no_limit_of_an_api_is_over_when_one_is_killed_stopped_or_cut_off(
    contract: Stage,
) -> None:
    _, killed, stopped = contract.start("cut off", "killed", "stopped")
    contract.await_calls("cut off", "killed", "stopped")
    killed.signal(signal.SIGKILL)
    contract.proxy.refuse()
    stopped.signal(signal.SIGSTOP)
    time.sleep(LEASE + INTERVAL)  # the lease of each of them ends
    stopped.signal(signal.SIGCONT)
    contract.proxy.accept()
    contract.await_calls("cut off", "stopped")
    contract.cluster.start([["new"]])
    contract.await_calls("cut off", "stopped", "new")
    contract.await_calls("cut off", "stopped", "new", since=now() + PERIOD)  # some windows later
    contract.judge()


def test_n1_n2_the_slots_of_one_that_is_killed_are_free_again_and_never_too_early(
    slots: Stage,
) -> None:
    # Its calls outlast its lease by far: another one that had their slots too early would make one
    # too many.
    long = 0.8 * MAX_OPERATION_TIME
    (killed,) = slots.cluster.start([["killed"]], shortest=long, longest=long)
    first, stopped = slots.start("cut off", "stopped")
    slots.await_calls("cut off", "killed", "stopped")
    until(lambda: any(one.began > now() - 0.5 for one in slots.served("killed")))
    killed.signal(signal.SIGKILL)
    at = now()
    slots.proxy.refuse()
    stopped.signal(signal.SIGSTOP)
    time.sleep(LEASE + INTERVAL)
    stopped.signal(signal.SIGCONT)
    slots.proxy.accept()
    slots.await_calls("cut off", "stopped")
    first.stop()  # so that one alone has to have them all

    def seen_in_flight() -> int:
        calls = [one for one in slots.served("stopped") if one.began > at]
        return most_in_flight((one.arrived, one.ended) for one in calls)

    until(lambda: seen_in_flight() == SLOTS)
    slots.judge()


ESTIMATED = 2_000
SETTLED: LimitsByDimension = {"tokens": {"rate": 4 * ESTIMATED, "per": PERIOD}}
"""Calls are estimated at a quarter of it, and take a tenth of that as a rule."""


def test_z1_z4_no_window_is_over_by_actual_costs_if_processes_are_killed_in_mid_call() -> None:
    tokens = (200, 200, 200, ESTIMATED)
    with Stage(SETTLED, longest=0.5, tokens=tokens, estimated=ESTIMATED) as stage:
        for number in range(2):
            killed, *_ = stage.start(f"killed {number}", f"other {number}")
            stage.await_calls(f"killed {number}", f"other {number}")
            until(partial(stage.is_calling, f"killed {number}"))
            killed.signal(signal.SIGKILL)
        stage.await_calls("other 0", "other 1")
        stage.await_calls("other 0", "other 1", since=now() + PERIOD)  # some windows later
        stage.judge()
        began = sorted(one.began for one in stage.api.calls() if not one.refused)
        in_window = [bisect_right(began, at + PERIOD) - n for n, at in enumerate(began)]
        assert max(in_window) > 4, "more than fit into it as estimated"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limits", [CONTRACT, CALLS], ids=["contract", "slots"])
def test_v1_n1_through_faults_at_random(limits: LimitsByDimension, seed: int) -> None:
    # The calls that a process has begun when it is stopped may take longer by that.
    with Stage(limits, longest=MAX_OPERATION_TIME - STOPPED[1]) as stage:
        names = [f"p{number}" for number in range(6)]
        stage.start(*names[:3])
        stage.start(*names[3:])
        stage.await_calls(*names)
        Faults(stage.cluster, [stage.proxy], seed).cause(30)
        running = [name for names in stage.cluster.running for name in names]
        stage.await_calls(*running)
        stage.judge()
