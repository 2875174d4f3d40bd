"""Messages that say where commands look are whole sentences, and end with what can be copied."""

from __future__ import annotations

import pytest

from dispatcher.cli._commands.connecting import naming_another, no_limit, no_topic
from dispatcher.cli._options.redis import REDIS, LimitOptions, RedisOptions
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


def test_there_is_none_where_somebody_has_named_a_redis_or_it_is_not_about_it() -> None:
    error, damaged = LeaseManagerError("away"), DamagedLimitError("a", "b", "it is damaged")
    assert naming_another(RedisOptions(redis="redis://db"), error) is error
    assert naming_another(RedisOptions(), damaged) is damaged


def test_a_command_that_is_proposed_comes_last_and_quotes_the_name() -> None:
    said = str(no_limit(REDIS, LimitOptions(name="my limit")))
    assert said.endswith("or: dispatcher limit set 'my limit' --shared-capacity CAPACITY")
    assert f"under the prefix 'dispatcher'. {ANOTHER} The first of its instances" in said
    said = str(no_topic(REDIS, "my topic", RedisOptions()))
    assert said.endswith("dispatcher timeline create 'my topic' --new-topic --group GROUP BODY")
