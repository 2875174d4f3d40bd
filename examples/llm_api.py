"""An LLM's API that allows 60 requests and 12,000 tokens a minute, and 15 calls at a time.

Here a minute is a second. The limits are written down as the API states them, and each batch costs
one request and one call. The tokens of a call are estimated before it is sent: those of its prompt,
and the longest answer asked for. If the estimate was too low, the API answers 429 after all, and
says when to try again: nothing is lost, and no call is made until then. A mail API is the same
without tokens.
"""

import asyncio
import random
import time
from collections import deque

from dispatcher import Batcher, Operation, ProvisionedResource, Throttled, Watcher
from limiters import InFlight, Limits, Rate

MINUTE, REQUESTS, TOKENS, CALLS = 1.0, 60, 12_000, 15
LIMITS = Limits(
    requests=Rate(REQUESTS, per=MINUTE),
    tokens=Rate(TOKENS, per=MINUTE),
    calls=InFlight(CALLS),
)
LONGEST_ANSWER = 100
chance = random.Random(7)


class TooManyRequestsError(Exception):
    """The API answered 429."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after


class Api:
    """Stands for the API: counts requests and tokens of the last minute, and calls under way."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, int]] = deque()
        self.calls = self.most_calls = self.refused = 0

    async def complete(self, prompt: str) -> str:
        """Return an answer, some time later."""
        now = time.monotonic()
        while self.recent and self.recent[0][0] <= now - MINUTE:
            self.recent.popleft()
        tokens = round(len(prompt) / chance.uniform(2.5, 4.5)) + LONGEST_ANSWER
        spent = sum(tokens for _, tokens in self.recent)
        if len(self.recent) == REQUESTS or spent + tokens > TOKENS or self.calls == CALLS:
            self.refused += 1
            raise TooManyRequestsError(self.recent[0][0] + MINUTE - now)
        self.recent.append((now, tokens))
        self.calls += 1
        self.most_calls = max(self.most_calls, self.calls)
        await asyncio.sleep(chance.uniform(0.1, 0.4))
        self.calls -= 1
        return f"an answer to {prompt[:10]}"


def tokens_of(prompt: str) -> float:
    """An estimate: a rule of thumb, or the model's own tokenizer."""
    return len(prompt) / 4 + LONGEST_ANSWER


def main() -> None:
    """Ask 150 questions, short and long."""
    api, answers = Api(), dict[int, str]()

    async def ask(batch: list[Operation]) -> None:
        number, prompt = batch[0].payload
        try:
            answers[number] = await api.complete(prompt)
        except TooManyRequestsError as error:
            raise Throttled(retry_after=error.retry_after) from None

    watcher = Watcher(ask, batch_cost={"requests": 1, "calls": 1})
    began = time.monotonic()
    with Batcher(rate_limiter=ProvisionedResource(LIMITS)) as batcher:
        for number in range(150):
            prompt = "question? " * chance.choice([10, 50, 150])
            batcher.enqueue(Operation(watcher, {"tokens": tokens_of(prompt)}, (number, prompt)))
    minutes = (time.monotonic() - began) / MINUTE
    print(f"{len(answers)} answers in {minutes:.1f} minutes, {api.refused} times 429")
    print(f"never more than {CALLS} calls at a time: {api.most_calls <= CALLS}")
    assert len(answers) == 150
    print("done")


if __name__ == "__main__":
    main()
