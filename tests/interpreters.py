"""python -m tests.interpreters [PYTHON ...]: the unit tests on each interpreter.

Each has an environment of its own, `.venv-3.12` for example, with what is light: all but Spark, a
server, and the tools. Without arguments: all versions from pyproject.toml that are found, on the
PATH or by pyenv; one that is not found is named. pyproject.toml is the one list of versions: its
classifiers are what is supported, `later` in [tool.interpreters] what only the hosted CI tries.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.loop import ending

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


class UnusableError(ValueError):
    """An interpreter that was named cannot run the tests."""


def oldest(project: Path = ROOT / "pyproject.toml") -> str:
    """The version that pyproject.toml requires.

    >>> oldest()
    '3.11'
    """
    requires = tomllib.loads(project.read_text())["project"]["requires-python"]
    return str(requires).removeprefix(">=")


def supported(project: Path = ROOT / "pyproject.toml") -> list[str]:
    """The versions that pyproject.toml names.

    >>> supported()
    ['3.11', '3.12', '3.13']
    """
    classifiers = tomllib.loads(project.read_text())["project"]["classifiers"]
    return re.findall(r"Python :: (3\.\d+)\b", "\n".join(classifiers))


def later(project: Path = ROOT / "pyproject.toml") -> list[str]:
    """The versions that are tried and not yet supported.

    >>> later()
    ['3.14']
    """
    tools = tomllib.loads(project.read_text())["tool"]
    return list(tools["interpreters"]["later"])


def version(program: str) -> str | None:
    """The version of an interpreter that can be run, such as "3.12"."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    told = done.stdout.strip()  # a shim of pyenv says on stderr that it is not activated
    return told if re.fullmatch(r"\d+\.\d+", told) else None


def candidates(name: str, pyenv: Path) -> list[str]:
    """Where an interpreter of that name may be.

    >>> candidates("/usr/bin/python3", Path("/nowhere"))
    ['/usr/bin/python3']
    """
    found = [path] if (path := shutil.which(name)) else []
    if os.sep in name:
        return found
    return found + [str(one) for one in sorted(pyenv.glob(f"versions/*/bin/{Path(name).name}"))]


def find(name: str) -> str | None:
    """The first one that can be run; UnusableError if none of them can, or if it is too old."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    programs = candidates(name, pyenv)
    found = next(((one, is_a) for one in programs if (is_a := version(one))), None)
    if found is None:
        if programs and not any("shims" in Path(one).parts for one in programs):
            raise UnusableError(f"{programs[0]} is not a Python interpreter that can be run")
        return None
    program, is_a = found
    if _numbers(is_a) < _numbers(oldest()):
        raise UnusableError(f"{program} is Python {is_a}; {oldest()} or newer is needed")
    return program


def newest() -> str:
    """The newest of the supported ones that is found, or else this one."""
    for name in reversed(supported()):
        if found := find(f"python{name}"):
            return found
    return sys.executable


def _numbers(version: str) -> list[int]:
    return [int(one) for one in version.split(".")]


def environment(program: str) -> Path:
    """Make it, or, if pyproject.toml has changed since, install again; return its interpreter."""
    place = ROOT / f".venv-{version(program)}"
    python, installed = place / "bin" / "python", place / ".installed"
    if installed.exists() and installed.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime:
        return python
    print(f"installing into {place.name}, once ...", flush=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    for command in ([program, "-m", "venv", str(place)], [*pip, "pip>=25.1"], [*pip, *EXTRAS]):
        # Interrupted by SIGINT, `venv` would print a traceback.
        if code := ending.run(command, cwd=ROOT, by=signal.SIGTERM):
            told = " ".join(command)
            raise UnusableError(f"{program}: exit code {code} of: {told}")
    installed.touch()
    return python


def test(program: str) -> bool:
    """Whether the tests pass on all interpreters."""
    pytest = [str(environment(program)), "-m", "pytest", "--numprocesses", "auto"]
    command = [*pytest, *WITHOUT_SPARK, "tests/unit"]
    return ending.run(command, cwd=ROOT) == 0


def result(name: str) -> str:
    """The result of the tests on the interpreter of that name."""
    try:
        program = find(name)
        print(f"{name}: {program or 'not found'}", flush=True)
        if program is None:
            return "not found"
        return "passed" if test(program) else "FAILED"
    except UnusableError as error:
        print(error, file=sys.stderr, flush=True)
        return "NOT RUN"


def main(names: Sequence[str]) -> int:
    """The exit code: 1 if a test failed, or a named interpreter is missing or cannot be used."""
    wanted = names or [f"python{one}" for one in supported() + later()]
    results = {name: result(name) for name in wanted}
    print("unit tests: " + ", ".join(f"{name} {became}" for name, became in results.items()))
    good = {"passed"} if names else {"passed", "not found"}
    return int(not good.issuperset(results.values()))


if __name__ == "__main__":
    sys.exit(ending.guarded(lambda: main(sys.argv[1:])))
