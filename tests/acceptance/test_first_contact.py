"""What a newcomer does first: the demo, the examples, the programs in the documents."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACTIVATED = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
NEEDS_A_BROKER = "early_messages_from_mqtt.py"  # see test_mqtt_example.py
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != NEEDS_A_BROKER)
PROGRAMS = [
    (path.name, number, program, printed)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, (program, printed) in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?",
            path.read_text(),
            re.MULTILINE | re.DOTALL,
        )
    )
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "PATH": ACTIVATED},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_demo_compares_both_ways() -> None:
    done = run("-m", "dispatcher.cli.main", "demo", "--seconds", "3")
    assert done.returncode == 0, done.stderr
    refused = re.search(r"refused with 429\D+(\d+)\D+(\d+)", done.stdout)
    assert refused is not None, done.stdout
    alone, together = map(int, refused.groups())
    # A few may be refused where the machine is so busy that requests arrive late.
    assert alone > 3 * (together + 1)
    assert "█" in done.stdout


def test_ctrl_c_ends_the_demo_at_once_with_its_exit_code() -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "dispatcher.cli.main", "demo", "--seconds", "300"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    while "2 jobs" not in demo.stdout.readline():
        assert demo.poll() is None
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert errors == "interrupted: everything was stopped\n"


def test_the_command_line_says_what_is_wrong() -> None:
    assert "usage: dispatcher" in run("-m", "dispatcher.cli.main").stderr
    wrong = run("-m", "dispatcher.cli.main", "demo", "--capacity", "5")
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "dispatcher: capacity must be at least 1000, the cost of two batches\n",
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_runs(example: Path) -> None:
    done = run(str(example))
    assert done.returncode == 0, done.stderr
    good = ("done", "in order: True", "no window over")
    assert any(words in done.stdout for words in good), done.stdout
    assert "in order: False" not in done.stdout
    assert "OVER" not in done.stdout


@pytest.mark.parametrize(
    ("document", "number", "program", "printed"), PROGRAMS, ids=lambda one: str(one)[:30]
)
def test_every_program_in_the_documents_prints_what_is_said(
    document: str, number: int, program: str, printed: str
) -> None:
    done = run("-c", program)
    assert done.returncode == 0, f"{document}, program {number}:\n{done.stderr}"
    assert done.stdout if not printed else done.stdout == printed
