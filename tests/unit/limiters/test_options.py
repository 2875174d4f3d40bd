"""Options that are declared once, by a field of a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from limiters import ArgumentError
from limiters._support.options import CheckedOptions, about, documented, options_of, values_of
from limiters._support.validation import Seconds, count, seconds


@dataclass(frozen=True, kw_only=True)
class Sending(CheckedOptions):
    patience: Seconds = field(default=60.0, metadata=about("of the caller", seconds, unit="s"))
    most: int | None = field(default=None, metadata=about("in flight", count))
    handler: Callable[..., Any] | str = field(kw_only=False, metadata=about("whom to call"))


@dataclass(frozen=True, kw_only=True)
class Keeping(CheckedOptions):
    retry: Any = field(default=None, metadata=about("when to try again"))
    ledger: bool = field(default=True, metadata=about("whether it is remembered"))


@documented
@dataclass(frozen=True, kw_only=True)
class Sink(Sending, Keeping):
    """Options of both families in one class."""

    subject: str = field(metadata=about("a column"))
    seen: list[str] = field(init=False, default_factory=list)


def test_a_check_runs_when_it_is_made_also_of_what_is_inherited() -> None:
    for wrong in ({"patience": -1}, {"most": 0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            Sink("shop:send", subject="meter", **wrong)  # type: ignore[arg-type]


def test_none_is_checked_only_where_it_is_not_the_default() -> None:
    Sink("shop:send", subject="meter", most=None)

    with pytest.raises(ArgumentError, match="patience must be a duration"):
        Sink("shop:send", subject="meter", patience=None)  # type: ignore[arg-type]


def test_options_state_what_may_be_written_as_a_text_and_as_what() -> None:
    kinds = {name: option.kind for name, option in options_of(Sink).items()}

    assert kinds == {
        "handler": str,
        "subject": str,
        "retry": None,
        "ledger": bool,
        "patience": float,
        "most": int,
    }


def test_the_docstring_lists_options_and_the_required_ones_first() -> None:
    text = Sink.__doc__ or ""

    assert text.startswith(
        "Options of both families in one class.\n\n"
        "* `handler`: whom to call.\n* `subject`: a column.\n"
    )
    assert "* `patience` (s): of the caller." in text
    assert "seen" not in text


def test_a_positional_option_is_before_a_required_one() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Ordered(Keeping):
        subject: str
        handler: str = field(default="shop:send", kw_only=False)

    assert list(options_of(Ordered))[:2] == ["handler", "subject"]


def test_an_object_is_made_of_the_values_of_one_that_has_others_too() -> None:
    sink = Sink("shop:send", subject="meter", most=3, retry="often")

    assert values_of(Sending, sink) == {"handler": "shop:send", "most": 3, "patience": 60.0}
    assert values_of(Sink, Keeping(ledger=False)) == {"retry": None, "ledger": False}


def test_a_long_line_of_the_docstring_is_folded() -> None:
    @documented
    @dataclass
    class Long:
        """A parcel whose size takes many words."""

        size: int = field(default=1, metadata=about("word " * 50 + "end"))

    lines = (Long.__doc__ or "").splitlines()
    assert max(map(len, lines)) <= 96
    assert lines[-1].startswith("  ")
    assert lines[-1].endswith("end.")
