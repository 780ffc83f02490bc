"""Conversions: a value has one form in JSON, and both sides check it."""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise_sdk import RegistrationError
from tickwise_sdk.conversion import Mismatch, conversion_of

UTC = timezone.utc  # noqa: UP017 - as programs on Python 3.10 write it
AN_ID = UUID("019a2b3c-4d5e-8f60-9123-456789abcdef")
UserId = NewType("UserId", int)


class Colour(enum.Enum):
    """A plain enumeration."""

    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int = 0


class Address(TypedDict, total=False):
    """A dictionary with known members."""

    street: str
    since: date


@dataclass
class Node:
    """A class that contains itself."""

    name: str
    below: list[Node] = field(default_factory=list)


class Parcel(msgspec.Struct):
    """A struct."""

    weight: float
    due: date


class Customer(pydantic.BaseModel):
    """A model."""

    email: str = pydantic.Field(alias="e-mail")
    born: date


TRAVELS: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (float, 3, 3.0),
    (str, "ä", "ä"),
    (bool, True, True),
    (None, None, None),
    (bytes, b"\x00\xff", "AP8="),
    (UUID, AN_ID, str(AN_ID)),
    (Decimal, Decimal("1.10"), "1.10"),
    (date, date(2026, 1, 31), "2026-01-31"),
    (datetime, datetime(2026, 1, 31, 10, tzinfo=UTC), "2026-01-31T10:00:00+00:00"),
    (time, time(10, 30), "10:30:00"),
    (timedelta, timedelta(minutes=1.5), 90.0),
    (Colour, Colour.RED, "red"),
    (UserId, 7, 7),
    (Annotated[int, "a note"], 7, 7),
    (Literal["a", 1] | None, 1, 1),
    (int | None, None, None),
    (date | int, 3, 3),
    (date | int, date(2026, 1, 31), "2026-01-31"),
    (list[date], [date(2026, 1, 31)], ["2026-01-31"]),
    (Sequence[int], [1, 2], [1, 2]),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (tuple[int, ...], (1, 2), [1, 2]),
    (frozenset[int], frozenset({1}), [1]),
    (dict[str, date], {"a": date(2026, 1, 31)}, {"a": "2026-01-31"}),
    (Mapping[Colour, int], {Colour.BLUE: 1}, {"blue": 1}),
    (Point, Point(1), {"x": 1, "y": 0}),
    (Address, {"street": "a", "since": date(2026, 1, 31)}, {"street": "a", "since": "2026-01-31"}),
    (Node, Node("a", [Node("b")]), {"name": "a", "below": [{"name": "b", "below": []}]}),
    (Parcel, Parcel(1.5, date(2026, 1, 31)), {"weight": 1.5, "due": "2026-01-31"}),
    (
        Customer,
        Customer.model_validate({"e-mail": "a@b", "born": "2000-01-01"}),
        {"e-mail": "a@b", "born": "2000-01-01"},
    ),
    (list[Parcel | None], [Parcel(1.0, date(2026, 1, 31)), None], [{"weight": 1.0, "due": "2026-01-31"}, None]),
]


@pytest.mark.parametrize(("kind", "value", "written"), TRAVELS, ids=lambda each: str(each)[:40])
def test_a_value_comes_back_as_it_was(kind: Any, value: Any, written: Any) -> None:
    """After a journey as JSON."""
    found = conversion_of(kind, subject="it")
    sent = found.to_json(value)
    assert written == sent
    assert value == found.from_json(json.loads(json.dumps(sent)))


@pytest.mark.parametrize(("kind", "value", "written"), TRAVELS, ids=lambda each: str(each)[:40])
def test_a_worker_encodes_natively_what_is_called_native(kind: Any, value: Any, written: Any) -> None:
    """The result of a function that a worker calls without the SDK is read by a client with it."""
    found = conversion_of(kind, subject="it")
    if found.is_native:
        assert value == found.from_json(json.loads(msgspec.json.encode(value)))


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (int, True, "expected a whole number, got True"),
        (int, 3.0, "expected a whole number, got 3.0"),
        (float, float("nan"), "expected a number, got nan"),
        (float, 10**400, "expected a number, got 1000"),
        (datetime, "2026-01-31T10:00:00", "expected a time with its offset"),
        (date, "2026-01-31T10:00:00Z", "expected a date such as 2026-01-31"),
        (Colour, "green", "expected one of 'red', 'blue', got 'green'"),
        (Literal["a", 1], True, "expected one of 'a', 1, got True"),
        (int | None, "3", "expected int or null, got '3'"),
        (list[date], ["2026-01-31", 3], "`[1]`: expected a date such as 2026-01-31, got 3"),
        (dict[str, int], {"a": None}, "`a`: expected a whole number, got None"),
        (Node, {"name": "a", "below": [{"nam": "b"}]}, "`below[0]`: expected an object with `name`"),
        (Node, {"name": "a", "more": 1}, "expected an object without `more`"),
        (Address, {"since": 3}, "`since`: expected a date"),
        (Parcel, {"weight": "heavy"}, "expected a Parcel (Expected `float`, got `str` - at `$.weight`)"),
        (Customer, {"e-mail": 3, "born": "2000-01-01"}, "expected a Customer (1 validation error"),
        (tuple[int, int], [1], "expected a list of 2 values, got [1]"),
        (bytes, "?", "expected bytes, in base64"),
        (Decimal, "NaN", "expected a decimal number"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_told_with_its_place(kind: Any, wrong: Any, said: str) -> None:
    """What was expected, and what came."""
    with pytest.raises(Mismatch) as caught:
        conversion_of(kind, subject="it").from_json(wrong)
    assert str(caught.value).startswith(said), str(caught.value)


MIDNIGHT = datetime(2026, 1, 31)  # noqa: DTZ001 - a time without a zone is what is refused


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [(datetime, MIDNIGHT), (date, MIDNIGHT), (Node, {"name": "a"}), (int, "3"), (Colour, "red")],
    ids=str,
)
def test_a_client_sends_no_value_of_another_type(kind: Any, wrong: Any) -> None:
    """Not even one that would be read on the other side."""
    with pytest.raises(Mismatch):
        conversion_of(kind, subject="it").to_json(wrong)


@pytest.mark.parametrize(
    "kind", [complex, type, dict[int, str], object(), "later", list[complex], enum.Enum("E", {"A": 1.5})]
)
def test_a_type_that_cannot_travel_is_refused(kind: Any) -> None:
    """Where it is declared."""
    with pytest.raises(RegistrationError, match="the parameter `a`: a value of type .* cannot travel as JSON"):
        conversion_of(kind, subject="the parameter `a`")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_no_json_makes_a_conversion_fail_in_another_way(value: Any) -> None:
    """A payload may be anything: it fits, or it is refused."""
    for kind, _, _ in TRAVELS:
        found = conversion_of(kind, subject="it")
        with contextlib.suppress(Mismatch):
            again = found.from_json(value)
            assert found.from_json(json.loads(json.dumps(found.to_json(again)))) == again
