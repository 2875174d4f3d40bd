"""The linter of the language finds its patterns in each kind of text, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.rules import Rules, read
from tests.language.texts import Text, texts

ROOT = Path(__file__).parents[2]
RULES = read()


def found(text: str, kind: str = "page") -> list[str]:
    return [one.name for one in RULES.patterns if one.matches(Text(1, kind, text))]


@pytest.mark.parametrize(
    ("text", "kind", "pattern"),
    [
        ("It begins anew.", "comment", "once more"),
        ("Whoever asks first is served.", "page", "whoever"),
        ("The limiter is told what it needs.", "docstring", "told"),
        ("A full batch goes at once.", "message", "at once"),
        ("One operation dearer than the share.", "docstring", "dear"),
        ("The same.", "docstring", "short docstring"),
        ("See the module. One per Batcher.", "docstring", "See X"),
        ("The same with an object of three fields.", "docstring", "The same"),
        ("What is known so far.", "docstring", "docstring without a subject"),
        ("From its start on as long as the longest.", "docstring", "docstring continues the name"),
    ],
)
def test_a_pattern_is_found(text: str, kind: str, pattern: str) -> None:
    assert pattern in found(text, kind)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Return the operations that wait.", "docstring"),
        ("What is not used goes back.", "page"),
        ("The table tells a failed batch from an abandoned one.", "page"),
        ("For each batch, the cost of its operations.", "docstring"),
    ],
)
def test_other_text_is_left_alone(text: str, kind: str) -> None:
    assert found(text, kind) == []


def test_the_texts_of_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""A module with `code`.\n\n>>> print("hidden")\n"""\n\nLIMIT = 5\n"""An attribute."""\n\n'
        "# A comment that\n# goes on.\n"
        'def test_it_works():\n    raise ValueError(f"a value of {LIMIT} is wrong")  # why\n'
    )
    assert texts(path) == [
        Text(1, "docstring", "A module with `."),
        Text(7, "attribute", "An attribute."),
        Text(9, "comment", "A comment that goes on."),
        Text(11, "test", "test it works"),
        Text(12, "comment", "why"),
        Text(12, "message", "a value of X is wrong"),
    ]


def test_the_texts_of_a_page_are_its_prose_and_the_comments_of_its_programs(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Title\n\nTwo\nlines, `code`.\n\n```py\nx = 1  # a comment\n```\n")
    assert [text for _, _, text in texts(path)] == ["# Title", "Two lines, `.", "a comment"]


def test_a_place_can_be_left_out_for_all_patterns_or_for_some() -> None:
    rules = Rules(RULES.patterns, ("later", "some: told, said"), ("quoted.md",))
    assert rules.unchecked("later/module.py", "told")
    assert rules.unchecked("some/module.py", "said")
    assert not rules.unchecked("some/module.py", "anew")
    assert rules.unchecked("quoted.md", "told")
    assert not rules.unchecked("laterally.py", "told")


def test_an_entry_with_an_unknown_pattern_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text(
        'later = ["docs: nonsense"]\nexempt = []\n[pattern.a]\nfind = "a"\ninstead = ""\n'
    )
    with pytest.raises(ValueError, match=r"'docs: nonsense' names no pattern: \['nonsense'\]"):
        read(file)


def test_every_place_that_is_left_out_exists() -> None:
    """An entry is deleted with its last finding: the list is to become empty."""
    places = [entry.partition(":")[0] for entry in RULES.later + RULES.exempt]
    assert [place for place in places if not (ROOT / place).exists()] == []
