"""Drivers of Spark as processes, the notes of their handlers, and how these are judged."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, Queue
from typing import IO, ClassVar, Protocol, Self

from limiters.limits import Limits
from limiters.verifier import LimitsVerdict, SpentCall, Verdict, verify, verify_limits
from tests.processes.noted import lines
from tests.processes.spark_sink import LIMITS, Setting, tokens_of
from tests.waiting import until

PATIENCE = 240.0

SIZES = {f"s{subject}": 50 for subject in range(20)} | {f"t{one}": 3 for one in range(300)}
"""The rows of each subject in a file: some subjects are larger than a batch, and many share one."""


class Arguments(Protocol):
    """The arguments of a driver, and the program that it runs."""

    PROGRAM: ClassVar[str]

    def as_argument(self) -> str:
        """Return the form in which a process receives it."""
        ...


class Driver:
    """One driver and all that it starts, in a process group that ends with it. Its output on stderr
    is appended to `log`."""

    def __init__(self, setting: Arguments, log: str = os.devnull) -> None:
        with open(log, "ab") as stderr:
            self._start(setting, stderr)
        self._lines: Queue[str] = Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._expect("ready")

    def _start(self, setting: Arguments, stderr: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", setting.PROGRAM, setting.as_argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def do(self, order: str) -> None:
        """Send an order, and wait until it is done."""
        self.send(order)
        self._expect(f"did {order}")

    def send(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Return the next line of the driver."""
        try:
            return self._lines.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError("the driver prints nothing") from None

    @property
    def pid(self) -> int:
        """The id of its process, and of its session."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the driver and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()

    def kill_driver_alone(self) -> None:
        """Kill the driver; its executors notice by themselves."""
        self._process.kill()
        self._process.wait()

    def _expect(self, text: str) -> None:
        line = self.answer()
        assert line == text, line

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("the driver has ended")


def write_rows(folder: Path, number: int, sizes: Mapping[str, int]) -> None:
    """Write one file with so many more rows of each subject, the latest first."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    lines = [
        json.dumps(
            {
                "subject": subject,
                "seq": seq,
                "at": (start + timedelta(milliseconds=seq)).isoformat(timespec="milliseconds"),
            }
        )
        for subject, size in sizes.items()
        for seq in reversed(range(number * size, (number + 1) * size))
    ]
    half = folder.parent / f"half-{number}"
    half.write_text("\n".join(lines))
    half.rename(folder / f"{number:04}.json")


@dataclass
class Note:
    """One line of the handlers' log, about one subject in a call."""

    what: str
    when: float
    pid: int
    subject: str
    batch: int
    key: str
    """The key of the subject's rows."""
    late: bool
    seqs: tuple[int, int, int]
    call: str
    """The key of the call, which may also hold rows of other subjects."""


ENDS = ("ended", "ended late")
"""The end of a call is late if its process was stopped and ended it after it continued."""


class Notes:
    """All notes of handlers."""

    def __init__(self, notes: Iterable[Note]) -> None:
        self.all = list(notes)

    @classmethod
    def read(cls, log: Path) -> Notes:
        """Return the notes in a log."""
        found = [json.loads(line) for line in lines(log)]
        return cls(Note(**{**one, "seqs": tuple(one["seqs"])}) for one in found)

    def of(self, *kinds: str) -> list[Note]:
        """Return all notes of these kinds, in order of time."""
        return sorted((one for one in self.all if one.what in kinds), key=lambda one: one.when)

    def calls(self, *kinds: str) -> int:
        """Return how many calls there are of these kinds."""
        return len({(one.what, one.when, one.pid, one.call) for one in self.of(*kinds)})

    @property
    def refused(self) -> int:
        """How often the store answered 429."""
        return self.calls("refused")

    @property
    def sent_again(self) -> set[tuple[str, int, float]]:
        """The calls with rows that had been sent before."""
        return {(one.call, one.pid, one.when) for one, known in self._taken() if known}

    def packed_otherwise(self) -> list[str]:
        """Return the subjects of which a row was sent in two calls with different keys. Calls that
        were given up do not count: their subjects are sent by themselves afterwards."""
        failed = {one.call for one in self.of("failed")}
        calls: dict[tuple[str, int], str] = {}
        wrong = {}
        for one in self.of("began"):
            if one.call in failed:
                continue
            first, last, _ = one.seqs
            for seq in range(first, last + 1):
                if calls.setdefault((one.subject, seq), one.call) != one.call:
                    wrong[one.subject] = one.call
        return list(wrong)

    def lost(self, expected: Mapping[str, int]) -> int:
        """Return how many of the first rows of each subject were never sent."""
        taken: dict[str, set[int]] = defaultdict(set)
        for one in self.of(*ENDS):
            first, last, count = one.seqs
            assert last - first + 1 == count, f"rows of a batch are not next to each other: {one}"
            taken[one.subject].update(range(first, last + 1))
        return sum(len(set(range(rows)) - taken[subject]) for subject, rows in expected.items())

    def out_of_order(self) -> list[tuple[Note, Note]]:
        """Return batches that began although a later one of their subject had begun before."""
        latest: dict[str, Note] = {}
        wrong = []
        for one in self.of("began"):
            before = latest.get(one.subject)
            if before is not None and one.seqs[0] < before.seqs[0]:
                wrong.append((before, one))
            latest[one.subject] = one
        return wrong

    def at_once(self) -> list[tuple[Note, Note]]:
        """Return batches of one subject that were in flight at the same time, in two processes that
        both ended them."""
        open_: dict[str, Note] = {}
        wrong = []
        for one in sorted(self.all, key=lambda one: one.when):
            if one.what == "began":
                open_[one.subject] = one
            elif one.what != "ended late":
                other = open_.get(one.subject)
                if other is not None and other.key != one.key:
                    wrong.append((other, one))
        return wrong

    def rows_sent_again(self) -> int:
        """Return how many rows were sent more than once; each further time counts."""
        return sum(known for _, known in self._taken())

    def _taken(self) -> Iterator[tuple[Note, int]]:
        """Iterate over the batches, with the number of their rows that had been sent before."""
        taken: dict[str, set[int]] = defaultdict(set)
        for one in self.of(*ENDS):
            first, last, _ = one.seqs
            rows = set(range(first, last + 1))
            yield one, len(rows & taken[one.subject])
            taken[one.subject] |= rows

    def verdict_on(self, limits: Limits) -> LimitsVerdict:
        """Judge whether a limit in several dimensions was exceeded, by the calls, rows and tokens
        alone. A call that was killed may have run for as long as a call may."""
        ends: dict[tuple[str, int], list[float]] = defaultdict(list)
        for one in self.of(*ENDS, "failed", "refused"):
            ends[one.call, one.pid].append(one.when)
        calls: dict[tuple[str, int, float], dict[str, float]] = {}
        for one in self.of("began"):
            spent = calls.setdefault(
                (one.call, one.pid, one.when), {"rows": 0, "tokens": 0, "requests": 1, "calls": 1}
            )
            first, last, count = one.seqs
            spent["rows"] += count
            spent["tokens"] += sum(map(tokens_of, range(first, last + 1)))
        log = [
            SpentCall(
                when, str(pid), spent, min((e for e in ends[call, pid] if e >= when), default=None)
            )
            for (call, pid, when), spent in calls.items()
        ]
        return verify_limits(log, limits)

    def verdict(self, capacity: float) -> Verdict:
        """Judge whether the limit was exceeded in any second."""
        return verify(
            [(one.when, str(one.pid), float(one.seqs[2])) for one in self.of("began")], capacity
        )


class Scene:
    """A stream whose files have so many rows of each subject, and the notes of its handlers."""

    def __init__(self, setting: Setting, sizes: Mapping[str, int]) -> None:
        self.setting = setting
        self.sizes = sizes
        self.files = 0

    def more(self, files: int) -> None:
        for _ in range(files):
            write_rows(Path(self.setting.source), self.files, self.sizes)
            self.files += 1

    @property
    def notes(self) -> Notes:
        """All notes so far."""
        return Notes.read(Path(self.setting.log))

    @property
    def expected(self) -> dict[str, int]:
        """How many rows of each subject were written."""
        return {subject: size * self.files for subject, size in self.sizes.items()}

    @property
    def lost(self) -> int:
        """How many rows no handler has sent."""
        return self.notes.lost(self.expected)

    def wait_for_batches(self, more: int) -> None:
        """Wait until so many more batches have begun."""
        began = self.notes.calls("began")
        until(lambda: self.notes.calls("began") >= began + more, within=90)


def judge(scene: Scene, *, killed: int) -> None:
    """Nothing lost, nothing out of order, no two calls of one subject at the same time, nothing
    twice but what a kill explains, no 429."""
    notes = scene.notes
    assert scene.lost == 0
    assert notes.out_of_order() == []
    assert notes.at_once() == []
    assert not any(one.late for one in notes.all)
    verdict = notes.verdict(scene.setting.shared_capacity)
    assert verdict.holds, verdict
    assert notes.refused == 0
    assert notes.packed_otherwise() == []
    if scene.setting.several:
        assert notes.verdict_on(LIMITS).holds, notes.verdict_on(LIMITS)
    assert len(notes.sent_again) <= killed * scene.setting.concurrency
    if not killed:
        assert not notes.sent_again
