"""The loop on small suites of its own: what passes, fails, crashes, hangs, and is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loop import ending, record, suite
from tests.loop.burners import burning
from tests.loop.lines import RECORDS
from tests.terminals import Terminal
from tests.waiting import until

ROOT = Path(__file__).parents[2]

TESTS = {
    "passes": "def test_a(): pass",
    "fails": "import pytest\n@pytest.mark.parametrize('n', ['x y'])\ndef test_b(n): assert 0",
    "is_killed": "import os, signal\ndef test_c(): os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": "import time\ndef test_d(): assert 0\ndef test_e(): time.sleep(1000)",
    "cannot_be_imported": "import nothing_of_this_name",
    "goes_on": """
import os, signal
from pathlib import Path

def test_g():
    here = Path(os.environ["NOTES"])
    signal.signal(signal.SIGINT, lambda *_: (here / "interrupted").touch())
    (here / "pid.new").write_text(str(os.getpid()))
    (here / "pid.new").rename(here / "pid")
    while True:
        signal.pause()
""",
    "waits": """
import os, time
from pathlib import Path

def test_h():
    here = Path(os.environ["NOTES"])
    (here / "pid.new").write_text(str(os.getpid()))
    (here / "pid.new").rename(here / "pid")
    while not (here / "go_on").exists():
        time.sleep(0.01)
""",
    "has_a_bad_fixture": "import pytest\n@pytest.fixture\ndef f(): 1 / 0\ndef test_f(f): pass",
}


WHO = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
FAILING = "test_fails.py::test_b[x y]"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A repository with tests, and packages of our names."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:valkey -p no:cacheprovider\n")
    for package in ("dispatcher", "limiters"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    for name, program in TESTS.items():
        (tmp_path / f"test_{name}.py").write_text(program + "\n")
    for words in (["init"], ["add", "."], [*WHO, "commit", "--message", "all"]):
        suite.git(*words, at=tmp_path)
    return tmp_path


def run(root: Path, name: str, limit: float = 60) -> suite.Outcome:
    return suite.run(root, [f"test_{name}.py"], 1, limit, root / "log")


def test_each_end_of_a_run_differs_from_the_others(small: Path) -> None:
    assert run(small, "passes") == suite.Outcome("passed", passed=1)
    failed = suite.Outcome("failed", failing=(FAILING,))
    assert run(small, "fails") == failed
    assert run(small, "has_a_bad_fixture").failing == ("test_has_a_bad_fixture.py::test_f",)
    assert run(small, "is_killed").result == "crashed (exit code -9)"
    assert "test_cannot_be_imported" in run(small, "cannot_be_imported").failing[0]


def test_a_run_that_takes_too_long_is_ended_and_what_had_failed_is_kept(small: Path) -> None:
    done = run(small, "hangs", limit=30)
    assert done.result == "not ended after 30 s"
    assert "test_hangs.py::test_d" in done.failing


def test_a_clone_holds_what_is_committed(
    small: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (small / "test_passes.py").write_text("def test_a(): assert 0\n")
    (small / "test_new.py").write_text("def test_new(): assert 0\n")
    target = tmp_path_factory.mktemp("clone") / "clone"
    commit = suite.clone(small, target)
    assert suite.git("rev-parse", "HEAD", at=small).startswith(commit)
    assert run(target, "passes").result == "passed"
    assert not (target / "test_new.py").exists()


def test_a_commit_that_only_adds_to_the_fileis_no_change(small: Path) -> None:
    file = small / "tests" / "loop.tsv"
    before = suite.last_change(small, ".", ":!tests/loop.tsv")
    file.parent.mkdir()
    file.touch()
    suite.git("add", ".", at=small)
    suite.git(*WHO, "commit", "--message", "record", at=small)
    assert suite.last_change(small, ".", ":!tests/loop.tsv") == before
    assert suite.last_change(small, ".") != before


def test_packages_of_another_tree_are_never_tested_in_place_of_the_clone(tmp_path: Path) -> None:
    with pytest.raises(suite.CloneError, match="would import"):
        suite.environment(tmp_path, 1)


def test_burners_end_with_the_block() -> None:
    with burning(2) as pids:
        until(lambda: all(_processor_time(pid) > 0 for pid in pids))
    assert not any(map(_runs, pids))


def test_burners_end_with_their_owner_however_that_ends() -> None:
    code = (
        "import time\n"
        "from tests.loop.burners import burning\n"
        "with burning(1) as pids:\n"
        "    print(*pids, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert _runs(pid)
        owner.kill()
    until(lambda: not _runs(pid))


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _processor_time(pid: int) -> int:
    return int(_stat(pid)[11])


def _runs(pid: int) -> bool:
    try:
        return _stat(pid)[0] != "Z"
    except FileNotFoundError:
        return False


def test_ctrl_c_ends_it_and_keeps_what_was_run(
    small: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("record") / "loop.tsv"
    options = ["--root", str(small), "--file", str(file), "--runs", "1000", "--busy"]
    command = [sys.executable, "-m", "tests.loop", *options, "--", "test_fails.py"]
    (small / "tests").mkdir()
    for name in ("not_committed", *RECORDS[:1]):
        (small / name).touch()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as loop:
        until(lambda: len(record.read(file)) > 1, within=90)
        loop.send_signal(signal.SIGINT)
        said, _ = loop.communicate(timeout=90)
    assert loop.returncode == 130
    runs = record.read(file)
    assert {(run.result, run.failing) for run in runs} == {("failed", (FAILING,))}
    assert len({run.seed for run in runs}) == len(runs)
    changes = "Changes in 1 file are not committed and not part of these runs:\n  not_committed\n"
    assert said.startswith(f"{changes}run 1 of 1000")
    assert said.endswith(
        f"{runs[0].commit}: {len(runs)} runs ({len(runs)} on a busy machine): "
        f"{len(runs)} failed\n  {len(runs)} x {FAILING}\n"
    )


def test_a_second_ctrl_c_ends_also_a_run_that_goes_on(small: Path) -> None:
    notes, clones = small / "notes", small / "clones"
    notes.mkdir()
    clones.mkdir()
    options = ["--root", str(small), "--file", str(small / "loop.tsv")]
    command = [sys.executable, "-m", "tests.loop", *options, "--", "test_goes_on.py"]
    variables = os.environ | {"NOTES": str(notes), "TMPDIR": str(clones)}
    with subprocess.Popen(command, cwd=ROOT, env=variables) as loop:
        until((notes / "pid").exists, within=90)
        loop.send_signal(signal.SIGINT)
        until((notes / "interrupted").exists, within=90)
        loop.send_signal(signal.SIGINT)
        assert loop.wait(90) == 130
    pid = int((notes / "pid").read_text())
    until(lambda: not _runs(pid))
    assert not list(clones.iterdir())


@pytest.fixture
def places(small: Path) -> dict[str, str]:
    """Where tests of a loop leave notes, and the loop its clone."""
    (small / "notes").mkdir()
    (small / "clones").mkdir()
    return {"NOTES": str(small / "notes"), "TMPDIR": str(small / "clones")}


def test_a_closed_terminal_ends_it_and_all_that_it_has_started(
    small: Path, places: dict[str, str]
) -> None:
    options = ["--root", str(small), "--busy", "--", "test_waits.py"]
    command = [sys.executable, "-m", "tests.loop", *options]
    pid = Path(places["NOTES"], "pid")
    with Terminal(command, PYTHONPATH=str(ROOT), **places) as terminal:
        until(pid.exists, within=90)
        terminal.hang_up()
        assert terminal.end() == 130
    until(lambda: not _runs(int(pid.read_text())))
    assert not list(Path(places["TMPDIR"]).iterdir())
    assert record.read(small / record.OF_TESTS) == []


def test_under_nohup_it_goes_on_when_the_terminal_is_closed(
    small: Path, places: dict[str, str]
) -> None:
    options = ["--root", str(small), "--runs", "1", "--", "test_waits.py"]
    command = ["nohup", sys.executable, "-m", "tests.loop", *options]
    notes = Path(places["NOTES"])
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | places, stdout=subprocess.DEVNULL
    ) as loop:
        until((notes / "pid").exists, within=90)
        loop.send_signal(signal.SIGHUP)
        (notes / "go_on").touch()
        assert loop.wait(90) == 0
    assert [run.result for run in record.read(small / record.OF_TESTS)] == ["passed"]


def test_an_interrupt_while_a_program_starts_ends_that_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ending.run(["sleep", "1000"], cwd=tmp_path)
    assert started[0].returncode == -signal.SIGINT


def loop(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.loop", "--root", str(root), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.py"], "file or directory not found: nothing.py"),
        (["test_passes.py::test_z"], "not found: "),
        (["-n", "1", "test_passes.py::test_z"], "no tests ran"),
        (["test_passes.py", "-k", "nothing"], "1 deselected"),
    ],
    ids=["no file", "no test", "no test in a worker", "none chosen"],
)
def test_where_no_test_runs_it_ends_with_the_words_of_pytest(
    small: Path, arguments: list[str], message: str
) -> None:
    done = loop(small, "--runs", "3", "--", *arguments)
    assert done.returncode == 2, done.stderr
    assert "pytest ran no test, so nothing is recorded:\n" in done.stderr
    assert message in done.stderr
    assert record.read(small / record.OF_TESTS) == []
    assert [one.name for one in (small / record.LOGS).iterdir()] == [record.OF_TESTS.name]


@pytest.mark.parametrize("number", ["0", "-1", "x", ""])
def test_a_number_of_runs_that_is_none_is_refused(small: Path, number: str) -> None:
    done = loop(small, f"--runs={number}")
    assert done.returncode == 2
    told = f"argument --runs: must be a whole number, at least 1, not {number!r} (by make: N)"
    assert told in done.stderr


def test_a_root_that_is_no_repository_is_named(tmp_path: Path) -> None:
    done = loop(tmp_path, "--runs", "1")
    assert done.returncode == 2
    assert f"--root: {tmp_path} is not a repository" in done.stderr


def test_a_file_that_cannot_be_written_is_named_before_the_first_run(small: Path) -> None:
    file = small / "nowhere" / "loop.tsv"
    done = loop(small, "--file", str(file), "--", "test_passes.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file} cannot be written: No such file or directory" in done.stderr


def test_a_file_with_a_line_that_is_no_run_is_refused_before_the_first_run(small: Path) -> None:
    file = small / "loop.tsv"
    file.write_text(record.HEADER + "<<<<<<< HEAD\n")
    options = ["--root", str(small), "--file", str(file), "--runs", "1"]
    command = [sys.executable, "-m", "tests.loop", *options, "--", "test_passes.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{file}, line 2: not a run of the loop" in done.stderr
    assert "'<<<<<<< HEAD'" in done.stderr
