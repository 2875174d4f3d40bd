"""Create due messages at a steady rate: `python -m examples.watched.producer --rate 100`."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import closing

from dispatcher.timeline import Message, Timeline

PERIOD = 0.5


def main() -> None:
    """Run until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic", default="mails")
    parser.add_argument("--rate", type=float, default=100, help="messages a second")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for how long")
    options = parser.parse_args()
    url = os.environ.get("DISPATCHER_REDIS", "redis://localhost:6379/0")
    made, began = 0, time.monotonic()
    with closing(Timeline(url, options.topic)) as timeline:
        producer = timeline.producer("watched")
        while (passed := time.monotonic() - began) < options.seconds:
            due = int((passed + PERIOD) * options.rate)
            producer.create([_mail(number) for number in range(made, due)])
            made = due
            time.sleep(PERIOD)
    print(f"done: {made} messages")


def _mail(number: int) -> Message:
    # One in a thousand has no address, so that there are dead messages to see.
    return Message({"to": "" if number % 1000 == 999 else f"user-{number}"})


if __name__ == "__main__":
    main()
