"""Orders of one customer stay in order, also through failures; a failure callback receives what
cannot be sent.

The pretended API is down now and then (retried with back-off), answers 429 once (the Batcher
pauses), and refuses one order for good (the failure callback receives it).
"""

import logging
import random

from tenacity import stop_after_attempt, wait_random_exponential

from dispatcher import Batcher, Operation, Reject, Throttled, Watcher

sent: dict[str, list[int]] = {}
refused: list[int] = []
chance = random.Random(7)
calls = 0


def send(batch: list[Operation]) -> None:
    """One call of the API: one order of one customer."""
    global calls
    calls += 1
    operation = batch[0]
    if calls == 5:
        raise Throttled(retry_after=0.1)
    if operation.payload == 13:
        raise Reject("no such article")
    if chance.random() < 0.3:
        raise ConnectionError("try again")
    sent.setdefault(str(operation.key), []).append(operation.payload)


def give_up(operations: list[Operation], error: BaseException) -> None:
    """Failure callback: receives operations that will not be retried."""
    refused.extend(operation.payload for operation in operations)
    print(f"order {operations[0].payload} was given up: {error}")


def main() -> None:
    """Sends forty orders of three customers."""
    logging.basicConfig(level=logging.ERROR)  # at WARNING, every retry shows its traceback
    watcher = Watcher(
        send,
        retry=(wait_random_exponential(multiplier=0.01, max=0.1), stop_after_attempt(20)),
        on_failure=give_up,
    )
    with Batcher() as batcher:
        for number in range(40):
            customer = ("ann", "bob", "cleo")[number % 3]
            batcher.enqueue(Operation(watcher, 1, number, key=customer))
    for customer, numbers in sorted(sent.items()):
        print(customer, "in order:", numbers == sorted(numbers), numbers)
    print(f"retried {batcher.totals.retried} times, refused: {refused}")


if __name__ == "__main__":
    main()
