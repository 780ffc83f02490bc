"""The notes of a shared state: their limits and their encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tickwise.ports.shared_state import MAX_FACTS_BYTES, MAX_NAME_LENGTH, MAX_TTL_SECONDS, Facts, Note

_decoder: Final = msgspec.json.Decoder(dict[str, Any])


def written(notes: Sequence[Note], ttl_seconds: float) -> list[tuple[str, str, str]]:
    """Kind, name and facts of each, the last of a name alone. Raises `ValueError` as the port says."""
    if not 0 < ttl_seconds <= MAX_TTL_SECONDS:
        raise ValueError(f"a note is kept for more than 0 and at most {MAX_TTL_SECONDS:g} s, not {ttl_seconds}")
    found: dict[tuple[str, str], str] = {}
    for kind, name, facts in notes:
        check_name(kind)
        check_name(name)
        try:
            text = msgspec.json.encode(facts).decode()
        except (TypeError, UnicodeError) as wrong:
            raise ValueError(f"facts are JSON values under names: {wrong}") from None
        if len(text) > MAX_FACTS_BYTES or "\\u0000" in text:
            raise ValueError(f"the facts of a note are at most {MAX_FACTS_BYTES} bytes of JSON, without U+0000")
        found[kind, name] = text
    return [(kind, name, text) for (kind, name), text in found.items()]


def check_name(name: str) -> None:
    """Raises `ValueError` for what is no name."""
    if not 0 < len(name) <= MAX_NAME_LENGTH or "\0" in name:
        raise ValueError(f"a kind or a name has 1 to {MAX_NAME_LENGTH} characters, and no U+0000")
    name.encode()  # a lone surrogate is a ValueError too


def read(text: str | bytes) -> Facts | None:
    """The facts; None if these are none of ours."""
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None
