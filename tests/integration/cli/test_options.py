"""Where options come from, what is not there, and what never shows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest
from redis import Redis

import dispatcher
from dispatcher.cli._options.parser import Parser
from dispatcher.cli.main import command_line
from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases.redis import mark_as_new
from tests.commands import (
    PATIENCE,
    SECRET,
    Run,
    asks,
    hide,
    hold,
    outside,
    unsaid_redis,
)
from tests.servers.ports import own_port

# The environment, and what is not there


def test_options_fall_back_to_the_environment(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHER_PREFIX", "staging")
    monkeypatch.setenv("DISPATCHER_SHARED_CAPACITY", "500")
    monkeypatch.setenv("DISPATCHER_FACTOR", "50")
    monkeypatch.setenv("DISPATCHER_LIMIT_LEASE_TIME", "")
    monkeypatch.setenv("DISPATCHER_LEASE_TIME", "30")  # of a worker's messages
    assert run("limit", "set", "orders").code == 0
    told = run("limit", "show", "orders", "--json").json
    assert (told["shared_capacity"], told["factor"], told["lease_time"]) == (500, 50, 5)
    assert run("limit", "show", "orders", "--prefix", "dispatcher").code == 3
    assert "under the prefix 'dispatcher'" in run("leases", "orders", "--prefix=dispatcher").err


def test_a_bad_variable_is_named(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_FACTOR", "some")
    said = run("limit", "set", "orders", "--shared-capacity", "5")
    assert said.code == 2
    assert "DISPATCHER_FACTOR is 'some': not a number" in said.err
    monkeypatch.setenv("DISPATCHER_FACTOR", "-2")
    said = run("limit", "set", "orders", "--shared-capacity", "5")
    assert said.code == 2
    assert "--factor (from DISPATCHER_FACTOR) must be more than zero, not -2" in said.err
    assert run("limit", "set", "orders", "--shared-capacity", "5", "--factor", "1").code == 0


def test_an_option_counts_more_than_a_variable(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHER_REDIS", f"redis://127.0.0.1:{own_port()}")
    assert "refuses connections" in run("limit", "show", "orders").err
    assert "there is no limit" in run("limit", "show", "orders", "--redis", url).err


@pytest.mark.parametrize(
    "command",
    [
        ["limit", "show", "orders"],
        ["limit", "set", "orders", "--shared-capacity", "5"],
        ["limit", "delete", "orders", "--yes"],
        ["leases", "orders"],
        ["leases", "orders", "--watch", "1"],
        ["leases", "orders", "--evict", "a"],
    ],
)
def test_no_redis_is_one_line_that_says_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    unsaid_redis(monkeypatch, f"redis://127.0.0.1:{own_port()}/0")
    said = run(*command)
    assert (said.code, said.out, said.err.count("\n")) == (4, "", 1)
    assert "refuses connections; does it run, and on that port?" in said.err
    assert "--redis URL, or the variable DISPATCHER_REDIS" in said.err


def test_a_redis_that_is_silent_is_given_up(own_redis: EmbeddedRedis) -> None:
    own_redis.pause()
    said = outside("limit", "show", "orders", "--redis", own_redis.url)
    assert said.code == 4
    assert "does not answer in time" in said.err


def test_without_the_package_redis_it_says_what_to_install(tmp_path: Path) -> None:
    hide(tmp_path, "redis")
    said = outside("limit", "show", "orders", PYTHONPATH=str(tmp_path))
    assert said.code == 1
    assert said.err.endswith("pip install 'batch-dispatcher[redis]'\n")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["limit", "show", "orders"],
        ["limit", "show", "orders", "--json"],
        ["limit", "set", "orders", "--shared-capacity", "5"],
        ["leases", "orders"],
        ["leases", "orders", "--json"],
        ["leases", "orders", "--evict", "a"],
        ["leases", "orders", "--evict", "none"],
        ["limit", "delete", "orders"],
        ["limit", "delete", "orders", "--yes"],
        ["limit", "show", "nothing"],
        ["limit", "set", "orders", "--shared-capacity", "0"],
        ["--help"],
        ["limit", "show", "--help"],
        ["leases", "--help"],
        ["limit", "show", "URL"],
        ["leases", "orders", "--uri", "URL"],
        ["leases", "orders", "URL"],
        ["leases", "orders", "--evict", "URL"],
        ["leases", "orders", "--redis", "URL?socket_timeout=often"],
        ["leases", "orders", "--redis", "URL/zero"],
        ["leases", "orders", "--redis", "bad+URL"],
    ],
)
def test_a_password_shows_nowhere(
    run: Run, guarded: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    with (
        Redis.from_url(guarded.url) as client,
        closing(RedisLeaseManager(guarded.url, name="orders")) as manager,
    ):
        client.flushall()
        mark_as_new(client)
        hold(manager, asks("a", need=300, label="here:1"))
    for url in (guarded.url, guarded.url.replace("zq1", "zq5")):
        monkeypatch.setenv("DISPATCHER_REDIS", url)
        said = run(*(word.replace("URL", url) for word in command))
        assert said.out + said.err
        assert "zq" not in said.out + said.err


def test_where_a_password_belongs_is_printed_in_full(run: Run, guarded: EmbeddedRedis) -> None:
    said = run("limit", "show", "orders", "--redis", f"redis://127.0.0.1:{guarded.port}")
    assert "put it into the URL before the host, as :password@host" in said.err


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(password=SECRET) as server:
        yield server


# Help


def below(parser: Parser) -> Iterator[Parser]:
    for one in parser.fill().below.values():
        yield one
        yield from below(one)


@pytest.mark.parametrize("parser", list(below(command_line())), ids=lambda parser: str(parser.prog))
def test_help_of_each_command_teaches_with_an_example(run: Run, parser: Parser) -> None:
    said = run(*parser.prog.split()[1:], "--help")
    assert (said.code, said.err) == (0, "")
    assert parser.prog in said.out.partition("example")[2]
    assert "--config FILE" in said.out
    assert max(map(len, said.out.splitlines())) <= 101


def test_help_shows_the_commands_and_the_exit_codes(run: Run) -> None:
    said = run("--help")
    assert "exit codes: 0 done, 1 failed, 2 wrong usage, 3 not there" in said.out
    for command in command_line().fill().below:
        assert f"\n    {command} " in said.out


def test_the_package_is_a_program() -> None:
    command = [sys.executable, "-m", "dispatcher", "limt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("dispatcher: error: ")
    assert "did you mean limit?" in done.stderr


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        (">/dev/full", 1, "dispatcher: the output cannot be written: No space left on device\n"),
        (">&-", 0, ""),
        ("<&-", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_a_full_or_closed_output_is_no_traceback(where: str, code: int, said: str) -> None:
    command = f"{sys.executable} -m dispatcher completion bash {where}"
    done = subprocess.run(
        command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (code, said)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_into_a_full_or_closed_pipe_are_no_traceback(
    option: str, unbuffered: str
) -> None:
    command = [sys.executable, "-m", "dispatcher", option]
    variables = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    reader, unread = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, open(unread, "wb") as closed:
        for output, said in (
            (full, "dispatcher: the output cannot be written: No space left on device\n"),
            (closed, ""),
        ):
            done = subprocess.run(
                command, env=variables, stdout=output, stderr=subprocess.PIPE, check=False
            )
            assert (done.returncode, done.stderr.decode()) == (1, said)


def test_version(run: Run) -> None:
    assert run("--version").out == f"dispatcher {metadata.version('batch-dispatcher')}\n"


def test_the_version_of_files_that_are_not_installed_is_no_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.delattr(dispatcher, "__version__")

    monkeypatch.setattr(metadata, "version", missing)
    said = run("--version")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("dispatcher: there is no __version__: ")


def test_a_configuration_file_counts_less_than_a_variable(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(f'redis = "{url}"\n[limit.set]\nshared-capacity = 500\nfactor = 50\n')
    monkeypatch.delenv("DISPATCHER_REDIS")
    monkeypatch.setenv("DISPATCHER_FACTOR", "100")
    assert run("limit", "set", "orders", "--config", str(file)).code == 0
    monkeypatch.setenv("DISPATCHER_CONFIG", str(file))
    told = run("limit", "show", "orders", "--json").json
    assert (told["shared_capacity"], told["factor"]) == (500, 100)


def test_a_configuration_file_shows_no_password(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(f'redis = "redis://:zq1@127.0.0.1:{own_port()}/0"\n')
    said = run("limit", "show", "orders", "--config", str(file))
    assert "refuses connections" in said.err
    assert "zq" not in said.out + said.err


def test_help_imports_neither_redis_nor_rich() -> None:
    code = (
        "import sys; from dispatcher.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'redis', 'rich'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=PATIENCE)
