"""The first steps of a newcomer: the demo, the examples, the programs in the documents."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from limiters.embedded import EmbeddedRedis
from tests.terminals import Terminal

pytestmark = pytest.mark.timeout(360)  # some start Spark

ROOT = Path(__file__).parents[2]
ACTIVATED = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
NEEDS_A_BROKER = "early_messages_from_mqtt.py"  # see test_mqtt_example.py
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != NEEDS_A_BROKER)
SAID = {
    "http_ingest": ["600 written, exit codes [0, 0]"],
    "consumed_capacity": ["600 items written"],
    "streaming_answers": ["300 answers", "estimated at 2,000 tokens first"],
    "llm_api": ["150 answers", "never more than 15 calls at a time: True"],
}
"""Further output of some of them, however busy the machine."""

README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = [
    (path.name, number, program, printed)
    for path in DOCUMENTS
    for number, (program, printed) in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?",
            path.read_text(),
            re.MULTILINE | re.DOTALL,
        )
    )
]
PARTS = {
    path.name: parts
    for path in DOCUMENTS
    if (parts := re.findall(r"^```py\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL))
}
"""Parts that only define something, for the reader to call."""
EACH = """
import sys
for number, part in enumerate(sys.argv[1:]):
    exec(compile(part, f"<part {number}>", "exec"), {"__name__": "__main__"})
"""
"""The parts of a document in one process: most of what they take is to import the same packages."""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "PATH": ACTIVATED, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_demo_compares_three_ways_and_its_report_has_the_same_table(tmp_path: Path) -> None:
    report = tmp_path / "demo.html"
    done = run("-m", "dispatcher.cli.main", "demo", "--seconds", "4", "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert str(report) in done.stdout.replace("\n", "")
    table = {row[0]: row[1:] for row in _table(done.stdout)}
    page = ElementTree.fromstring(report.read_text().removeprefix("<!doctype html>\n"))
    rows = ["".join(cell.itertext()) for cell in page.iter() if cell.tag in {"th", "td"}]
    ways = ["a quarter each", "on their own", "sharing the limit"]
    assert rows == ["", *ways, *(cell for name in table for cell in (name, *table[name]))]
    assert "█" in done.stdout
    _, refused, _ = table["calls refused (429)"]
    assert int(refused) > 0
    assert re.fullmatch(r"\d+ %", table["calls wasted"][1])
    assert all(re.fullmatch(r"\d+\.\d s", time) for time in table["time (3.0 s at best)"])
    assert all(0.25 <= float(it) <= 1 for it in table["fairness (Jain's index)"])
    *others, freed = table["share of the killed one"]
    assert others[0] == "never used"
    assert others[1] in {"used by all", "-"}  # by chance some may have no work, or wait
    assert all(0 < int(it.removesuffix(" %")) <= 100 for it in table["used of the limit"])
    assert re.fullmatch(r"free after \d+\.\d s", freed)
    text = [text.strip() for text in page.itertext() if text.strip()]
    assert "who holds how much of 20 partitions" in text
    assert {f"process-{number}" for number in (1, 2, 3, 4)} <= set(text)
    assert "process-2 is killed" in text
    transcript = re.findall(r"\$ make demo\n\n(.*?)```", README, re.DOTALL)
    assert len(transcript) == 1
    for passage in transcript[0].split("...\n"):
        assert _shape(passage) in _shape(done.stdout)


def _shape(text: str) -> str:
    """Without figures and what is by chance, and however it is wrapped and drawn."""
    text = re.sub(r"━+|[╸╺]", "━", re.sub(r"\d[\d,.]*", "0", text))
    text = re.sub(r"━[━ ]*", "━ ", re.sub(r"\s+", " ", text)).strip()
    return text.replace("│ used by all │", "│ - │")


def test_the_worker_of_the_readme_is_ready_to_paste(tmp_path: Path) -> None:
    section = README.partition("## You have work that is due")[2].partition("\n## ")[0]
    (handlers,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    (tmp_path / "handlers.py").write_text(handlers)
    server, create, work = re.findall(r"^\$ ([^#\n]+)", console, re.MULTILINE)
    assert server.split() == ["python", "-m", "limiters.embedded"]
    with EmbeddedRedis() as redis:
        environment = {
            **os.environ,
            "PATH": ACTIVATED,
            "DISPATCHER_REDIS": redis.url,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        created = subprocess.run(
            create.split(),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert created.stdout == "1 created\n"
        with subprocess.Popen(
            work.split(), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "sending ['hello']\n"
            worker.terminate()
        assert worker.returncode == 0


def _table(text: str) -> list[list[str]]:
    """The cells of what rich has drawn, without the heading."""
    return [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in text.splitlines()
        if line.startswith("│")
    ]


def test_the_demo_fits_into_a_narrow_terminal_of_ascii_without_colours() -> None:
    demo = [sys.executable, "-m", "dispatcher.cli.main", "demo", "--seconds", "2"]
    with Terminal(demo, COLUMNS="40", NO_COLOR="1", PYTHONIOENCODING="ascii") as terminal:
        live = terminal.read_until("One limit")
        summary = terminal.read_until("make test")
        assert terminal.end() == 0
    assert re.search(r"-+ +\d+ refused", _plain(live)), live
    assert not re.search(r"\x1b\[(?:\d+;)*[349]\d", live + summary), live + summary
    assert max(map(len, _plain(summary).splitlines())) <= 40
    assert (live + summary).isascii()


def _plain(said: str) -> str:
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", said)


def test_the_demo_says_immediately_that_its_report_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "demo.html"
    wrong = run("-m", "dispatcher.cli.main", "demo", "--report", str(path))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == (
        f"dispatcher: the report cannot be written to {path}: No such file or directory; name a "
        "file in a directory that exists and may be written to\n"
    )


def test_the_command_line_says_what_is_wrong() -> None:
    assert "usage: dispatcher" in run("-m", "dispatcher.cli.main").stderr
    wrong = run("-m", "dispatcher.cli.main", "demo", "--capacity", "5")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "dispatcher: --capacity must be at least 1000, the cost of two batches\n",
    )


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(
            path,
            id=path.name,
            # Each starts a Spark. `make test` runs the README's program, which does what one does.
            marks=[pytest.mark.long] if path.name.startswith("spark_") else [],
        )
        for path in EXAMPLES
    ],
)
def test_every_example_runs(example: Path) -> None:
    done = run(str(example))
    assert done.returncode == 0, done.stderr
    good = ("done", "in order: True", "no window over")
    assert any(words in done.stdout for words in good), done.stdout
    assert "in order: False" not in done.stdout
    assert "OVER" not in done.stdout
    for words in SAID.get(example.stem, ()):
        assert words in done.stdout, done.stdout


def test_every_example_says_what_it_shows_and_is_in_the_table() -> None:
    folder = ROOT / "examples"
    files = [path for path in folder.rglob("*") if path.suffix in {".py", ".toml"}]
    table = (ROOT / "docs" / "examples.md").read_text()
    assert set(re.findall(r"\]\(\.\./examples/([^)]+)\)", table)) == {
        str(path.relative_to(folder)) for path in files if path.name != "__init__.py"
    }
    for path in files:
        assert path.suffix == ".toml" or ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize(
    ("document", "number", "program", "printed"), PROGRAMS, ids=lambda one: str(one)[:30]
)
def test_every_program_in_the_documents_prints_the_text_below_it(
    document: str, number: int, program: str, printed: str
) -> None:
    done = run("-c", program)
    assert done.returncode == 0, f"{document}, program {number}:\n{done.stderr}"
    assert done.stdout if not printed else done.stdout == printed


@pytest.mark.parametrize("document", PARTS)
def test_every_part_of_a_program_in_the_documents_fits(document: str) -> None:
    done = run("-c", EACH, *PARTS[document])
    assert done.returncode == 0, f"{document}:\n{done.stderr}"
