"""Changes of the messages of a topic by an operator, on the command line."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.timeline import Message, Status, Timeline
from limiters.embedded import EmbeddedRedis
from tests.commands import COMMAND, PATIENCE, Run
from tests.terminals import Terminal
from tests.waiting import until


@pytest.fixture
def mails(url: str) -> Timeline:
    """A hundred of us that are due, and fifty of them that wait."""
    timeline = Timeline(url, "mails", max_attempts=1)
    timeline.producer("us").create([Message(n, id=f"us-{n}") for n in range(100)])
    timeline.producer("them").create([Message(n, id=f"them-{n}", delay=3_600) for n in range(50)])
    return timeline


@pytest.fixture
def dead(mails: Timeline) -> Timeline:
    """All of us were given up."""
    while mails.stats().dead < 100:
        mails.consumer("fails").lease(100, for_=0.001)
    return mails


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


# create


def test_create_from_arguments(run: Run, mails: Timeline) -> None:
    said = run("timeline", "create", "mails", "hello", "--group", "us", "and you", "--delay", "1h")
    assert (said.code, said.out) == (0, "2 created\n")
    waiting = [it.body for it in mails.operator().peek(500, states=["waiting"]) if it.group == "us"]
    assert sorted(waiting) == ["and you", "hello"]
    words = ["timeline", "create", "mails", "--group", "us", "--body-json", '{"a": 1}', "--id", "j"]
    assert run(*words, "--json").json == {"created": 1}
    again = run(*words)
    assert (again.code, again.out) == (0, "0 created, 1 there before\n")
    assert again.err == "dispatcher: body 1: j exists already, new\n"
    [made] = mails.operator().get(["j"])
    assert getattr(made, "body", None) == {"a": 1}


def test_create_from_lines_of_json(
    run: Run, mails: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [json.dumps({"body": n, "id": f"n{n}", "delay": "5m"}) for n in range(1_200)]
    typed(monkeypatch, "\n".join([*good[:700], "{", "", *good[700:], '{"body": 1, "id": ""}']))
    said = run("timeline", "create", "mails", "--group", "us")
    assert said.code == 5
    assert said.out == "1,200 created, 2 invalid\n"
    assert "dispatcher: line 701: not JSON: " in said.err
    assert "dispatcher: line 1203: id must be a text that is not empty" in said.err
    assert "dispatcher: not all could be created: 2 invalid" in said.err
    typed(monkeypatch, "\n".join(good))
    said = run("timeline", "create", "mails", "--group", "us", "--json")
    assert (said.code, said.json) == (0, {"created": 0, "there before": 1_200})
    assert said.err.count("exists already") == 10


def test_create_may_only_read_all_of_it(
    run: Run, mails: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, '{"body": 1}\n{"bod": 1}\n')
    said = run("timeline", "create", "mails", "--group", "us", "--dry-run")
    assert (said.code, said.out) == (5, "1 valid, 1 invalid\n")
    assert mails.stats().created == 150


def test_create_makes_a_topic_only_with_the_option(run: Run, url: str) -> None:
    words = ["timeline", "create", "new", "--group", "us", "hello"]
    assert "there is no topic 'new'" in run(*words).err
    assert run(*words, "--create-topic", "--buckets", "8").out == "1 created\n"
    assert Timeline(url, "new").buckets == 8
    assert "buckets is 16, but the topic 'new' was created with 8" in (
        run(*words, "--create-topic", "--buckets", "16").err
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["hello"], 2, "arguments are required: --group"),
        (["--group", "us", "--body-json", "{"], 2, "BODY must be JSON, not '{'"),
        (["--group", "us", "--id", "a", "b", "c"], 2, "--id is for one BODY"),
        (["--group", "us", "a", "--at=-1h"], 2, "at must not be before now"),
        (["--group", "us", "a", "--at", "now", "--delay", "1"], 2, "not allowed with argument"),
        (["--group", "us", "--uri", "x"], 2, "unrecognized arguments: --uri"),
    ],
)
def test_what_cannot_be_created(
    run: Run, mails: Timeline, arguments: list[str], code: int, message: str
) -> None:
    said = run("timeline", "create", "mails", *arguments)
    assert said.code == code
    assert message in said.err
    assert mails.stats().created == 150


def test_each_wrong_line_is_reported_with_its_number(
    run: Run, mails: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["{}", '{"body": "x"}', *["nonsense"] * 30]
    typed(monkeypatch, "\n".join(lines))
    said = run("timeline", "create", "mails", "--group", "us")
    numbers = [int(number) for number in re.findall(r"line (\d+): ", said.err)]
    assert numbers == [1, *range(3, 33)]
    assert mails.stats().created == 151


def test_ctrl_c_in_the_middle_says_how_far_it_was(mails: Timeline) -> None:
    with subprocess.Popen(
        [*COMMAND, "timeline", "create", "mails", "--group", "us"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            for n in range(2_000):
                process.stdin.write(json.dumps({"body": n, "id": f"c{n}", "delay": 60}) + "\n")
            process.stdin.flush()
            until(lambda: mails.stats().created >= 150 + 500)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    created = mails.stats().created - 150
    told = re.fullmatch(r"interrupted: ([\d,]+) created, and perhaps a few more\n", err)
    assert told is not None, err
    # The step that was interrupted, of 500 at most, may be there in part.
    assert 0 <= created - int(told[1].replace(",", "")) <= 500


@pytest.mark.parametrize(
    ("words", "method", "done"),
    [
        (["create", "mails", "--group", "us", "a body"], "producer.Producer.create", "created"),
        (["delete", "mails", "us-7"], "operator.Operator.delete", "deleted"),
        (["move", "mails", "us-7", "--delay", "1h"], "operator.Operator.move", "moved"),
    ],
)
def test_ctrl_c_in_the_first_step_says_that_it_may_be_done(
    run: Run,
    mails: Timeline,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    method: str,
    done: str,
) -> None:
    def interrupted(*given: object, **told: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"dispatcher.timeline.{method}", interrupted)
    said = run("timeline", *words)
    assert (said.code, said.err) == (130, f"interrupted: 0 {done}, and perhaps a few more\n")


# delete, move, requeue


def test_a_message_by_its_id(run: Run, mails: Timeline) -> None:
    assert run("timeline", "delete", "mails", "us-7").out == "1 deleted\n"
    said = run("timeline", "delete", "mails", "us-7")
    assert (said.code, said.out) == (3, "0 deleted, 1 not found\n")
    assert "nothing was deleted: 1 not found" in said.err
    assert run("timeline", "delete", "mails", "us-7", "us-9").code == 5
    assert run("timeline", "move", "mails", "us-8", "--delay", "1h").out == "1 moved\n"
    assert mails.stats().waiting == 51
    said = run("timeline", "requeue", "mails", "us-10")
    assert (said.code, said.out) == (1, "0 requeued, 1 not dead\n")


def test_a_message_is_named_whatever_variables_say_of_many(
    run: Run, mails: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"STATE": "dead", "ALL": "1", "FROM": "now", "OF_GROUP": "them"}.items():
        monkeypatch.setenv(f"DISPATCHER_{name}", value)
    assert run("timeline", "move", "mails", "us-7", "--delay", "1h").out == "1 moved\n"
    assert run("timeline", "delete", "mails", "us-7").out == "1 deleted\n"
    assert run("timeline", "requeue", "mails", "us-8").out == "0 requeued, 1 not dead\n"
    said = run("timeline", "delete", "mails", "us-8", "--state", "new")
    assert (said.code, said.out) == (2, "")


def test_many_are_not_touched_without_a_yes(run: Run, mails: Timeline) -> None:
    for words in (["us-1", "us-2"], ["--all"], ["--of-group", "them"], ["--state", "new"]):
        for action in (["delete"], ["move", "--delay", "1h"]):
            said = run("timeline", action[0], "mails", *words, *action[1:])
            assert (said.code, said.out) == (1, "")
            assert "nothing was" in said.err
            assert "use --yes" in said.err
    assert mails.stats().deleted == 0


def test_a_dry_run_says_what_would_be(run: Run, mails: Timeline) -> None:
    said = run("timeline", "delete", "mails", "--all", "--dry-run")
    assert said.out.splitlines() == [
        "Nothing was deleted. It would be 150 messages:",
        "",
        "group  state    number",
        "them   waiting      50",
        "us     new         100",
    ]
    told = run(
        "timeline",
        "move",
        "mails",
        "--to",
        "+2h",
        "--of-group",
        "them",
        "--delay",
        "1h",
        "--dry-run",
        "--json",
    ).json
    assert told == {"would_be_moved": [{"group": "them", "state": "waiting", "number": 50}]}
    assert mails.stats().waiting == 50
    assert mails.stats().deleted == 0


@pytest.mark.parametrize(
    ("words", "deleted"),
    [
        (["--all"], 150),
        (["--state", "new"], 100),
        (["--state", "new", "--state", "waiting", "--of-group", "them"], 50),
        (["--from", "+30m"], 50),
        (["--to", "now"], 100),
        (["--from", "+2h"], 0),
        (["us-1", "them-1", "nothing"], 2),
        (["--state", "dead"], 0),
    ],
)
def test_delete_takes_what_was_chosen(
    run: Run, mails: Timeline, words: list[str], deleted: int
) -> None:
    told = run("timeline", "delete", "mails", *words, "--yes", "--json").json
    assert told["deleted"] == mails.stats().deleted == deleted


def test_move_moves_each_once_and_leaves_what_is_leased(run: Run, mails: Timeline) -> None:
    leases = mails.consumer("works").lease(10, for_=60)
    said = run("timeline", "move", "mails", "--all", "--at", "+2h", "--yes")
    assert (said.code, said.out) == (0, "140 moved\n")
    assert {it.version for it in mails.operator().peek(500, states=["waiting"])} == {2}
    said = run("timeline", "move", "mails", leases[0].id, "--delay", "1h")
    assert (said.code, said.out) == (1, "0 moved, 1 leased by a consumer\n")
    assert all(it.ok for it in mails.consumer("works").delete(leases))
    assert run("timeline", "move", "mails", "--all", "--at=-5m", "--yes").err.startswith(
        "dispatcher: --at must not be in the past"
    )


def test_a_dry_run_that_finds_nothing_is_one_line(run: Run, mails: Timeline) -> None:
    said = run("timeline", "delete", "mails", "--state", "dead", "--dry-run")
    assert said.out.rstrip() == "Nothing was deleted. It would be 0 messages."


def test_requeue_lets_the_dead_live_again(run: Run, dead: Timeline) -> None:
    said = run("timeline", "requeue", "mails", "--dry-run")
    assert "It would be 100 messages" in said.out
    assert "use --yes" in run("timeline", "requeue", "mails").err
    assert run("timeline", "requeue", "mails", "us-5", "--delay", "1h").out == "1 requeued\n"
    assert run("timeline", "requeue", "mails", "--of-group", "them", "--yes").out == "0 requeued\n"
    assert run("timeline", "requeue", "mails", "--yes").out == "99 requeued\n"
    until(lambda: dead.stats().new == 99)  # due within the millisecond
    assert (dead.stats().dead, dead.stats().waiting) == (0, 51)
    again = dead.operator().peek(1, states=[Status.NEW])
    assert again[0].attempts == 0


def test_ids_from_stdin(run: Run, mails: Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "us-1\n\nus-2\nus-2\n")
    assert run("timeline", "delete", "mails", "-", "--yes").out == "2 deleted\n"
    typed(monkeypatch, "\n")
    assert "there are no ids on stdin" in run("timeline", "delete", "mails", "-", "--yes").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["delete", "mails"], "select messages: by ids, or --state"),
        (["delete", "mails", "us-1", "--all"], "name messages, or select them"),
        (["delete", "mails", "us-1", "--state", "new"], "name messages, or select them"),
        (["move", "mails", "us-1"], "one of the arguments --at --delay is required"),
        (["requeue", "mails", "us-1", "--to", "now"], "name messages, or select them"),
    ],
)
def test_what_is_wrong_is_reported(
    run: Run, mails: Timeline, words: list[str], message: str
) -> None:
    said = run("timeline", *words)
    assert said.code in (1, 2)
    assert message in said.err
    assert mails.stats().deleted == 0


@pytest.mark.parametrize(("answer", "code", "left"), [("yes", 0, 50), ("no", 1, 150)])
def test_delete_asks_on_a_terminal(mails: Timeline, answer: str, code: int, left: int) -> None:
    command = [*COMMAND, "timeline", "delete", "mails", "--state", "new"]
    with Terminal(command) as terminal:
        asked = terminal.read_until("Type yes: ")
        assert f"Delete 100 messages of topic mails in {mails.where}? (100 new) Type yes: " in asked
        terminal.type(f"{answer}\n")
        terminal.read_until("100 deleted" if code == 0 else "nothing was deleted")
        assert terminal.end() == code
    assert mails.stats().remaining == left


def test_long_work_says_how_far_it_is_and_takes_that_away(mails: Timeline) -> None:
    mails.producer("us").create([Message(n) for n in range(5_000)])
    command = [*COMMAND, "timeline", "delete", "mails", "--state", "new", "--yes"]
    with Terminal(command) as terminal:
        said = terminal.read_until("deleted\r\n")
        assert "deleting: " in said
        assert said.endswith("\r\x1b[K5,100 deleted\r\n")
        assert terminal.end() == 0


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[EmbeddedRedis, Timeline]]:
    with EmbeddedRedis() as server:
        yield server, Timeline(server.url, "mails")


def test_redis_that_goes_in_the_middle_is_reported_with_what_was_done(
    ends: tuple[EmbeddedRedis, Timeline],
) -> None:
    server, timeline = ends
    assert timeline.buckets
    process: subprocess.Popen[Any] = subprocess.Popen(
        [*COMMAND, "timeline", "create", "mails", "--group", "us", "--redis", server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.writelines(f'{{"body": {n}}}\n' for n in range(600))
        process.stdin.flush()
        until(lambda: timeline.stats().created >= 500)
        server.kill()
        process.stdin.writelines(f'{{"body": {n}}}\n' for n in range(600))
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, out) == (5, "")
    assert "Redis at redis://127.0.0.1:" in err
    assert "500 created, then it failed" in err
    assert err.count("\n") == 1
