"""python -m tests.interpreters [PYTHON ...]: the unit tests on each interpreter.

Each has an environment of its own, `.venv-3.12` for example, with what is light: all but Spark, a
server, and the tools. Without arguments: all versions from pyproject.toml that are found, on the
PATH or by pyenv; one that is not found is named.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ["--editable", ".[cli,redis,metrics]", "--group", "test", "--group", "dashboards"]
WITHOUT_SPARK = [
    "--ignore=tests/unit/spark",
    "--ignore=tests/unit/test_errors.py",
    "--ignore=tests/unit/test_error_tree.py",
    "--ignore=tests/unit/test_rights.py",
    "-k=not dispatcher.spark",
]
"""The package dispatcher.spark cannot be imported there."""


def supported(project: Path = ROOT / "pyproject.toml") -> list[str]:
    """The versions that pyproject.toml names.

    >>> supported()
    ['3.11', '3.12', '3.13']
    """
    classifiers = tomllib.loads(project.read_text())["project"]["classifiers"]
    return re.findall(r"Python :: (3\.\d+)\b", "\n".join(classifiers))


def version(program: str) -> str | None:
    """The version of an interpreter that can be run, such as "3.12"."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None  # a shim of pyenv says on stderr that it is not activated


def candidates(name: str, pyenv: Path) -> list[str]:
    """Where an interpreter of that name may be.

    >>> candidates("/usr/bin/python3", Path("/nowhere"))
    ['/usr/bin/python3']
    """
    found = [path] if (path := shutil.which(name)) else []
    return found + [str(one) for one in sorted(pyenv.glob(f"versions/*/bin/{Path(name).name}"))]


def find(name: str) -> str | None:
    """The first one that can be run."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return next((one for one in candidates(name, pyenv) if version(one)), None)


def environment(program: str) -> Path:
    """Make it, or, if pyproject.toml has changed since, install again; return its interpreter."""
    place = ROOT / f".venv-{version(program)}"
    python, installed = place / "bin" / "python", place / ".installed"
    if installed.exists() and installed.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime:
        return python
    print(f"installing into {place.name}, once ...", flush=True)
    subprocess.run([program, "-m", "venv", place], check=True)
    for what in (["pip>=25.1"], EXTRAS):
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", *what], cwd=ROOT, check=True)
    installed.touch()
    return python


def test(program: str) -> bool:
    """Whether all pass."""
    pytest = [str(environment(program)), "-m", "pytest", "--numprocesses", "auto"]
    command = [*pytest, *WITHOUT_SPARK, "tests/unit"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main(names: Sequence[str]) -> int:
    """The exit code: 1 if a test failed, or a named interpreter is missing."""
    wanted = names or [f"python{one}" for one in supported()]
    results = {}
    for name in wanted:
        program = find(name)
        print(f"{name}: {program or 'not found'}", flush=True)
        results[name] = "not found" if program is None else "passed" if test(program) else "FAILED"
    print("unit tests: " + ", ".join(f"{name} {result}" for name, result in results.items()))
    bad = {"FAILED", "not found"} if names else {"FAILED"}
    return int(bool(bad & set(results.values())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
