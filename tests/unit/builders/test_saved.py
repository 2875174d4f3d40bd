"""State as bytes and back (law E8): every value as it was, and nothing that is not saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.builders import EventTimeBuilder, MeasurementError
from dispatcher.builders._windows.saved import FORMAT, pack, unpack

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers().map(lambda n: n * 10**5000)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.datetimes().map(lambda time: time.replace(fold=1))
    | st.dates()
    | st.timedeltas()
)
values = st.recursive(
    plain | st.frozensets(plain) | st.sets(plain),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(plain, inner, max_size=5)
    ),
    max_leaves=15,
)


def types(value: Any) -> Any:
    """The parts of a value that `==` does not compare: True equals 1, and one fold equals the
    other."""
    if isinstance(value, dict):
        return [(types(key), types(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [types(one) for one in value]
    return type(value), getattr(value, "fold", None)


@given(values)
def test_e8_whatever_can_be_saved_comes_back_as_it_was(value: Any) -> None:
    _, back = unpack(pack(value))
    assert back == value
    assert types(back) == types(value)
    assert pack(back) == pack(value)


def test_e8_it_is_json_without_what_json_does_not_know() -> None:
    assert pack([float("inf"), 2**64]).isascii()
    assert b"Infinity" not in pack([float("inf")])
    assert b"18446744073709551616" not in pack(2**64)


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize("value", [object(), Colour.RED, [{1: {2: object()}}]])
def test_e8_what_cannot_be_saved_is_named_with_what_to_do(value: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot be saved as it is; hand dump\(\) a function"):
        pack(value)


def text(state: str) -> bytes:
    return f'{{"format": "{FORMAT}", "state": {state}}}'.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        text('{"no such": 1}'),
        text('{"a": 1, "b": 2}'),
        text('{"int": [1]}'),
        text('{"datetime": ["today", 0]}'),
        text("[" * 100_000 + "]" * 100_000),
        text('{"dict": []}'),
        text("5"),
        text('{"dict": [["rule", "of thumb"], ["spans", []]]}'),
    ],
    ids=lambda data: data[:60],
)
def test_e8_what_is_no_saved_state_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"data must be what dump\(\) gave"):
        EventTimeBuilder.load(data, key="k", event_time="t")


def test_e8_messages_of_other_types_go_through_the_users_own_words() -> None:
    builder = EventTimeBuilder[Any](5, 5, key=lambda m: m.real, event_time=lambda m: m.imag)
    builder.add(complex(1, 2), 0)
    with pytest.raises(TypeError, match="complex"):
        builder.dump()
    state = builder.dump(lambda message: [message.real, message.imag])
    other = EventTimeBuilder[Any].load(
        state,
        key=lambda m: m.real,
        event_time=lambda m: m.imag,
        decode=lambda told: complex(*told),
    )
    assert other.flush()[0].messages == [complex(1, 2)]


def test_e8_the_kind_of_times_is_remembered() -> None:
    fields: Any = {"key": "k", "event_time": "t"}
    builder = EventTimeBuilder[Any](5, 5, **fields)
    builder.add({"k": 1, "t": 1}, 0)
    builder.flush()
    other = EventTimeBuilder[Any].load(builder.dump(), **fields)
    with pytest.raises(ValueError, match="naive datetimes after numbers"):
        other.add({"k": 1, "t": datetime(2024, 1, 1)}, 0)


def test_e8_a_state_of_the_first_format_is_read() -> None:
    state = b"""{"format": "dispatcher.builders/1", "state": {"dict": [["rule", "timeout"],
    ["spans", [50, 100]], ["memory", 150], ["now", 230], ["kind", "numbers"], ["duplicates", 1],
    ["dropped", 0], ["open", [[155, 205, false, [[230, {"dict": [["k", "b"], ["t", 155]]}]]]]],
    ["closed", [[360, [{"tuple": ["a", 100]}]]]]]}}"""
    builder = EventTimeBuilder[Any].load(state, key="k", event_time="t")
    assert builder.deadline == 330
    assert builder.remembers_until == 360
    assert builder.add({"k": "a", "t": 100}, 240) == []
    assert builder.duplicates == 2
    assert [batch.messages for batch in builder.flush()] == [[{"k": "b", "t": 155}]]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_e8_times_of_pandas_are_taken_and_saved(zone: str | None) -> None:
    def at(second: int) -> Any:
        return pandas.Timestamp(f"2026-05-01T08:00:{second:02}.123456", tz=zone)

    def built() -> EventTimeBuilder[Any]:
        return EventTimeBuilder(20, 30, key="type", event_time="at")

    builder, plain = built(), built()
    for second in (1, 9, 40, 5):
        message = {"type": f"t{second}", "at": at(second)}
        assert builder.add(message, at(second)) == plain.add(
            {**message, "at": message["at"].to_pydatetime()}, at(second).to_pydatetime()
        )
    saved = builder.dump()
    assert saved == plain.dump()
    loaded = EventTimeBuilder[Any].load(saved, key="type", event_time="at")
    assert loaded.dump() == saved
    assert loaded.flush() == builder.flush() == plain.flush()


def test_e8_a_time_finer_than_datetimes_is_refused_by_name() -> None:
    builder = EventTimeBuilder[Any](20, 30, key="type", event_time="at")
    fine = pandas.Timestamp("2026-05-01T08:00:00.123456789")
    for message, now in (({"type": "a", "at": fine}, 0), ({"type": "a", "at": pandas.NaT}, 0)):
        with pytest.raises(MeasurementError, match=r"its event_time must be a .*(Timestamp|NaT)"):
            builder.add(message, now)
    with pytest.raises(TypeError, match="is a Timestamp, which cannot be saved as it is"):
        pack([fine])
    with pytest.raises(TypeError, match="is a NaTType"):
        pack([pandas.NaT])


WRONG: tuple[Any, ...] = (
    None,
    True,
    "x",
    -1,
    1.5,
    [],
    [1],
    {"dict": []},
    {"tuple": []},
    {"bytes": "00"},
    10**30,
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all that a state is made of."""
    yield path
    if isinstance(value, dict | list):
        for place, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(one, (*path, place))


def loaded_from(data: bytes) -> EventTimeBuilder[Any]:
    return EventTimeBuilder.load(data, key="k", event_time="at")


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], other)
    return copied


def test_what_is_loaded_works_or_is_refused_whatever_has_become_of_it() -> None:
    made: EventTimeBuilder[Any] = EventTimeBuilder(50, 100, key="k", event_time="at")
    for at in range(5):
        made.add({"k": "a", "at": at * 40}, now=at * 40)
    state = json.loads(made.dump())
    cases = 0
    for path in leaves(state):
        for other in WRONG:
            data = json.dumps(replaced(state, path, other)).encode()
            cases += 1
            try:
                loaded = loaded_from(data)
            except ValueError:
                continue
            assert loaded.duplicates + 1 > 0, path
            assert loaded.deadline is None or loaded.deadline + 1 > 0, (path, other)
            loaded.add({"k": "new", "at": 500}, now=500)
            loaded.add({"k": "a", "at": 501}, now=700)
            again = loaded_from(loaded.dump())
            assert again.flush() == loaded.flush()
    assert cases > 400
