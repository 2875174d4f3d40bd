"""Completion in a real bash."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import PATIENCE, Run
from tests.terminals import Terminal


def completed(script: str, *words: str, folder: Path) -> list[str]:
    """What bash offers for the last of the words."""
    said = subprocess.run(
        [
            "bash",
            "--norc",
            "-c",
            f"{script}\n"
            f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}\n"
            "complete -p dispatcher > /dev/null; _dispatcher\n"
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
        (["timeline", "peek", "mails", "--state", "=", "l"], ["lost"]),
        (["--config", "sh"], ["shop.toml"]),
        (["--config", "limit", "le"], ["leases"]),
        (["limit", "set", "--config", "=", "sh"], ["shop.toml"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["limit", ""], ["show", "set", "delete"]),
        (["limit", "show", "--redis", ""], []),
        (["leases", "orders", "--w"], ["--watch"]),
        (["nothing", ""], ["demo", "limit", "leases", "timeline", "top", "completion"]),
    ],
)
def test_bash_completes(run: Run, tmp_path: Path, words: list[str], offered: list[str]) -> None:
    (tmp_path / "shop.toml").touch()
    script = run("completion", "bash").out
    found = completed(script, "dispatcher", *words, folder=tmp_path)
    assert [word for word in found if word in offered] == offered
    assert set(found) <= set(offered) or not offered or words == ["nothing", ""]
    assert bool(found) == bool(offered)


def test_a_tab_in_a_real_bash(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "completion.bash"
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
