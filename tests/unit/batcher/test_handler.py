"""Handlers: callables and "module:function", with and without a context."""

from __future__ import annotations

import functools
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from dispatcher import HandlerError
from dispatcher._handler import check, load


class Sender:
    """A handler with a state."""

    def __call__(self, batch: list[Any]) -> int:
        return len(batch)

    async def send(self, batch: list[Any], context: object) -> None:
        """Handle a batch as a coroutine, with its context."""


def alone(batch: list[Any]) -> int:
    return len(batch)


def with_context(batch: list[Any], context: object) -> object:
    return context


def with_a_setting(batch: list[Any], size: int = 3) -> int:
    return size


def with_an_optional_context(batch: list[Any], context: object = None) -> object:
    return context


@pytest.mark.parametrize(
    ("target", "takes", "is_async"),
    [
        (alone, False, False),
        (with_context, True, False),
        (with_a_setting, False, False),
        (with_an_optional_context, True, False),
        (Sender(), False, False),
        (Sender().send, True, True),
        (functools.partial(with_context, [1]), False, False),
        (lambda *arguments: arguments, True, False),
        (print, True, False),
        (list.append, True, False),
        ("math:fsum", False, False),
        ("os.path:basename", False, False),
        ("collections:Counter.fromkeys", False, False),
    ],
)
def test_a_handler_with_a_second_argument_receives_the_context(
    target: Any, takes: bool, is_async: bool
) -> None:
    handler = load(target)

    assert (handler.takes_context, handler.is_async) == (takes, is_async)


def test_a_bound_handler_is_a_function_of_the_batch_alone() -> None:
    assert load(alone).bound("context")([1, 2]) == 2
    assert load(with_context).bound("context")([1, 2]) == "context"


@pytest.mark.parametrize("target", [None, 3, "", "math", "math:", ":fsum", "math:a b", "m-a:b"])
def test_an_object_that_can_never_be_a_handler_is_a_value_error(target: Any) -> None:
    with pytest.raises(ValueError, match="handler must be a callable or 'module:function'"):
        check(target)


def test_the_error_names_a_missing_module() -> None:
    with pytest.raises(HandlerError, match=r"'nowhere\.to' cannot be imported: No module named"):
        load("nowhere.to:send")


def test_the_error_names_the_folder_that_lacks_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/srv/shop", *sys.path])
    with pytest.raises(HandlerError, match="looks in /srv/shop first") as caught:
        load("nowhere.to:send")
    assert caught.value.trace == ""


def test_the_error_shows_the_line_that_imports_a_missing_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_that_needs.py").write_text("import json\nimport nowhere_to\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(HandlerError, match="No module named 'nowhere_to'") as caught:
        load("shop_that_needs:send")
    assert 'shop_that_needs.py", line 2' in caught.value.trace
    assert "looks in" not in caught.value.reason


def test_the_error_names_a_missing_name_with_its_file() -> None:
    with pytest.raises(HandlerError, match=r"'json' \(.*json/__init__.py\) has no 'sned'"):
        load("json:sned")


def test_the_error_names_an_object_that_cannot_be_called() -> None:
    with pytest.raises(HandlerError, match="'sep' is of the class str, which cannot be called"):
        load("os:sep")


def test_the_error_does_not_show_the_content_of_an_object_that_cannot_be_called() -> None:
    with pytest.raises(HandlerError) as caught:
        load("os:environ")
    assert os.environ["PATH"] not in str(caught.value)


def test_the_error_shows_the_line_of_an_import_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_shop.py").write_text("import json\nprice = 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(HandlerError, match="division by zero") as caught:
        load("broken_shop:send")

    assert 'broken_shop.py", line 2' in str(caught.value)
    assert "importlib" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_import_that_calls_sys_exit_does_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script_of_the_shop.py").write_text("import sys\n\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(HandlerError, match="it ends the program") as caught:
        load("script_of_the_shop:send")
    assert 'script_of_the_shop.py", line 3' in caught.value.trace


@pytest.mark.parametrize(
    "target",
    [lambda: None, lambda a, b, c: None, lambda batch, *, needed: None],
    ids=["none", "three", "keyword"],
)
def test_a_handler_that_cannot_be_called_with_a_batch_is_refused(target: Any) -> None:
    with pytest.raises(HandlerError, match=r"def handler\(batch, context\)"):
        load(target)
