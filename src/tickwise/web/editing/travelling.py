"""The files that travel with a task, as people read them: a text as lines, anything else by its size. Pure."""

from __future__ import annotations

import binascii
import io
import tokenize
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

BASE64: Final = "base64"


class TravellingFile(NamedTuple):
    """A file by its name in the task's folder."""

    name: str
    text: str | None
    """None: it is no text."""
    size: int
    """In bytes."""


def travelling_files(files: Any) -> list[TravellingFile]:
    """The files of a task's field `files`, in the order of their names."""
    if not isinstance(files, Mapping):
        return []
    return [_file(str(name), content) for name, content in sorted(files.items())]


def _file(name: str, content: Any) -> TravellingFile:
    if isinstance(content, str):
        return TravellingFile(name, content, len(content.encode()))
    encoded = content.get(BASE64) if isinstance(content, Mapping) else None
    try:
        raw = b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except binascii.Error:
        raw = b""
    return TravellingFile(name, _declared(raw) if name.endswith(".py") else None, len(raw))


def _declared(raw: bytes) -> str | None:
    """The text of a module that says its encoding (PEP 263), such as Latin-1."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return raw.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return None
