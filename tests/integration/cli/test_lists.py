"""`limit list` and `timeline list`: all limits and topics, for users without a name."""

from __future__ import annotations

import json

import pytest
from redis import Redis

from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from limiters.leases._scripts import keys_of
from tests.commands import Run, asks, hold, make, unsaid_redis
from tests.servers.ports import own_port


def test_limits_are_listed_with_what_is_held(
    run: Run, manager: RedisLeaseManager, url: str
) -> None:
    hold(manager, asks("a", need=300, label="here:1"))
    make(RedisLeaseManager(url, name="mails"), 77)
    said = run("limit", "list")
    assert (said.code, said.err) == (0, "")
    titles, mails, orders = said.out.splitlines()
    assert titles.split() == ["limit", "capacity", "held", "instances"]
    assert mails.startswith("mails   77 in 0.05 s")
    assert orders.startswith("orders  1,000 in 0.05 s")
    assert orders.endswith("1")
    told = json.loads(run("limit", "list", "--json").out)
    shown = run("limit", "show", "orders", "--json").json
    assert [it["name"] for it in told] == ["mails", "orders"]
    assert set(told[1]) == set(shown)


def test_a_damaged_limit_does_not_hide_the_others(run: Run, url: str) -> None:
    for name in ("mails", "orders"):
        make(RedisLeaseManager(url, name=name))
    with Redis.from_url(url) as client:
        client.hset(keys_of("dispatcher", "mails")[0], "header", b"damaged")
    mails, orders = run("limit", "list").out.splitlines()[1:]
    assert "unreadable: limit show says why" in mails
    assert "1,000 in 0.05 s" in orders
    told = json.loads(run("limit", "list", "--json").out)
    assert "is damaged" in told[0]["error"]


def test_topics_are_listed_with_what_is_due(run: Run, url: str) -> None:
    Timeline(url, "mails").producer("us").create([Message(n) for n in range(12)])
    Timeline(url, "later").producer("us").create([Message(1, delay=3_600)])
    said = run("timeline", "list")
    assert (said.code, said.err) == (0, "")
    titles, later, mails = said.out.splitlines()
    assert titles.split() == ["topic", "due", "late", "waiting", "processing", "dead", "consumers"]
    assert later.split() == ["later", "0", "-", "1", "0", "0", "0"]
    assert mails.endswith("no consumer is running")
    told = json.loads(run("timeline", "list", "--json").out)
    assert [(it["topic"], it["new"], it["remaining"]) for it in told] == [
        ("later", 0, 1),
        ("mails", 12, 12),
    ]


@pytest.mark.parametrize(("group", "kind"), [("limit", "limit"), ("timeline", "topic")])
def test_where_there_is_none_it_says_where_it_looked(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch, group: str, kind: str
) -> None:
    said = run(group, "list", "--prefix", "shop")
    assert said.code == 0
    assert said.out.startswith(f"there is no {kind} in redis://127.0.0.1:")
    assert "under the prefix 'shop'" in said.out
    assert run(group, "list", "--json").json == []
    unsaid_redis(monkeypatch, f"redis://127.0.0.1:{own_port()}/0")
    said = run(group, "list")
    assert (said.code, said.out, said.err.count("\n")) == (4, "", 1)
    assert "refuses connections; does it run, and on that port? Name another Redis" in said.err


def test_a_typo_is_answered_with_the_names_that_there_are(
    run: Run, manager: RedisLeaseManager, url: str
) -> None:
    for name in ("orders", "stock"):
        make(RedisLeaseManager(url, name=name))
    Timeline(url, "mails", prefix="shop").producer("us").create([Message("a")])
    assert "; did you mean 'orders'? The first" in run("limit", "show", "ordres").err
    assert "; there are orders, stock. The first" in run("leases", "mails").err
    assert "under the prefix 'dispatcher'. Its first" in run("timeline", "stats", "mials").err
    told = run("timeline", "stats", "mials", "--prefix", "shop").err
    assert "; did you mean 'mails'? Its first" in told
    command = told.rpartition("or: ")[2].replace("GROUP BODY", "us hello").split()
    assert command[-4:] == ["--prefix", "shop", "--redis", url]
    assert run(*command[1:]).out == "1 created\n"
    assert run("timeline", "stats", "mials", "--prefix", "shop").code == 0
