"""`make twins` plays histories, notes them, and names one in which the two coordinators differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from limiters.embedded import EmbeddedRedis
from tests import reproduce
from tests.simulation import seeds, trials
from tests.twins import __main__ as program
from tests.twins.history import HISTORIES, DifferenceError
from tests.twins.stores import Scripts


def test_it_notes_what_it_has_played_and_goes_on_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "histories.tsv"
    words = ["twins", "--minutes", "0.001", "--history", "queue", "--file", str(path)]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr(trials, "version", lambda paths: "abc")
    assert [program.main(), program.main()] == [0, 0]
    blocks = seeds.read(path)
    assert [block.first for block in blocks] == [10 * at for at in range(len(blocks))]
    assert len(blocks) >= 2
    assert all(block.judged > 100 and not block.failed for block in blocks)
    assert "requests, none failed" in capsys.readouterr().out


DIFFERENT = {
    "an answer": ("permit_cost = one.permit_cost,", "permit_cost = one.permit_cost + 1,"),
    "what is stored": ("record.interval = limit.now,", "record.interval = limit.now + 1,"),
    "the last bit of a product": (
        "bound.stayed * (1 - part)",
        "bound.stayed - bound.stayed * part",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_is_found(shared_redis: EmbeddedRedis, what: str) -> None:
    before, after = DIFFERENT[what]
    changed = []

    def change(source: str) -> str:
        changed.append(before in source)
        return source.replace(before, after)

    with Redis.from_url(shared_redis.url) as client:
        scripts = Scripts(client, change)
        assert any(changed)
        with pytest.raises(DifferenceError, match="in Lua"):
            play(scripts, seeds=20)


def play(scripts: Scripts, seeds: int) -> None:
    for seed in range(seeds):
        HISTORIES["contention"](scripts, seed)


def test_a_history_can_be_played_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce.main(["history", "queue", "3"]) == 0
    assert "requests answered alike" in capsys.readouterr().out

    def differs(scripts: Scripts, seed: int) -> int:
        raise DifferenceError(f"seed {seed}, .units: 1 in Python, 2 in Lua")

    monkeypatch.setitem(HISTORIES, "queue", differs)
    assert reproduce.main(["history", "queue", "3"]) == 1
    assert "queue, seed 3, .units" in capsys.readouterr().out
