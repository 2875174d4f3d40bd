"""Options of a command that something else declares, such as those of a limit.

    LIMIT = OptionFamily(LimiterOptions, url="redis", name="limit")

    @dataclass(frozen=True, kw_only=True)
    @LIMIT.added
    class SharedLimitOptions(RedisOptions):
        limit: str | None = option("the limit that all with this name share", "NAME")

A class that inherits them would do, were it not that a name may mean two things to one command: the
lease time of a Worker's messages is not that of its limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from dispatcher.cli._options.declaring import option
from dispatcher.cli._options.settings import flag_of
from limiters._support.options import Check, DeclaredOption, options_of
from limiters._support.validation import named

Class = TypeVar("Class", bound=type)


class OptionFamily:
    """The options that a dataclass declares, for commands that use other `names` for some, or other
    `variables` than the usual ones."""

    def __init__(
        self,
        declared: type,
        *,
        group: str = "",
        variables: Mapping[str, str] | None = None,
        **names: str,
    ) -> None:
        self._options = options_of(declared)
        self._hints = get_type_hints(declared)
        self._group = group
        self._variables = variables or {}
        self._fields = {own: names.get(own, own) for own in self._options}

    @property
    def flags(self) -> Mapping[str, str]:
        """The flag of each parameter."""
        return {own: flag_of(name) for own, name in self._fields.items()}

    def added(self, cls: Class) -> Class:
        """Add all options that can be written to `cls`, which is to be a dataclass, in their order.

        Fields that it declares itself stay as they are.
        """
        hints = cls.__annotations__
        for own, name in self._fields.items():
            if name in hints:
                hints[name] = hints.pop(name)  # in its place
            elif self._options[own].can_be_written and not hasattr(cls, name):
                hints[name] = self._hints[own]
                setattr(cls, name, self._field(self._options[own], name))
        return cls

    def _field(self, one: DeclaredOption, name: str) -> Any:
        return option(
            one.help,
            "",
            one.default,
            required=one.required,
            check=one.check and _under(name, one.name, one.check),
            unit=one.unit,
            read=one.read,
            by_dimension=one.read is not None,
            group=self._group,
            variable=self._variables.get(one.name, ""),
        )

    def given(self, options: object) -> dict[str, Any]:
        """Return the values in `options`, an object of such a class."""
        fields = self._fields.items()
        return {own: getattr(options, name) for own, name in fields if hasattr(options, name)}


def _under(name: str, own: str, check: Check) -> Check:
    """Rename the parameter in a check's error: a check uses its own name."""

    def checked(_: str, value: object) -> object:
        with named({own: name}):
            return check(own, value)

    return checked
