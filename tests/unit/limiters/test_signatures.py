"""Signatures and docstrings that are derived from the options which a dataclass declares."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, get_type_hints

import pytest

from dispatcher import Batcher
from dispatcher.registration import RegistrationGate
from dispatcher.worker import Worker
from limiters import ArgumentError, LimiterConfig, RedisLeaseManager, SharedResource
from limiters._support.options import ConvertedOptions, about
from limiters._support.signatures import lists, takes
from limiters._support.validation import Seconds, count, seconds


@dataclass(frozen=True, kw_only=True)
class CourierOptions(ConvertedOptions):
    name: str = field(kw_only=False)
    most: int = field(default=16, metadata=about("parcels at a time", count))
    patience: Seconds = field(default=1.0, metadata=about("until it goes on", seconds, unit="s"))


@lists(CourierOptions)
class Courier:
    """Bring parcels to their addresses."""

    @takes(CourierOptions)
    def __init__(self, options: CourierOptions) -> None:
        """Begin to bring the parcels."""
        self.options = options


def test_a_method_takes_what_the_options_declare() -> None:
    courier = Courier("Ada", patience=timedelta(minutes=1))

    assert courier.options == CourierOptions("Ada", most=16, patience=60.0)
    assert str(inspect.signature(Courier)) == (
        "(name: 'str', *, most: 'int' = 16, patience: 'Seconds' = 1.0) -> 'None'"
    )
    assert Courier.__init__.__doc__ == "Begin to bring the parcels."


@pytest.mark.parametrize(
    "shown", [Courier, Batcher, SharedResource, LimiterConfig, RegistrationGate, Worker]
)
def test_the_types_can_be_looked_up_under_the_names_of_the_signature(shown: Any) -> None:
    """Types are resolved as dependency injection does it; aliases stay as they were written where
    people read them."""
    parameters = inspect.signature(shown).parameters
    assert set(get_type_hints(shown.__init__)) == {*parameters, "return"}
    assert {type(one.annotation) for one in parameters.values()} == {str}


def test_types_that_only_type_checkers_know_stay_texts() -> None:
    annotations = RedisLeaseManager.__init__.__annotations__
    assert annotations["url_or_client"] == "str | Redis | RedisCluster"
    assert "options" not in annotations


def test_a_function_takes_them_and_lists_them_as_well() -> None:
    @dataclass(frozen=True, kw_only=True)
    class BringingOptions(CourierOptions):
        pass

    @lists(BringingOptions)
    @takes(BringingOptions)
    def bring(parcel: str, options: BringingOptions) -> str:
        """Bring one parcel to its address."""
        return f"{options.name} brings {parcel}"

    assert bring("a book", "Ada", most=1) == "Ada brings a book"
    assert (bring.__doc__ or "").startswith(
        "Bring one parcel to its address.\n\n* `most`: parcels at a time.\n"
    )


def test_the_argument_before_the_options_may_be_named_as_the_signature_says() -> None:
    @takes(CourierOptions)
    def bring(parcel: str, options: CourierOptions) -> str:
        return f"{options.name} brings {parcel}"

    assert str(inspect.signature(bring)).startswith("(parcel: 'str', name: 'str', *, ")
    named: Any = bring
    assert named(parcel="a book", name="Ada") == "Ada brings a book"
    with pytest.raises(
        TypeError, match=r"bring\(\) missing 1 required positional argument: 'parcel'"
    ):
        named(name="Ada")
    with pytest.raises(TypeError, match=r"bring\(\) got multiple values for argument 'parcel'"):
        named("a book", "Ada", parcel="a pen")


def test_checks_name_the_argument() -> None:
    with pytest.raises(ArgumentError, match="most must be at least 1, not 0"):
        Courier("Ada", most=0)


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        (["Ada"], {"mots": 1}, "Courier.__init__() got an unexpected keyword argument 'mots'"),
        ([], {}, "Courier.__init__() missing 1 required positional argument: 'name'"),
        (["Ada", 3], {}, "Courier.__init__() takes 2 positional arguments but 3 were given"),
    ],
)
def test_wrong_arguments_are_those_of_the_method(
    arguments: list[Any], named: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError) as caught:
        Courier(*arguments, **named)

    assert said in str(caught.value)


def test_options_that_two_take_name_each_by_itself() -> None:
    class Other:
        @takes(CourierOptions)
        def send(self, options: CourierOptions) -> str:
            return options.name

    assert Other().send("Ada") == "Ada"
    with pytest.raises(TypeError, match=r"Other\.send\(\) got an unexpected"):
        Other().send("Ada", mots=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Courier\.__init__\(\) got an unexpected"):
        Courier("Ada", mots=1)  # type: ignore[call-arg]


def test_the_docstring_lists_the_options_with_their_units() -> None:
    assert Courier.__doc__ == (
        "Bring parcels to their addresses.\n\n"
        "* `most`: parcels at a time.\n* `patience` (s): until it goes on."
    )
