"""Names of limits and topics, and keys that other programs have written: each name has keys of its
own, by which the exporter finds it, and a name that is shown does no harm to a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from dispatcher._discovery import Discovery
from dispatcher.cli._text.showable import printable, showable
from dispatcher.metrics._exposition import text_of
from dispatcher.metrics._names import CLUSTER_SKEW
from dispatcher.metrics.readings import Reading, Readings
from dispatcher.timeline._encoding.layout import Layout
from limiters._support.validation import ArgumentError, text
from limiters.leases._scripts import keys_of
from tests.fuzz.inputs import Input, of_blob


def check(data: bytes) -> None:
    given = Input(data)
    name, key = given.text(), given.blob().decode("utf-8", "replace")
    assert printable(name).isprintable()
    assert all(line.isprintable() for line in showable(name).split("\n"))
    found = Discovery("dispatcher")
    found._note([key])
    assert text_of(Readings(Reading(CLUSTER_SKEW, (it,), 1.0) for it in [*found.limits, name]))
    try:
        text("name", name)
    except ArgumentError:
        return
    _is_found(name)


def _is_found(name: str) -> None:
    own, topic = keys_of("dispatcher", name), Layout("dispatcher", name)
    assert all(key.count("{") == key.count("}") == 1 for key in own[:4])
    found = Discovery("dispatcher")
    found._note([own[0], topic.settings.decode()])
    assert found.limits == [name]
    assert found.topics == [name]


def seeds() -> Iterator[bytes]:
    for name in ("orders", "mails {eu}", "a/b%20\x1b[2J", "é\n", "\udcff"):
        yield of_blob(name) + of_blob(keys_of("dispatcher", "x")[0])
    yield of_blob("x") + of_blob("dispatcher:v1:{a%ff%2fb}:settings")
