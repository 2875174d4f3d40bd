"""The scripts inside Redis answer and store the same as the coordinator in Python, over random
histories of requests, operators and failures. `make twins` plays more of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from limiters.embedded import EmbeddedRedis
from limiters.leases._format import MAX_INSTANCES, MAX_NAMES, QUEUE_LENGTH
from tests.samples import sample
from tests.twins.history import HISTORIES, History
from tests.twins.stores import Scripts

SEEDS = {"short": 20, "contention": 2, "bounds": 4, "settled": 4}
"""The number of histories in a batch, if it is not one."""


@pytest.fixture
def scripts(shared_redis: EmbeddedRedis) -> Iterator[Scripts]:
    with Redis.from_url(shared_redis.url) as client:
        yield Scripts(client)


@pytest.mark.parametrize("batch", sample(range(5), every=3))
@pytest.mark.parametrize("kind", HISTORIES)
def test_scripts_answer_and_store_the_same_as_the_reference(
    scripts: Scripts, kind: str, batch: int
) -> None:
    each = SEEDS.get(kind, 1)
    for seed in range(batch * each, (batch + 1) * each):
        assert HISTORIES[kind](scripts, seed) > 0


def test_long_queue_keeps_the_same_instances(scripts: Scripts) -> None:
    for seed in range(3):
        history = History(scripts, seed, compare_every=10)
        history.crowd(70, rounds=4)
        assert history.longest == QUEUE_LENGTH


@pytest.mark.parametrize("seed", range(10))
def test_scripts_and_reference_agree_if_there_is_no_room(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("limiters.leases._coordinator.coordinator.MAX_INSTANCES", 3)
    monkeypatch.setattr("limiters.leases._coordinator.state.MAX_NAMES", 1)

    def with_little_room(source: str) -> str:
        for name, most, few in (
            ("MAX_INSTANCES", MAX_INSTANCES, 3),
            ("MAX_NAMES", MAX_NAMES, 1),
        ):
            assert f"local {name} = {most}\n" in source
            source = source.replace(f"local {name} = {most}\n", f"local {name} = {few}\n")
        return source

    with Redis.from_url(shared_redis.url) as client:
        assert HISTORIES["short"](Scripts(client, with_little_room), seed) > 0
