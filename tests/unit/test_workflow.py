"""The workflow of the hosted CI runs make targets, on the versions of Python that are supported."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import interpreters, programs

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())[
    "jobs"
]
RUN = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in JOBS.items()}


def test_each_step_is_a_target_that_make_help_lists() -> None:
    listed = set(re.findall(r'@echo "make (\w+)', MAKEFILE))
    steps = [step for steps in RUN.values() for step in steps]
    assert steps
    for step in steps:
        assert re.fullmatch(r"make \w+", step), step
        assert step.removeprefix("make ") in listed, step


def test_it_runs_all_that_a_change_must_pass() -> None:
    must = re.findall(r"^make \w+", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert {"make check", "make test"} <= set(must)
    assert set(must) <= {step for steps in RUN.values() for step in steps}


def test_it_leaves_no_test_out_for_a_program_that_is_missing() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["env"]["REQUIRE_PROGRAMS"]
    assert "export REQUIRE_PROGRAMS=1\n" in (ROOT / ".ci" / "run").read_text()
    script = (ROOT / ".ci" / "packages").read_text()
    assert set(programs.PROGRAMS) <= set(re.findall(r"missing\+=\(([\w-]+)\)", script))


def test_tests_with_servers_install_them_first() -> None:
    for steps in RUN.values():
        if {"make test", "make lowest", "make long"} & set(steps):
            assert steps[0] == "make packages"


def test_the_versions_of_python_are_those_of_pyproject() -> None:
    supported = interpreters.supported()
    assert JOBS["unit"]["strategy"]["matrix"]["python"] == supported + interpreters.later()
    assert JOBS["test"]["strategy"]["matrix"]["python"] == [supported[0], supported[-1]]
    single = {
        step["with"]["python-version"]
        for job in JOBS.values()
        for step in job["steps"]
        if "setup-python" in step.get("uses", "") and "matrix" not in step["with"]["python-version"]
    }
    assert single == {supported[0]}


def test_the_lowest_version_of_python_is_the_same_everywhere() -> None:
    lowest = interpreters.supported()[0]
    assert PROJECT["project"]["requires-python"] == f">={lowest}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{lowest.replace('.', '')}"
    assert f"sys.version_info < ({lowest.replace('.', ', ')})" in MAKEFILE
    for page in ("README.md", "CONTRIBUTING.md"):
        assert re.findall(r"Python (3\.\d+) or newer", (ROOT / page).read_text()) == [lowest]


def test_the_documents_state_the_supported_versions_of_python() -> None:
    *first, last = interpreters.supported()
    stated = f"Python {', '.join(first)} and {last}"
    for page in ("README.md", "docs/stability.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert re.findall(r"Python 3\.\d+, [\d., ]+ and 3\.\d+", text) == [stated], page


@pytest.mark.parametrize(
    ("requirement", "stated"),
    [("pyspark", r"\| Spark (\d\.\d+)"), ("redis", r"the package redis (\d\.\d+)")],
)
def test_the_documents_state_the_lowest_versions_that_pip_accepts(
    requirement: str, stated: str
) -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    needed = {
        found[0]
        for one in (one for extra in extras for one in extra)
        if (found := re.findall(rf"^{requirement}(?:\[\w+\])?>=(\d+\.\d+)", one))
    }
    assert set(re.findall(stated, (ROOT / "docs" / "stability.md").read_text())) == needed


def test_it_may_only_read() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert not [job for job in JOBS.values() if "permissions" in job]
