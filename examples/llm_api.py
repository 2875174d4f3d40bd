"""An LLM's API that allows 60 requests and 12,000 tokens a minute (here a minute is a second).

The cost of a request is estimated before it is sent: the tokens of its prompt and the longest
answer requested, and no less than a request's share of the minute, so that one limit holds both. If
the estimate was too low, the API answers 429, and when to retry: nothing is lost, and no request is
sent until then. A mail API is similar, with a cost of 1 and no tokens.
"""

import asyncio
import random
import time
from collections import deque

from dispatcher import Batcher, Operation, ProvisionedResource, Throttled, Watcher

MINUTE, REQUESTS, TOKENS = 1.0, 60, 12_000
LONGEST_ANSWER = 100
chance = random.Random(7)


class TooManyRequestsError(Exception):
    """The API answered 429."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after


class Api:
    """Stands for the API: counts requests and tokens of the last minute."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, int]] = deque()
        self.refused = 0

    async def complete(self, prompt: str) -> str:
        """Return an answer, some time later."""
        now = time.monotonic()
        while self.recent and self.recent[0][0] <= now - MINUTE:
            self.recent.popleft()
        tokens = round(len(prompt) / chance.uniform(2.5, 4.5)) + LONGEST_ANSWER
        spent = sum(tokens for _, tokens in self.recent)
        if len(self.recent) == REQUESTS or spent + tokens > TOKENS:
            self.refused += 1
            raise TooManyRequestsError(self.recent[0][0] + MINUTE - now)
        self.recent.append((now, tokens))
        await asyncio.sleep(0.2)
        return f"an answer to {prompt[:10]}"


def cost(prompt: str) -> float:
    """Return the estimated cost of a request."""
    tokens = len(prompt) / 4 + LONGEST_ANSWER  # a rule of thumb, or the model's own tokenizer
    return max(tokens, TOKENS / REQUESTS)


def main() -> None:
    """Ask 150 questions, short and long."""
    api, answers = Api(), dict[int, str]()

    async def ask(batch: list[Operation]) -> None:
        number, prompt = batch[0].payload
        try:
            answers[number] = await api.complete(prompt)
        except TooManyRequestsError as error:
            raise Throttled(retry_after=error.retry_after) from None

    watcher = Watcher(ask)
    began = time.monotonic()
    with Batcher(rate_limiter=ProvisionedResource(TOKENS, period=MINUTE)) as batcher:
        for number in range(150):
            prompt = "question? " * chance.choice([10, 50, 150])
            batcher.enqueue(Operation(watcher, cost(prompt), (number, prompt)))
    minutes = (time.monotonic() - began) / MINUTE
    print(f"{len(answers)} answers in {minutes:.1f} minutes, {api.refused} times 429")
    assert len(answers) == 150
    print("done")


if __name__ == "__main__":
    main()
