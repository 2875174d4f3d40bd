"""Measurements of many meters, sent in batches: what one meter measured at one time stays
together, a meter's measurements stay in order, and meters do not wait for one another."""

import random

from dispatcher import Batcher, Operation, ProvisionedResource, Retry, Watcher
from dispatcher.builders import SubjectBuilder
from dispatcher.senders import SubjectSender

sent: dict[str, list[int]] = {}
chance = random.Random(7)


def write(operations: list[Operation]) -> None:
    """Stands for one call of an API; now and then it is down, and the batch is tried again."""
    batch = operations[0].payload
    if chance.random() < 0.2:
        raise Retry(after=0.01)
    for measurement in batch.measurements:
        sent.setdefault(measurement["meter"], []).append(measurement["time"])
    print(f"{len(batch.measurements):3} measurements of {len(batch.subjects)} meters")


def main() -> None:
    """Sends what thirty meters of two types measured at ten times."""
    builder = SubjectBuilder[dict[str, object]](
        50, subject="meter", event_time="time", lane="type", together_within=1
    )
    builder.extend(
        {"meter": f"meter-{meter}", "type": "gas" if meter % 3 else "power", "time": time * 60 + n}
        for time in range(10)
        for meter in range(30)
        for n in range(chance.randint(1, 2))
    )
    watcher = Watcher(write)
    with (
        Batcher(rate_limiter=ProvisionedResource(1_000)) as batcher,
        SubjectSender(batcher, watcher, order="subject") as sender,
    ):
        sender.send(builder.build())
    print("in order:", all(times == sorted(times) for times in sent.values()))


if __name__ == "__main__":
    main()
