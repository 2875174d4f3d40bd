"""Tools that are ended leave nothing behind, and what they cannot do they say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loop import lines
from tests.loop.cores import cores
from tests.samples import sample
from tests.servers import pypi_java
from tests.simulation import seeds
from tests.waiting import until

ROOT = Path(__file__).parents[2]
COMPARE = [sys.executable, "-m", "benchmarks.compare"]
STORMS = [sys.executable, "-m", "tests.simulation"]


def children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def plays(pid: int) -> bool:
    """Whether a process has computed for more than a tenth of a second."""
    try:
        name, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except FileNotFoundError:
        return False
    return "git" not in name and int(fields.split()[11]) > os.sysconf("SC_CLK_TCK") // 10


@pytest.mark.parametrize("end", sample([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], every=3))
def test_a_comparison_that_is_ended_removes_its_clones(tmp_path: Path, end: signal.Signals) -> None:
    variables = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([*COMPARE, "HEAD"], cwd=ROOT, env=variables) as comparison:
        until(lambda: list(tmp_path.glob("compare-*/head/benchmarks")), within=90)
        comparison.send_signal(end)
        assert comparison.wait(90) == 130
    assert not list(tmp_path.glob("compare-*"))


@pytest.mark.parametrize("end", sample([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], every=3))
def test_storms_that_are_ended_end_their_processes_and_say_so(
    tmp_path: Path, end: signal.Signals
) -> None:
    file = tmp_path / "storms.tsv"
    command = [*STORMS, "--storm", "returns", "--file", str(file)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as storms:
        until(lambda: sum(map(plays, children(storms.pid))) == cores(), within=90)
        pids = children(storms.pid)
        storms.send_signal(end)
        said, _ = storms.communicate(timeout=90)
    assert storms.returncode == 130
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert "interrupted; the seeds that had not ended are not recorded\n" in said
    assert file.read_text() == seeds.HEADER


def test_two_storms_do_not_run_the_same_seeds(tmp_path: Path) -> None:
    file = tmp_path / "storms.tsv"
    with lines.alone(file):
        done = refused(*STORMS, "--file", str(file))
    assert f"{file} is in use: this program is already running" in done
    assert not file.exists()


@pytest.mark.parametrize("program", ["tests.simulation", "tests.twins", "tests.soak"])
def test_minutes_that_are_none_are_refused(program: str) -> None:
    said = refused(sys.executable, "-m", program, "--minutes=0")
    assert "argument --minutes: must be a number above 0, not '0' (by make: MINUTES)" in said


@pytest.mark.parametrize("what", [["storm", "changes"], ["history", "short"], ["seed"]])
@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_that_is_none_is_refused(what: list[str], seed: str) -> None:
    said = refused(sys.executable, "-m", "tests.reproduce", *what, seed, "tests/unit")
    assert f"argument seed: must be a whole number from 0 to 4294967295, not '{seed}'" in said


WAITS = """
import os, time
from pathlib import Path

def test_waits():
    note = Path(os.environ["NOTE"])
    note.with_suffix(".new").write_text(str(os.getpid()))
    note.with_suffix(".new").rename(note)
    time.sleep(1000)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_seed_that_is_reproduced_can_be_ended(tmp_path: Path, end: signal.Signals) -> None:
    (tmp_path / "test_waits.py").write_text(WAITS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:valkey -p no:cacheprovider\n")
    arguments = ["seed", "1", str(tmp_path / "test_waits.py")]
    ended([sys.executable, "-m", "tests.reproduce", *arguments], tmp_path / "pid", end)


FAKE = """#!/bin/sh
case "$1" in
  -c) echo 3.99 ;;
  -m) echo $$ > "$NOTE.new"; mv "$NOTE.new" "$NOTE"; exec sleep 1000 ;;
esac
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_tests_of_an_interpreter_can_be_ended(tmp_path: Path, end: signal.Signals) -> None:
    python = program(tmp_path / "python3.99", FAKE)
    ended([sys.executable, "-m", "tests.interpreters", str(python)], tmp_path / "pid", end)


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def ended(command: list[str], note: Path, end: signal.Signals) -> None:
    """It ends without a traceback, and so does what has written its process id to `note`."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"NOTE": str(note)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as tool:
        until(lambda: note.exists() or tool.poll() is not None, within=90)
        tool.send_signal(end)
        said, _ = tool.communicate(timeout=90)
    assert tool.returncode == 130, said
    assert "Traceback" not in said
    assert said.endswith("interrupted\n")
    assert not Path(f"/proc/{note.read_text().strip()}").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\necho 2.7\n", "is Python 2.7; 3.11 or newer is needed"),
        ("#!/bin/sh\necho 3.10\n", "is Python 3.10; 3.11 or newer is needed"),
        ("#!/bin/sh\nls /nowhere\n", "is not a Python interpreter that can be run"),
        ('#!/bin/sh\n[ "$1" = -c ] && echo 3.98 || exit 3\n', "exit code 3 of:"),
    ],
    ids=["2.7", "3.10", "ls", "without venv"],
)
def test_an_interpreter_that_cannot_be_used_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    python = str(program(tmp_path / "python", text))
    done = subprocess.run(
        [sys.executable, "-m", "tests.interpreters", python],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.endswith(f"unit tests: {python} NOT RUN\n")


def refused(*command: str) -> str:
    """Return the error of a tool that does not begin."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout
    return done.stderr


def make_java(venv: Path, programs: Path) -> str:
    """Return the output of `make java` with these programs on the PATH."""
    command = [str(shutil.which("make")), "java", f"VENV={venv}"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(programs)}, capture_output=True, text=True, check=True
    )
    return done.stdout


SAYS = """#!/bin/sh
echo 'NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g' >&2
echo 'openjdk version "{}" 2025-04-15' >&2
"""


@pytest.mark.parametrize(
    ("too_old", "version"), [("1.8.0_472", "17"), ("11.0.29", "17.0.15"), ("9", "21-ea")]
)
def test_without_java_17_make_installs_the_one_of_pypi_and_uses_another_when_it_comes(
    tmp_path: Path, too_old: str, version: str
) -> None:
    venv, empty, found = tmp_path / "venv", tmp_path / "empty", tmp_path / "found"
    (venv / "bin").mkdir(parents=True)
    program(venv / "bin" / "python", '#!/bin/sh\necho "$@"\n')
    (venv / ".installed").touch()
    for folder in (empty, found):
        folder.mkdir()
        for name in ("sh", "echo", "grep", "rm", "touch"):
            (folder / name).symlink_to(str(shutil.which(name)))

    assert "install --group java" in make_java(venv, empty)
    program(found / "java", SAYS.format(too_old))
    assert make_java(venv, found) == make_java(venv, empty) == ""
    assert (venv / "java").exists()
    program(found / "java", SAYS.format(version))
    assert make_java(venv, found) == ""
    assert not (venv / "java").exists()


def test_the_java_of_pypi_is_that_of_the_lowest_versions_too(tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    for folder in (".venv/java", ".venv-lowest"):
        (clone / folder).mkdir(parents=True)
    up_to_date = ["-o", "java", "-o", ".venv-lowest/.installed"]
    command = ["make", "-f", str(ROOT / "Makefile"), *up_to_date, "java-of-lowest"]
    subprocess.run(command, cwd=clone, check=True)
    assert (clone / ".venv-lowest" / "java").resolve() == clone / ".venv" / "java"


def test_the_java_of_pypi_is_not_asked_for_a_module_that_it_lacks(tmp_path: Path) -> None:
    java = program(tmp_path / "program", pypi_java.PROGRAM.format(java=shutil.which("echo")))
    lacking = "--add-modules=jdk.incubator.vector"
    given = ["-cp", "a b:c", lacking, "--add-modules=jdk.net", "Main", "$x", ""]
    done = subprocess.run([java, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp a b:c --add-modules=jdk.net Main $x \n"


def test_the_java_of_pypi_is_found_by_what_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/before")
    monkeypatch.setattr(pypi_java, "HOME", tmp_path / "none")
    pypi_java.provide()
    assert os.environ["JAVA_HOME"] == "/before"
    monkeypatch.setattr(pypi_java, "HOME", tmp_path)
    pypi_java.provide()
    assert os.environ["JAVA_HOME"] == str(tmp_path)
