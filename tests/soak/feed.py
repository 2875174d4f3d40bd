"""The input: measurements in files, devices that register late, reminders on a Timeline."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from dispatcher.timeline import Message, Timeline
from tests.processes.workers import create_at_last
from tests.soak.plan import Plan
from tests.waiting import LONG

METRICS = 3
TOPIC = "reminders"
SECONDS = 30
"""Seconds during which devices register, one after the other."""
NEVER = 1_000
"""One of so many reminders, and the first, can never be sent."""


class Feed:
    """Input comes in within its `with` block, until `end()`. Nothing is left out, even while Redis
    is away: measurements come in files, and reminders are created again until there is an
    answer."""

    def __init__(self, plan: Plan, register: Callable[[str], object]) -> None:
        self.plan = plan
        self._register_one = register
        self.timeline = Timeline(plan.redis, TOPIC, timeout=LONG, remember_deleted=600)
        self.timeline.buckets  # noqa: B018  # the topic exists before its workers look for it
        self.measured = 0
        """How many rows there are in files."""
        self.reminded: set[int] = set()
        """The numbers of the reminders that have to arrive."""
        self.created = 0
        """How many reminders were created."""
        self.registering = threading.Event()
        """Whether devices register at present."""
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._again_and_again, args=(what,), daemon=True)
            for what in (self._measure, self._remind, self._register)
        ]
        self._devices = [f"device {number}" for number in range(plan.devices)]
        self._unregistered = self._devices.copy()

    @property
    def never(self) -> int:
        """How many of the reminders can never be sent."""
        return self.created - len(self.reminded)

    def end(self) -> None:
        """End the input, except for devices that have not registered yet."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        while self._unregistered:
            self._register_one(self._unregistered.pop())

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self.timeline.close()

    def _again_and_again(self, what: Callable[[int], None]) -> None:
        number, began = 0, time.monotonic()
        while not self._ending.wait(max(0.0, began + number - time.monotonic())):
            what(number)
            number += 1

    def _measure(self, file: int) -> None:
        """Write the next rows of every device to a file, in no order."""
        first = file * self.plan.each
        numbers = list(range(first, first + self.plan.each))
        lines = [
            json.dumps(
                {
                    "device": device,
                    "metric": f"m{number % METRICS}",
                    "seq": number,
                    "at": 1_700_000_000 + number,
                }
            )
            for number in reversed(numbers)
            for device in self._devices
        ]
        source = Path(self.plan.source)
        unfinished = source.with_name("unfinished")
        unfinished.write_text("\n".join(lines))
        unfinished.rename(source / f"{file:06}.json")
        self.measured += len(lines)

    def _register(self, second: int) -> None:
        """Register some devices, which have measured for a while before."""
        if not self.registering.is_set():
            return
        for _ in range(min(len(self._unregistered), self.plan.devices // SECONDS or 1)):
            self._register_one(self._unregistered.pop())

    def _remind(self, second: int) -> None:
        """Create the reminders that are due in a second, some now and some later."""
        dice = random.Random(second)
        first = second * self.plan.reminders
        messages, wanted = [], set()
        for number in range(first, first + self.plan.reminders):
            to = None if number % NEVER == 0 else f"person {number}"
            wanted |= {number} if to else set()
            messages.append(Message({"number": number, "to": to}, delay=dice.uniform(0, 2)))
        create_at_last(self.timeline.producer("soak"), messages)
        self.reminded |= wanted
        self.created += len(messages)
