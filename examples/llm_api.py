"""An LLM's API that allows 60 requests and 12,000 tokens a minute (here a minute is a second).

Both are limits of their own: a call takes one request, and as many tokens as its prompt and the
longest answer asked for may have, which is estimated before it is sent. Where the estimate was too
low the API says 429 after all, and when to come again: nothing is lost, and until then no call is
made. A mail API is the same with a batch cost of one request and no tokens.
"""

import asyncio
import random
import time
from collections import deque

from dispatcher import Batcher, Operation, ProvisionedResource, Throttled, Watcher
from limiters import Limits, Rate

MINUTE, REQUESTS, TOKENS = 1.0, 60, 12_000
LONGEST_ANSWER = 100
chance = random.Random(7)


class TooManyRequestsError(Exception):
    """The API's 429."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after


class Api:
    """Stands for the API: counts requests and tokens of the last minute."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, int]] = deque()
        self.refused = 0

    async def complete(self, prompt: str) -> str:
        """An answer, some time later."""
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


def cost(prompt: str) -> dict[str, float]:
    """How many tokens a call may take."""
    return {"tokens": len(prompt) / 4 + LONGEST_ANSWER}  # or by the model's own tokenizer


def main() -> None:
    """Asks 150 questions, short and long."""
    api, answers = Api(), dict[int, str]()

    async def ask(batch: list[Operation]) -> None:
        number, prompt = batch[0].payload
        try:
            answers[number] = await api.complete(prompt)
        except TooManyRequestsError as error:
            raise Throttled(retry_after=error.retry_after) from None

    limits = Limits(requests=Rate(REQUESTS, per=MINUTE), tokens=Rate(TOKENS, per=MINUTE))
    watcher = Watcher(ask, batch_cost={"requests": 1})
    began = time.monotonic()
    with Batcher(rate_limiter=ProvisionedResource(limits)) as batcher:
        for number in range(150):
            prompt = "question? " * chance.choice([10, 50, 150])
            batcher.enqueue(Operation(watcher, cost(prompt), (number, prompt)))
    minutes = (time.monotonic() - began) / MINUTE
    print(f"{len(answers)} answers in {minutes:.1f} minutes, {api.refused} times 429")
    assert len(answers) == 150
    print("done")


if __name__ == "__main__":
    main()
