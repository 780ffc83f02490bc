"""Text that callers send: refused here if a store or a path could not carry it."""

from __future__ import annotations

from tickwise.domain.errors import Invalid


def clean_text(text: str, pointer: str) -> str:
    """The text, if every store can keep it."""
    if "\0" in text:
        raise Invalid("the character U+0000 cannot be stored; leave it out", pointer=pointer)
    return text


def clean_id(text: str, pointer: str) -> str:
    """The text, if it can stand in a path as one segment."""
    if "/" in text:
        raise Invalid("a slash would make it unreachable in a path; write another sign, such as a dot", pointer=pointer)
    return clean_text(text, pointer)
