"""What a statement says, as far as the style tests must know: lists of columns, and the values that go into them."""

from __future__ import annotations

import re
from collections.abc import Iterator


def without_comments(text: str) -> str:
    """The statement without its comments."""
    return re.sub(r"--[^\n]*", "", text)


def split(text: str) -> list[str]:
    """The parts between the commas that stand in no parentheses and no quotes."""
    parts, depth, quoted = [""], 0, False
    for each in text:
        quoted ^= each == "'"
        depth += 0 if quoted else (each == "(") - (each == ")")
        if each == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += each
    return [part.strip() for part in parts]


def inserts(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The columns and the values of each `INSERT … SELECT`."""
    for match in re.finditer(r"INSERT INTO [\w.]+(?: AS \w+)? \(([^)]*)\)\s*SELECT\b", text):
        yield split(match[1]), split(_selected(text[match.end() :]))


def _selected(text: str) -> str:
    """A list of values, up to the clause after it."""
    depth = 0
    for place, each in enumerate(text):
        depth += (each == "(") - (each == ")")
        if depth < 0 or (
            depth == 0 and re.match(r"(?:FROM|ON CONFLICT|RETURNING)\b", text[place:]) and not text[place - 1].isalnum()
        ):
            return text[:place]
    return text
