"""A model's API that streams its answers: 20,000 tokens a minute, of which a call says only at its
end how many it took.

Here a minute is a second. At first each call is estimated at the longest answer that was asked for;
what the answers take is learned. While an answer streams, its tokens are settled as they come, and
in the end by the `usage` of its last event, so that the rest is free for other calls. Only if an
answer is longer than estimated does it count for more, and the next call waits.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dispatcher import Batcher, Learned, Operation, ProvisionedResource, Throttled, Watcher
from examples.metered.apis import ModelApi
from limiters import InFlight, Limits, Rate

MINUTE, TOKENS, CALLS, LONGEST = 1.0, 20_000, 40, 2_000


class Client:
    """Asks the API, and settles what each answer takes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[int] = []

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
        taken = len(prompt.split())
        try:
            with urllib.request.urlopen(request, timeout=30) as stream:
                for line in stream:
                    if not line.startswith(b"data: {"):
                        continue
                    event = json.loads(line.removeprefix(b"data: "))
                    if event["usage"]:
                        taken = event["usage"]["total_tokens"]
                    else:
                        taken += 1
                    operation.settle({"tokens": taken})
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 429:
                    raise
                wait = float(error.headers["retry-after-ms"]) / 1000
                raise Throttled(retry_after=wait, charged=False) from None
        self.answers.append(taken)


def main() -> None:
    """Ask 300 questions."""
    limits = Limits(tokens=Rate(TOKENS, per=MINUTE, burst=TOKENS), calls=InFlight(CALLS))
    api = ModelApi(1.1 * TOKENS, MINUTE)
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
    assert sum(client.answers) == api.meter.charged
    print("done")


if __name__ == "__main__":
    main()
