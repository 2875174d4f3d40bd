"""Completion in a real bash."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import COMMAND, PATIENCE, Run, hide, outside
from tests.terminals import Terminal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a program `dispatcher` on the path, which is this copy of it."""
    program = tmp_path / "bin" / "dispatcher"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (tmp_path / "shop.toml").touch()
    return tmp_path


def completed(script: str, *words: str, folder: Path) -> list[str]:
    """Return the completions of bash for the last of these words."""
    line = " ".join(words)
    said = subprocess.run(
        [
            "bash",
            "--norc",
            "-c",
            f"{script}\n"
            f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}\n"
            f"COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; COMP_TYPE=9\n"
            "complete -p dispatcher > /dev/null; _python_argcomplete dispatcher\n"
            'printf "%s\\n" "${COMPREPLY[@]-}"',
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stderr == ""
    return said.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["t"], ["timeline", "top"]),
        (["timeline", "d"], ["dead", "delete"]),
        (["timeline", "peek", "--st"], ["--state"]),
        (["timeline", "peek", "mails", "--state", "l"], ["lost"]),
        (["timeline", "peek", "mails", "--state=l"], ["lost"]),
        (["--config", "sh"], ["shop.toml"]),
        (["--config", "limit", "le"], ["leases"]),
        (["limit", "set", "--config=sh"], ["shop.toml"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["limit", ""], ["list", "show", "set", "delete"]),
        (["limit", "show", "--redis", ""], []),
        (["leases", "orders", "--w"], ["--watch"]),
        (["nothing", "t"], ["timeline", "top"]),
        (["worker", "--log"], ["--log-format", "--log-level"]),
        (["worker", "m:f", "--log-level", "W"], ["WARNING"]),
    ],
)
def test_bash_completes(run: Run, folder: Path, words: list[str], offered: list[str]) -> None:
    script = run("completion", "bash").out
    assert sorted(completed(script, "dispatcher", *words, folder=folder)) == sorted(offered)


def test_a_tab_in_a_real_bash(run: Run, folder: Path) -> None:
    path = folder / "completion.bash"
    path.write_text(run("completion", "bash").out)
    with Terminal(["/bin/bash", "--norc", "-i"], PS1="$ ") as terminal:
        terminal.type(f". {path}; echo re''ady\n")
        terminal.read_until("ready")
        terminal.type("dispatcher timel\t")
        terminal.read_until("dispatcher timeline ")
        terminal.type("hist\t")
        terminal.read_until("histogram ")


def test_another_shell_is_wrong_usage(run: Run) -> None:
    said = run("completion", "ksh")
    assert said.code == 2
    assert "invalid choice: 'ksh'" in said.err


def test_completion_needs_neither_redis_nor_rich() -> None:
    code = (
        "import sys; from dispatcher.cli.main import main\n"
        "assert main(['completion', 'zsh']) == 0\n"
        "assert not {'redis', 'rich'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=PATIENCE)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(run: Run, shell: str) -> None:
    said = run("completion", shell)
    assert (said.code, said.err) == (0, "")
    assert "dispatcher" in said.out


def test_without_argcomplete_it_says_what_to_install(tmp_path: Path) -> None:
    hide(tmp_path, "argcomplete")
    said = outside("completion", "bash", PYTHONPATH=f"{tmp_path}:{os.getcwd()}")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.endswith("pip install 'batch-dispatcher[cli]'\n")
