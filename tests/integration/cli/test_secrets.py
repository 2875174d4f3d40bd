"""No command prints a password, wherever in the URL it stands."""

from __future__ import annotations

import pytest

from limiters._support.passwords import without_passwords
from limiters.embedded import EmbeddedRedis
from tests.commands import Run

SECRET = "s3cr3t w0rd"
PLACES = (
    "{there}?password={secret}",
    "{there}?ssl_password={secret}&health_check_interval=3",
    "{there}?nonsense={secret}",
    "{there}#{secret}",
    "redis+sentinel://127.0.0.1:1/service?sentinel_password={secret}",
    "redis://u:{secret}@127.0.0.1:1/0?password={secret}",
    "http://127.0.0.1/?password={secret}",
)
WORKER = ("--topic", "mails", "--limit", "orders", "--shared-capacity", "5")
COMMANDS = (
    ("worker", "json:dumps", *WORKER, "--check"),
    ("top", "orders", "--once"),
    ("top", "orders", "--once", "--json"),
    ("exporter", "--once"),
    ("leases", "orders"),
    ("limit", "show", "orders"),
    ("limit", "set", "orders", "--factor", "3"),
    ("limit", "delete", "orders", "--yes"),
    ("timeline", "stats", "mails"),
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("secret", [SECRET, SECRET.replace(" ", "%20"), "a@b?c=1;d,'e"])
def test_no_command_prints_a_password(
    shared_redis: EmbeddedRedis,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    place: str,
    secret: str,
) -> None:
    there = f"redis://127.0.0.1:{shared_redis.port}/0"
    monkeypatch.setenv("DISPATCHER_REDIS", place.format(there=there, secret=secret))
    said = run(*command)
    for part in (secret, secret[-4:]):
        assert part not in said.out + said.err


MISTYPED = (
    "redis//:{secret}@h",
    ":{secret}@h:6379",
    "{secret}:6379",
    "redis:/:{secret}@h",
    "redis://:{secret}",
    "redis://user:{secret}",
    "redis://h:{secret}",
    "redis://h/0&password={secret}",
    "redis://h/0;password={secret}",
    "redis://h;password={secret}/0",
    "redis://h/abc{secret}",
    "redis+sentinel://127.0.0.1:1/service&password={secret}",
    "unix:///nowhere.sock&password={secret}",
    "'redis://:{secret}@h'",
    "redis://:{secret}@127.0.0.1:1/0 ",
)


@pytest.mark.parametrize("place", MISTYPED)
def test_the_check_of_a_worker_shows_nothing_of_a_mistyped_url(
    run: Run, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("DISPATCHER_REDIS", place.format(secret="s3cr3t"))
    said = run("worker", "json:dumps", *WORKER, "--check")
    assert said.code
    assert "s3cr3t" not in said.out + said.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://h:1/0?a=b c", "redis://h:1/0?***"),
        ("in redis://h:1/0?a=b under x", "in redis://h:1/0?*** under x"),
        ("redis://u:p?x@h:1/0", "redis://***@h:1/0"),
        ("what? nothing", "what? nothing"),
        ("Delete all of redis://***@h:1/0? It has 3", "Delete all of redis://***@h:1/0? It has 3"),
    ],
)
def test_a_text_is_shown_without_what_is_secret_in_its_urls(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
