"""The width of texts in cells of a terminal: a wide character takes two, a combining one none."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

ELLIPSIS: Final = "…"
_NO_WIDTH: Final = frozenset({"Mn", "Me", "Cf"})


def width(text: str) -> int:
    """The cells that a text on one line takes."""
    return len(text) if text.isascii() else sum(map(_width_of, text))


def cut(text: str, most: int) -> str:
    """The text in `most` cells at most; one that was longer ends with an ellipsis."""
    if width(text) <= most:
        return text
    if most < 1:
        return ""
    kept, left = [], most - 1
    for character in text:
        left -= _width_of(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ELLIPSIS


def padded(text: str, cells: int) -> str:
    """The text with blanks up to so many cells."""
    return text + " " * (cells - width(text))


def wrapped(text: str, most: int) -> Iterator[str]:
    """The text in lines of `most` cells: broken at blanks, and a word that is longer anywhere. `most` is at least 2."""
    line = ""
    for word in text.split(" "):
        for piece in _pieces(word, most):
            joined = f"{line} {piece}" if line else piece
            if line and width(joined) > most:
                yield line
                line = piece
            else:
                line = joined
    yield line


def _pieces(word: str, most: int) -> list[str]:
    """A word in parts of `most` cells at most."""
    parts, part, used = [], "", 0
    for character in word:
        cells = _width_of(character)
        if used + cells > most:
            parts.append(part)
            part, used = "", 0
        part, used = part + character, used + cells
    return [*parts, part]


def _width_of(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
