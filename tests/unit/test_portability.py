"""The library can be imported where there is no fork and none of what comes with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import os, signal, socket, sys

for module in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[module] = None  # so importing it fails
for name in ("fork", "register_at_fork", "getuid", "geteuid", "killpg", "setsid", "waitid"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGCHLD", "SIGALRM"):
    delattr(signal, name)
del socket.AF_UNIX
"""

IMPORTED = [
    *("limiters", "limiters.embedded", "limiters.leases", "limiters.testing", "limiters.verifier"),
    *("dispatcher", "dispatcher.builders", "dispatcher.cli.main", "dispatcher.metrics"),
    *("dispatcher.registration", "dispatcher.report", "dispatcher.senders", "dispatcher.testing"),
    *("dispatcher.timeline", "dispatcher.worker"),
]

USED = """
from dispatcher import Batcher, Operation, ProvisionedResource, Watcher
from dispatcher.cli.main import main

sent = []
with Batcher(rate_limiter=ProvisionedResource(1000)) as batcher:
    batcher.enqueue(Operation(Watcher(sent.extend), 1, None))
assert len(sent) == 1
sys.exit(main(["--version"]))
"""


REFUSED = """
import tempfile
from pathlib import Path
from dispatcher.registration import EntityStoreError, SqliteEntityStore
from dispatcher.registration.early_log import EarlyMessageLog
from limiters.embedded import EmbeddedRedis
from limiters.errors import ServerNotFoundError

Path.exists = lambda path: str(path) != "/bin/sh"
with tempfile.TemporaryDirectory() as directory:
    for make, error in (
        (lambda: EarlyMessageLog(directory, max_bytes=1000, max_age=1), EntityStoreError),
        (lambda: SqliteEntityStore(Path(directory) / "entities").load(), EntityStoreError),
        (lambda: EmbeddedRedis().start(), ServerNotFoundError),
    ):
        try:
            make()
        except error as raised:
            print(raised)
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", IMPORTED)
def test_a_module_is_imported_where_there_is_no_fork(module: str) -> None:
    run(f"import {module}\n[getattr({module}, name) for name in dir({module})]")


def test_a_batcher_and_the_command_line_work_where_there_is_no_fork() -> None:
    assert "dispatcher" in run(USED)


def test_what_cannot_work_there_says_so_when_it_is_used() -> None:
    said = run(REFUSED).splitlines()
    assert [line.partition(",")[0] for line in said] == [
        "files cannot be locked here",
        "files cannot be locked here",
        "a Redis server is embedded by means of /bin/sh",
    ]
