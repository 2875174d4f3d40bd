"""Every exception of the project comes out of a pickle as it went in: pools and Spark send them."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import signal
from collections.abc import Callable, Iterator

import pytest

import dispatcher
import limiters
from dispatcher.builders import MeasurementError
from dispatcher.cli._signals import SignalledError
from dispatcher.errors import (
    AlreadyEnqueuedError,
    BatchAbandonedError,
    BatcherStoppedError,
    BufferFullError,
    ForkedError,
    HandlerError,
    KeyComparisonError,
    NoOperationError,
    NoWatcherError,
    TooExpensiveError,
    TooManyAttemptsError,
)
from dispatcher.outcomes import PartialFailure, Reject, Retry, Throttled
from dispatcher.registration import AutoRegistrationConflictError, RegistrationCycleError
from dispatcher.timeline import BucketCountError
from dispatcher.worker._process.health_server import PortInUseError
from dispatcher.worker._process.process import NoTopicError
from dispatcher.worker.errors import WorkerFailedError
from limiters import ArgumentError
from limiters.errors import (
    DamagedLimitError,
    NothingRunError,
    ReserveTimeoutError,
    ServerStartError,
)
from limiters.errors import ExceedsCapacityError as TooExpensiveForALimiterError
from limiters.leases._codec import FormatError

# Those that are made of something else than a message.
MADE: dict[type[BaseException], Callable[[], BaseException]] = {
    ArgumentError: lambda: ArgumentError("cost", -1, "be zero or more", "it is a price"),
    AlreadyEnqueuedError: AlreadyEnqueuedError,
    AutoRegistrationConflictError: lambda: AutoRegistrationConflictError("meter"),
    BatchAbandonedError: lambda: BatchAbandonedError(2.5),
    BatcherStoppedError: lambda: BatcherStoppedError(3),
    BucketCountError: lambda: BucketCountError("mails", 8, 64),
    BufferFullError: lambda: BufferFullError(100, 7),
    ForkedError: ForkedError,
    FormatError: lambda: FormatError("it is of format 9", 9),
    HandlerError: lambda: HandlerError("shop:send", "there is none", "a trace"),
    MeasurementError: lambda: MeasurementError({"id": 7}, "it has no time"),
    KeyComparisonError: KeyComparisonError,
    NothingRunError: lambda: NothingRunError("send", "generator"),
    NoOperationError: lambda: NoOperationError("a text"),
    NoTopicError: lambda: NoTopicError("mails", "redis://db"),
    NoWatcherError: lambda: NoWatcherError(None),
    DamagedLimitError: lambda: DamagedLimitError("orders", "redis://db", "it is damaged"),
    PartialFailure: lambda: PartialFailure([("first",)], KeyError("first")),
    PortInUseError: lambda: PortInUseError("localhost", 80, "it is taken"),
    RegistrationCycleError: lambda: RegistrationCycleError("meter", "house"),
    Reject: lambda: Reject({"why": 7}),
    ReserveTimeoutError: lambda: ReserveTimeoutError({"tokens": 5}, 1.5),
    Retry: lambda: Retry(after=1.5),
    ServerStartError: lambda: ServerStartError("it ended", "its log"),
    SignalledError: lambda: SignalledError(signal.SIGTERM),
    Throttled: lambda: Throttled(retry_after=2),
    TooExpensiveError: lambda: TooExpensiveError(7, 5),
    TooExpensiveForALimiterError: lambda: TooExpensiveForALimiterError(7, 5),
    TooManyAttemptsError: lambda: TooManyAttemptsError(4, 3),
    WorkerFailedError: lambda: WorkerFailedError(KeyError("what")),
}


def modules() -> Iterator[str]:
    for package in (dispatcher, limiters):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if (
                module.name != "dispatcher.spark.sinks.data_source"
            ):  # which older Sparks cannot import
                yield module.name


def exceptions() -> set[type[BaseException]]:
    return {
        one
        for module in map(importlib.import_module, modules())
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, BaseException)
        if one.__module__.partition(".")[0] in ("dispatcher", "limiters")
    }


def same(one: BaseException, other: BaseException) -> bool:
    return (
        type(one) is type(other)
        and str(one) == str(other)
        and list(map(repr, one.args)) == list(map(repr, other.args))
        and {name: repr(value) for name, value in vars(one).items()}
        == {name: repr(value) for name, value in vars(other).items()}
    )


@pytest.mark.parametrize("kind", sorted(exceptions(), key=str), ids=lambda kind: kind.__qualname__)
def test_an_exception_survives_pickling_and_copying(kind: type[BaseException]) -> None:
    made = MADE[kind]() if kind in MADE else kind("what to do")
    made.add_note("by the way")
    assert same(pickle.loads(pickle.dumps(made)), made)
    assert same(copy.copy(made), made)


def test_all_of_these_are_still_there() -> None:
    assert set(MADE) <= exceptions()
