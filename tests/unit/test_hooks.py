"""The hooks before a commit run the tools that `make check` runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
HOOKS = [
    hook
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]


def test_each_hook_runs_a_tool_of_the_environment() -> None:
    tools = {requirement.partition(">")[0] for requirement in GROUPS["check"]}
    commands = [hook["entry"].split()[0] for hook in HOOKS]
    assert all(command.startswith(".venv/bin/") for command in commands)
    assert {command.removeprefix(".venv/bin/") for command in commands} <= tools


def test_each_hook_but_that_of_the_documents_is_part_of_make_check() -> None:
    check = (ROOT / "Makefile").read_text().partition("\ncheck: ")[2].partition("\n\n")[0]
    names = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in HOOKS}
    assert {name for name in names if f"$(BIN)/{name}" not in check} == {"typos"}
