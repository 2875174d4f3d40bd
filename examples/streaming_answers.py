"""A model's API that streams its answers: 20,000 tokens a minute, of which a call says only at its
end how many it took.

Here a minute is a second. At first each call is estimated at the longest answer that was asked for;
what the answers take is learned. An answer is settled by the `usage` of its last event, so that the
rest is free for other calls. Until then it counts as estimated; only if it becomes longer is it
settled as it comes, so that the next call waits.

Some streams break. What has come until then is not what the API charges, since it goes on to count:
so a broken stream is not settled, counts as estimated, and is asked for once more.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from dispatcher import Batcher, Learned, Operation, ProvisionedResource, Retry, Throttled, Watcher
from examples.metered.apis import ModelApi
from limiters import InFlight, Limits, Rate

MINUTE, TOKENS, CALLS, LONGEST = 1.0, 20_000, 40, 2_000


class Client:
    """Asks the API, and settles what each answer takes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[int] = []
        self.broken = 0

    def ask(self, batch: list[Operation]) -> None:
        """The callback: one call."""
        [operation] = batch
        prompt = operation.payload
        sent = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": LONGEST,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", json.dumps(sent).encode()
        )
        cost: Any = operation.cost
        taken, usage, estimated = len(prompt.split()), None, cost["tokens"]
        try:
            with urllib.request.urlopen(request, timeout=30) as stream:
                for line in stream:
                    if not line.startswith(b"data: {"):
                        continue
                    event = json.loads(line.removeprefix(b"data: "))
                    usage = event["usage"]
                    taken = usage["total_tokens"] if usage else taken + 1
                    if usage or taken > estimated:
                        operation.settle({"tokens": taken})
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 429:
                    raise
                wait = float(error.headers["retry-after-ms"]) / 1000
                raise Throttled(retry_after=wait, charged=False) from None
        if usage is None:
            self.broken += 1
            raise Retry(after=0.01)
        self.answers.append(taken)


def main() -> None:
    limits = Limits(tokens=Rate(TOKENS, per=MINUTE, burst=TOKENS), calls=InFlight(CALLS))
    api = ModelApi(1.1 * TOKENS, MINUTE, breaks=0.03)
    cost = Learned({"tokens": LONGEST})
    with api.served() as url:
        client = Client(url)
        watcher = Watcher(client.ask, batch_cost={"calls": 1})
        began = time.monotonic()
        with Batcher(rate_limiter=ProvisionedResource(limits), max_buffer_size=20) as batcher:
            for number in range(300):
                batcher.enqueue(Operation(watcher, cost, f"How high is mountain {number}?"))
        minutes = (time.monotonic() - began) / MINUTE
    [learned] = cost.known()
    tokens, estimate = sum(client.answers), learned.estimate["tokens"]  # type: ignore[index]
    print(f"{len(client.answers)} answers of {tokens:,} tokens in {minutes:.1f} minutes")
    print(f"estimated at {LONGEST:,} tokens first, at {estimate:.0f} in the end")
    print(f"the API has refused {api.meter.refused:.0f} calls")
    print(f"{client.broken} streams broke, and counted as estimated")
    assert sum(client.answers) + api.lost == api.meter.charged
    print("done")


if __name__ == "__main__":
    main()
