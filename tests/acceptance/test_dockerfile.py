"""The Dockerfile of a worker: no engine is at hand, but each of its lines can be held against what
there is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from limiters.embedded import EmbeddedRedis
from tests.processes import ROOT

PATH = "examples/docker/Dockerfile"


def lines_of(path: str) -> list[tuple[str, str]]:
    written = (ROOT / path).read_text().replace("\\\n", "").splitlines()
    parted = [line.split(maxsplit=1) for line in written if line and not line.startswith("#")]
    return [(instruction, rest) for instruction, rest in parted]


LINES = lines_of(PATH)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def of(instruction: str) -> list[str]:
    return [rest for name, rest in LINES if name == instruction]


def test_its_python_is_a_tested_one() -> None:
    (image,) = of("FROM")
    version = image.removeprefix("python:").removesuffix("-slim")
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_it_runs_as_a_user_that_is_not_root() -> None:
    (user,) = of("USER")
    assert all(int(number) > 0 for number in user.split(":"))
    names = [name for name, _ in LINES]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name == "RUN")


@pytest.mark.parametrize("path", [PATH, "grafana/Dockerfile"])
def test_what_it_installs_is_there_before_and_has_these_extras(path: str) -> None:
    lines = lines_of(path)
    (install,) = [rest for name, rest in lines if name == "RUN"]
    extras = re.findall(r'"/build\[([a-z,]+)\]"', install)[0].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    before = " ".join(
        rest for name, rest in lines[: lines.index(("RUN", install))] if name == "COPY"
    )
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = packages["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    made_by = ["pyproject.toml", "hatch_build.py", "README.md", *PROJECT["license-files"]]
    assert {*made_by, *wheel} <= set(before.split())


def test_what_it_runs_would_work(tmp_path: Path) -> None:
    """With what it copies, and nothing else of this project."""
    (work,) = of("WORKDIR")
    for paths in of("COPY"):
        *sources, target = paths.split()
        place = tmp_path / Path(work, target).relative_to("/")
        for source in map(ROOT.joinpath, sources):
            if source.is_dir():
                shutil.copytree(source, place)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, place)
    (entry,), (command,) = of("ENTRYPOINT"), of("CMD")
    assert json.loads(entry) == ["dispatcher"]
    assert PROJECT["scripts"]["dispatcher"] == "dispatcher.__main__:program"
    (port,) = of("EXPOSE")
    assert f"--metrics-port={port}" in json.loads(command)
    with EmbeddedRedis() as redis:
        checked = subprocess.run(
            [sys.executable, "-P", "-m", "dispatcher", *json.loads(command), "--check"],
            cwd=tmp_path / "work",
            env={
                **os.environ,
                "PYTHONPATH": str(tmp_path / "build"),  # what is installed
                "DISPATCHER_REDIS": redis.url,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_who_names_it_finds_it() -> None:
    for page in ("worker.md", "kubernetes.md"):
        assert f"](../{PATH})" in (ROOT / "docs" / page).read_text()
    (tag,) = re.findall(rf"docker build --file {PATH} --tag (\w+) \.", (ROOT / PATH).read_text())
    assert f"docker build --file {PATH} --tag {tag} ." in (ROOT / "docs" / "worker.md").read_text()
