"""The library can be imported where there is no fork and none of what comes with it."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import asyncio, multiprocessing.util, os, select, signal, socket, subprocess, sys, time
# That of the standard library is not what is tried here.

def hide(module, *names):
    for name in names:
        vars(module).pop(name, None)

for module in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[module] = None  # so importing it fails
hide(os, "chown", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid",
     "getgroups", "getloadavg", "getpgid", "getpgrp", "getsid", "getuid", "initgroups",
     "killpg", "lchown", "mkfifo", "nice", "openpty", "pipe2", "posix_fadvise",
     "posix_fallocate", "posix_spawn", "posix_spawnp", "pread", "pwrite", "readv",
     "register_at_fork", "sched_getaffinity", "sched_yield", "sendfile", "setgid", "setpgid",
     "setsid", "setuid", "sync", "sysconf", "wait", "wait3", "wait4", "waitid", "writev",
     "O_CLOEXEC", "O_SYNC", "WNOHANG")
hide(signal, *(name for name in dir(signal) if name.startswith("SIG") and name not in (
    "SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN")))
hide(signal, "alarm", "getitimer", "pause", "pthread_kill", "pthread_sigmask", "setitimer",
     "siginterrupt", "sigpending", "sigtimedwait", "sigwait", "sigwaitinfo")
hide(select, "epoll", "kqueue", "poll")
hide(socket, "AF_UNIX", "MSG_DONTWAIT", "MSG_NOSIGNAL", "SOCK_CLOEXEC", "SOCK_NONBLOCK",
     "recv_fds", "send_fds")
hide(time, "clock_getres", "clock_gettime", "tzset",
     *(name for name in dir(time) if name.startswith("CLOCK_")))
"""
"""Modules and functions that the standard library has on POSIX only (`Availability: Unix`)."""

EVERYTHING = """
import dispatcher, importlib, limiters, pkgutil, sys

found = 0
for top in (dispatcher, limiters):
    for module in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
        if module.name.endswith("__main__") or module.name.startswith("dispatcher.spark"):
            continue  # programs; what needs pyspark
        imported = importlib.import_module(module.name)
        [getattr(imported, name) for name in dir(imported)]
        found += 1
print(found)
"""

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
from dispatcher.cli.main import main
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

sys.stderr = sys.stdout
worker = ["worker", "builtins:print", "--topic", "mail", "--processes", "2"]
worker += ["--shared-capacity", "10"]
assert main(worker) == 2
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_imported_where_there_is_no_fork() -> None:
    assert int(run(EVERYTHING)) > 200


def test_a_batcher_and_the_command_line_work_where_there_is_no_fork() -> None:
    assert "dispatcher" in run(USED)


def test_what_cannot_work_there_says_so_when_it_is_used() -> None:
    said = run(REFUSED).splitlines()
    assert [line.partition(",")[0] for line in said] == [
        "this system cannot lock files (no fcntl)",
        "this system cannot lock files (no fcntl)",
        "a Redis server is embedded by means of /bin/sh",
        "dispatcher: --processes needs sockets of Unix",
    ]
