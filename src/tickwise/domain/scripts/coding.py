"""The bytes of a Python script, as Python itself reads them, and its text.

    bytes of a file ──source_text──► text ──(JSON, the store)──► source_bytes ──► bytes of a file

Python reads a script as UTF-8 unless its first or second line names another coding (PEP 263). The text of such a script
travels as JSON, and is written in its own coding again before it runs. Invariant: what `source_text` reads,
`source_bytes` gives back, but for a byte order mark, which says nothing in UTF-8.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from tickwise.domain.errors import Invalid

_BOM: Final = "\ufeff"
_COOKIE: Final = re.compile(r"[ \t\f]*#[^\n\r]*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_BLANK: Final = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?")
_UTF8: Final = frozenset({"utf-8", "utf-8-sig"})
_CODINGS: Final = re.compile(
    r"ascii|latin-1|iso8859-\d{1,2}|cp\d{3,4}|koi8-[rtu]|mac-[a-z-]+|big5|gbk|gb2312|gb18030|shift_jis|euc_(?:jp|kr)"
)
"""Codings of text whose work grows with the length of a text and no faster, by the names that Python gives them."""


def source_bytes(source: str) -> bytes:
    """The script in the coding that it names. Raises `Invalid`, code `script_invalid`, if it cannot be written so."""
    coding = _coding(source)
    try:
        return source.encode(coding)
    except UnicodeEncodeError as error:
        if coding == "utf-8":
            detail = "the script holds half of a surrogate pair"
        else:
            line = source.count("\n", 0, error.start) + 1
            detail = (
                f"the script says that it is written in {coding}, which has no {source[error.start]!r} (line {line}); "
                "save it as UTF-8 and take the coding out of its first lines"
            )
        raise Invalid(detail, pointer="/source", code="script_invalid") from None


def source_text(content: bytes) -> str:
    """The text of a script's file. Raises `Invalid`, code `script_invalid`, for a file that Python could not read."""
    is_marked = content.startswith(codecs.BOM_UTF8)
    head = content[:4_096].decode("latin-1")
    coding = "utf-8" if is_marked else _coding(head)
    try:
        return content.decode("utf-8-sig" if is_marked else coding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(
            f"the script is not {coding.upper()} text: {error.reason} at byte {error.start} (line {line}). Save it as "
            "UTF-8, or name its coding in the first line: # -*- coding: latin-1 -*-",
            pointer="/source",
            code="script_invalid",
        ) from None


def _coding(source: str) -> str:
    """The coding that one of the first two lines names; UTF-8 if none does."""
    if source.startswith(_BOM):
        return "utf-8"
    lines = re.split(r"\r\n|\r|\n", source[:4_096], maxsplit=2)[:2]
    for line in lines:
        found = _COOKIE.match(line)
        if found is not None:
            return _known(found[1])
        if not _BLANK.fullmatch(line):
            break
    return "utf-8"


def _known(named: str) -> str:
    try:
        coding = codecs.lookup(named).name
    except LookupError:
        coding = ""
    if coding in _UTF8:
        return "utf-8"
    if not _CODINGS.fullmatch(coding):
        raise Invalid(
            f"the script says that it is written in {named[:50]!r}, a coding that is not known here; save it as UTF-8",
            pointer="/source",
            code="script_invalid",
        )
    return coding
