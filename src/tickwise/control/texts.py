"""Text that callers send: refused here if a store or a path could not carry it."""

from __future__ import annotations

import unicodedata
from typing import Final

from tickwise.domain.errors import Invalid

LINE_CHARACTERS_MAX: Final = 100
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs without a shape: the fillers of Hangul, and the empty cell of Braille."""

_BREAKING: Final = frozenset({"Cc", "Zl", "Zp"})
"""Categories of characters that end a line or that a terminal obeys."""


def clean_text(text: str, pointer: str) -> str:
    """The text, if every store can keep it."""
    if "\0" in text:
        raise Invalid("the character U+0000 cannot be stored; leave it out", pointer=pointer)
    return text


def clean_name(text: str, pointer: str) -> str:
    """A name, which stands on one line of lists, logs and mails. Raises `Invalid` for one with line breaks or control
    characters."""
    if text.isprintable():
        return text
    wrong = next((each for each in text if unicodedata.category(each) in _BREAKING), None)
    if wrong is not None:
        raise Invalid(
            f"a name is one line without control characters, and this one has U+{ord(wrong):04X}; leave it out",
            pointer=pointer,
        )
    return text


def clean_reason(text: str | None, pointer: str) -> str | None:
    """A reason or a note, if people can see it and every store can keep it. None, and an empty text, is none. Raises
    `Invalid`."""
    if not text:
        return text
    if not any(unicodedata.category(each)[0] in "LNPS" and each not in _BLANK for each in text):
        raise Invalid("there is nothing to see in this text; write it in words, or leave it out", pointer=pointer)
    return clean_text(text, pointer)


def clean_id(text: str, pointer: str) -> str:
    """The text, if it can stand in a path as one segment."""
    if "/" in text:
        raise Invalid("a slash would make it unreachable in a path; write another sign, such as a dot", pointer=pointer)
    return clean_text(text, pointer)


def clean_line(text: str, pointer: str, most: int = LINE_CHARACTERS_MAX) -> str:
    """A text of one line, which may stand in the subject of a mail. Raises `Invalid`."""
    line = text.strip()
    if not line:
        raise Invalid("write at least one character", pointer=pointer)
    if len(line) > most:
        raise Invalid(f"write at most {most} characters, these are {len(line)}", pointer=pointer)
    if not line.isprintable():
        raise Invalid("line breaks and control characters are not allowed here; write one line", pointer=pointer)
    return line
