"""The permissions that a user of Redis needs are declared once for each kind of use; the scripts
and the documents agree with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from dispatcher.metrics._cluster import cluster
from dispatcher.registration.stores import redis as gates
from dispatcher.spark._ledger import claims
from dispatcher.spark._task import progress
from dispatcher.timeline._server import server
from limiters._redis.acl import CLUSTER, Needs
from limiters.leases import redis as leases

ROOT = Path(__file__).parents[2]


class Kind(NamedTuple):
    """A kind of use of Redis."""

    user: str
    """Its name in the documents."""
    page: str
    needs: Needs
    scripts: str | None = None
    """The folder of its scripts."""
    sent: str = ""
    """Commands that Python sends, in addition to those of the scripts."""


KINDS = (
    Kind("dispatcher", "shared", leases.NEEDS, "limiters/leases/lua"),
    Kind("exporter", "metrics", cluster.NEEDS),
    Kind(
        "worker",
        "timeline",
        server.NEEDS,
        "dispatcher/timeline/_server/lua",
        "info subscribe unsubscribe wait",
    ),
    Kind("gate", "registration", gates.NEEDS, "dispatcher/registration/stores/lua", "del"),
    Kind("sink", "spark", claims.NEEDS, "dispatcher/spark/_ledger/lua", "get hmget pexpire set"),
    Kind("backfill", "spark", progress.NEEDS),
)
NOT_FOR_USERS = {"limit_mark.lua"}
"""A server that was just started is marked by its starter, who may do anything."""


def commands_in(folder: Path) -> set[str]:
    """All commands that scripts of `folder` call."""
    found: set[str] = set()
    for path in folder.glob("*.lua"):
        if path.name not in NOT_FOR_USERS:
            for called in re.findall(r"redis\.p?call\(([^,)]+)", path.read_text("utf-8")):
                names = re.findall(r"'([A-Z]+)'", called)
                assert names, f"{path.name} calls a command that a variable names: {called}"
                found |= set(map(str.lower, names))
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.user)
def test_c11_the_documents_and_the_errors_name_the_same_commands(kind: Kind) -> None:
    page = (ROOT / "docs" / f"{kind.page}.md").read_text("utf-8")
    shown = re.findall(rf"ACL SETUSER {kind.user} on >secret ([^`]*)", page)
    assert [sorted(one.split()) for one in shown] == [
        sorted(kind.needs.rules("dispatcher").split())
    ]


@pytest.mark.parametrize("kind", [one for one in KINDS if one.scripts], ids=lambda kind: kind.user)
def test_c11_what_is_declared_is_what_the_scripts_call(kind: Kind) -> None:
    called = commands_in(ROOT / (kind.scripts or "")) | {"eval", "evalsha", *kind.sent.split()}
    assert {command.removeprefix("+") for command in kind.needs.commands.split()} == called


def test_the_documents_name_no_other_users_and_what_a_cluster_needs() -> None:
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert set(re.findall(r"ACL SETUSER (\S+)", pages)) == {kind.user for kind in KINDS}
    assert CLUSTER in pages
