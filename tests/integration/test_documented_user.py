"""A user of Redis who may do no more than docs/shared.md says can do all that the docs promise."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from dispatcher.cli.main import main
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis

DOCUMENT = Path(__file__).parents[2] / "docs" / "shared.md"
LONG = 30.0


def documented() -> list[str]:
    found = re.search(r"ACL SETUSER dispatcher on >secret ([^`]*)", DOCUMENT.read_text("utf-8"))
    assert found
    return found[1].split()


@pytest.fixture
def url(own_redis: EmbeddedRedis, connect: Callable[[str], Redis]) -> str:
    """Database 1 of a server where only the documented user may do anything."""
    admin: Any = connect(own_redis.url)
    admin.execute_command("ACL", "SETUSER", "dispatcher", "on", ">secret", *documented())
    return f"redis://dispatcher:secret@127.0.0.1:{own_redis.port}/1"


def test_the_documented_user_may_share_change_look_at_and_delete_a_limit(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def dispatcher(*words: str) -> str:
        code = main([*words, "--redis", url])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    with SharedResource(
        shared_capacity=100, lease_manager=RedisLeaseManager(url, name="orders")
    ) as limiter:
        assert limiter.acquire(10, timeout=LONG)
        assert limiter.instance[:8] in dispatcher("leases", "orders")
        assert "1 % of the limit" in dispatcher("top", "orders", "--once")
        dispatcher("leases", "orders", "--evict", limiter.instance, "--yes")
        dispatcher("limit", "set", "orders", "--shared-capacity", "200", "--lease-time", "4")
        assert "200 a second" in dispatcher("limit", "show", "orders")
    dispatcher("limit", "delete", "orders", "--yes")  # what is left of it expires
    dispatcher("limit", "set", "orders", "--shared-capacity", "100")  # and is kept again
    dispatcher("limit", "delete", "orders", "--yes")
