"""Expressions that are evaluated from the columns of a record batch, where Spark cannot. Pure.

Sinks let Spark evaluate the cost of a row; a format only receives rows.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limiters._support.validation import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_QUOTED = re.compile("`((?:[^`]|``)+)`")
_STANDS_FOR = "_quoted_{}_"
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """Numbers, names of columns, `+`, `-`, `*`, `/` and parentheses. A name with other characters
    than letters, digits and underscores is put between backticks.

    >>> import pyarrow as pa
    >>> rows = pa.RecordBatch.from_pydict({"size": [8, None], "a b": [1.0, 2.0]})
    >>> Expression("(size + 4) / 4 - `a b`").of(rows).tolist()
    [2.0, nan]
    """

    text: str

    @classmethod
    def column(cls, name: str) -> Expression:
        """Return the expression of the column `name`, which may contain any character."""
        return cls(f"`{name.replace('`', '``')}`")

    def columns(self, parameter: str) -> list[str]:
        """Return the columns that it names. ArgumentError of `parameter` if it is not such an
        expression."""
        try:
            tree, quoted = self._parsed()
            return list(dict.fromkeys(_names(tree, quoted)))
        except (SyntaxError, ValueError, RecursionError):
            requirement = "be made of numbers, names of columns, + - * / and parentheses"
            raise ArgumentError(parameter, self.text, requirement) from None

    def of(self, batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
        """Return a number for each row; NaN where a column has none."""
        import numpy as np

        tree, quoted = self._parsed()
        with np.errstate(all="ignore"):  # the charge refuses what is not finite
            value = _value(tree, quoted, batch)
        return np.broadcast_to(value, batch.num_rows) if np.ndim(value) == 0 else value

    def _parsed(self) -> tuple[ast.expr, dict[str, str]]:
        quoted: dict[str, str] = {}

        def stand_in(match: re.Match[str]) -> str:
            name = _STANDS_FOR.format(len(quoted))
            quoted[name] = match[1].replace("``", "`")
            return name

        return ast.parse(_QUOTED.sub(stand_in, self.text).strip(), mode="eval").body, quoted


def _names(tree: ast.expr, quoted: dict[str, str]) -> Iterator[str]:
    match tree:
        case ast.Name(id=name):
            yield quoted.get(name, name)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            pass
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            yield from _names(left, quoted)
            yield from _names(right, quoted)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from _names(operand, quoted)
        case _:
            raise ValueError(ast.dump(tree))


def _value(tree: ast.expr, quoted: dict[str, str], batch: pa.RecordBatch) -> Any:
    import numpy as np
    import pyarrow as pa

    match tree:
        case ast.Name(id=name):
            column = batch.column(quoted.get(name, name)).cast(pa.float64())  # it may hold decimals
            return column.to_numpy(zero_copy_only=False)
        case ast.Constant(value=value):
            return np.float64(value)  # type: ignore[arg-type]
        case ast.BinOp(left=left, op=op, right=right):
            sides = _value(left, quoted, batch), _value(right, quoted, batch)
            return _OPERATORS[type(op)](*sides)
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_value(operand, quoted, batch))
    raise ValueError(ast.dump(tree))
