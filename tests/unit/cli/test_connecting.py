"""Messages that say where commands look are whole sentences, and end with what can be copied."""

from __future__ import annotations

import pytest

from dispatcher.cli._commands.connecting import naming_another
from dispatcher.cli._commands.missing import no_limit, no_topic, same_place
from dispatcher.cli._options.redis import REDIS, RedisOptions
from limiters.errors import DamagedLimitError, LeaseManagerError

ANOTHER = "Name another Redis: --redis URL, or the variable DISPATCHER_REDIS."


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("does it run, and on that port?", f"does it run, and on that port? {ANOTHER}"),
        ("allow it: ACL SETUSER me +get", f"allow it: ACL SETUSER me +get. {ANOTHER}"),
        ("it is away.", f"it is away. {ANOTHER}"),
    ],
)
def test_a_hint_begins_a_sentence_of_its_own(said: str, shown: str) -> None:
    assert str(naming_another(RedisOptions(), LeaseManagerError(said))) == shown


def test_there_is_none_where_the_user_has_named_a_redis_or_it_is_not_about_it() -> None:
    error, damaged = LeaseManagerError("away"), DamagedLimitError("a", "b", "it is damaged")
    assert naming_another(RedisOptions(redis="redis://db"), error) is error
    assert naming_another(RedisOptions(), damaged) is damaged


NOWHERE = "redis://127.0.0.1:1/0"
THERE = f"--redis {NOWHERE}"


def test_a_command_that_is_proposed_comes_last_and_quotes_the_name() -> None:
    elsewhere = RedisOptions(redis=NOWHERE)
    said = str(no_limit(REDIS, "my limit", elsewhere))
    assert said.endswith(f"or: dispatcher limit set 'my limit' --shared-capacity CAPACITY {THERE}")
    assert "under the prefix 'dispatcher'. The first of its instances" in said
    said = str(no_topic(REDIS, "my topic", elsewhere))
    create = "dispatcher timeline create 'my topic' --create-topic --group GROUP BODY"
    assert said.endswith(f"or: {create} {THERE}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ""),
        ({"prefix": "my shop"}, " --prefix 'my shop'"),
        ({"prefix": "shop", "redis": "redis://h/1"}, " --prefix shop --redis redis://h/1"),
        ({"redis": "redis://:secret@h/1"}, " --redis URL"),
        ({"redis": "rediss://h/1?ssl_password=secret"}, " --redis URL"),
    ],
)
def test_a_proposed_command_works_in_the_same_place(options: dict[str, str], said: str) -> None:
    assert same_place(RedisOptions(**options)) == said
