"""The errors of msgspec in words for people: the value to write, with an example where one helps.

Expected `int`, got `str`       ──► write a whole number, not a text
Expected `float` <= 2592000.0   ──► write a number of at most 2592000
Expected `str` of length >= 1   ──► write a text of at least 1 character
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tickwise.control.bodies import LABEL_PATTERN, QUEUE_PATTERN

TYPES: Final[Mapping[str, str]] = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "null", "datetime": "a time", "uuid": "an id (a UUID)",
}  # fmt: skip
_UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "str": ("character", "characters"), "array": ("item", "items"), "object": ("member", "members"),
}  # fmt: skip
_BOUNDS: Final[Mapping[str, str]] = {">=": "of at least", "<=": "of at most", ">": "greater than", "<": "less than"}
PATTERNS: Final[Mapping[str, str]] = {
    QUEUE_PATTERN: "a name of at most 100 letters, digits, dots, hyphens and underscores that begins with a letter or "
    "a digit, such as reports or gpu-large",
    LABEL_PATTERN: "a label, as NAME or NAME=VALUE, of letters, digits, dots, slashes, hyphens and underscores, such "
    "as zone=eu",
    r"^\d{1,18}$(?!\n)": "the number of an executor",
    r"^[A-Za-z0-9_-]+$(?!\n)": "a text of letters, digits, hyphens and underscores, as it was given out",
}
"""Regular expressions of bodies and parameters. One that is missing is shown as it is."""

_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND = re.compile(r"Expected `(\w+)` (>=|<=|>|<) (\S+)")
_LENGTH = re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)")
_PATTERN = re.compile(r"Expected `str` matching regex (['\"])(.*)\1", re.DOTALL)
_FIXED: Final[Mapping[str, str]] = {
    "Invalid RFC3339 encoded datetime": "write a time as RFC 3339, such as 2027-09-25T10:00:00Z",
    "Expected `datetime` with a timezone component": "write a time with its timezone, such as 2027-09-25T10:00:00Z",
    "Invalid UUID": "write an id (a UUID), such as 018f0000-0000-8000-8000-000000000001",
}


def sentence(said: str) -> str:
    """An error of msgspec in words for people. A text that is not known begins with a small letter."""
    if (fixed := _FIXED.get(said)) is not None:
        return fixed
    if (found := _TYPE.fullmatch(said)) is not None:
        return f"write {_types(found[1])}, not {_types(found[2])}"
    if (found := _BOUND.fullmatch(said)) is not None:
        return f"write {TYPES.get(found[1], found[1])} {_BOUNDS[found[2]]} {_number(found[3])}"
    if (found := _LENGTH.fullmatch(said)) is not None:
        one, many = _UNITS.get(found[1], ("item", "items"))
        return f"write {_types(found[1])} {_BOUNDS[found[2]]} {found[3]} {one if found[3] == '1' else many}"
    if (found := _PATTERN.fullmatch(said)) is not None:
        pattern = found[2].replace("\\\\", "\\")
        return f"write {PATTERNS[pattern]}" if pattern in PATTERNS else f"write a text that fits {pattern}"
    said = said.replace("`", "")
    return said[:1].lower() + said[1:]


def _types(said: str) -> str:
    """`str | null` as `a text or null`."""
    return " or ".join(TYPES.get(each.strip(), each.strip()) for each in said.split("|"))


def _number(text: str) -> str:
    return text.removesuffix(".0")
