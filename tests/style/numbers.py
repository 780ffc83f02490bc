"""Which numbers of a statement have a meaning and no name: the rule of the columns that hold the number of a member."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tests.style.sql_text import inserts, without_comments


def nameless(statement: str, columns: Mapping[str, type]) -> list[str]:
    """What compares such a column with, or writes into it, a bare number or a member of another enum."""
    text = without_comments(statement)
    found = [*_compared(text, columns)]
    for names, values in inserts(text):
        for name, value in zip(names, values, strict=True):
            if name in columns and not _is_named(value, columns[name]):
                found.append(f"{name}: {value}")
    return found


def _compared(text: str, columns: Mapping[str, type]) -> Iterator[str]:
    any_of = "|".join(columns)
    column = rf"\b(?P<column>{any_of})(?:::\w+)?\s*"
    value = r"(?P<value>\d+\b|\{[\w.]+\}(?:,\s*(?:\{[\w.]+\}|\d+))*)"
    for rule in (
        rf"{column}(?P<sign>=|<>|<=|>=|<|>)\s*-?{value}",
        rf"{column}(?P<sign>IN\s*\(|=\s*ANY\s*\((?:ARRAY\[|'\{{)){value}",
        rf"{column}(?P<sign>=)\s*CASE\b.*?\bTHEN\s+-?{value}",  # assigned
        rf"\bCASE\s+(?:\w+\.)?{column}(?P<sign>)WHEN\s+{value}",
        rf"\bCASE\s+(?:\w+\.)?{column}(?P<sign>)WHEN\s+\S+\s+THEN\s+\S+\s+WHEN\s+{value}",
        rf"{value}(?P<sign>)\s+AS\s+(?P<column>{any_of})\b",
    ):
        for match in re.finditer(rule, text, re.DOTALL):
            # The sign of an overlap says whether the run is settled.
            is_sign = match["column"] == "overlap" and match["value"] == "0" and match["sign"] in ("<", ">", "<=", ">=")
            if not is_sign and not _is_named(match["value"], columns[match["column"]]):
                yield match[0]
    # The branches of `CASE … THEN {RunState.CANCELLED} ELSE state END` are of one enum.
    for match in re.finditer(rf"\bTHEN\s+-?\d+\s+ELSE\s+(?:\w+\.)?(?:{any_of})\s+END\b", text):
        yield match[0]
    # A small parameter holds such a number too.
    for match in re.finditer(r"\$\d+::smallint\s*(?:=|<>|<=|>=|<|>)\s*\d+", text):
        yield match[0]


def _is_named(value: str, of: type) -> bool:
    """Whether a value has no bare number, and no member of another enum than `of`."""
    bare = re.sub(r"'[^']*'|\$\d+", "", value)
    # What decides which branch is taken is judged where it is compared.
    results = re.findall(r"\b(?:THEN|ELSE)\s+(.+?)(?=\s+(?:WHEN|ELSE|END)\b)", bare) or [bare]
    return all(
        not re.search(r"(?<![\w.])\d+\b", result)
        and all(name == of.__name__ for name in re.findall(r"\{(\w+)\.", result))
        for result in results
    )
