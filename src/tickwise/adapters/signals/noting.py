"""Notes for a board: what may be one, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tickwise.ports.board import FACTS_BYTES_MOST, NAME_LENGTH_MOST, TTL_SECONDS_MOST, Facts, Note

_decoder: Final = msgspec.json.Decoder(dict[str, Any])


def written(notes: Sequence[Note], ttl_seconds: float) -> list[tuple[str, str, str]]:
    """Kind, name and facts of each, the last of a name alone. Raises `ValueError` as the port says."""
    if not 0 < ttl_seconds <= TTL_SECONDS_MOST:
        raise ValueError(f"a note is kept for more than 0 and at most {TTL_SECONDS_MOST:g} s, not {ttl_seconds}")
    found: dict[tuple[str, str], str] = {}
    for kind, name, facts in notes:
        check_name(kind)
        check_name(name)
        try:
            text = msgspec.json.encode(facts).decode()
        except (TypeError, UnicodeError) as wrong:
            raise ValueError(f"facts are JSON values under names: {wrong}") from None
        if len(text) > FACTS_BYTES_MOST or "\\u0000" in text:
            raise ValueError(f"the facts of a note are at most {FACTS_BYTES_MOST} bytes of JSON, without U+0000")
        found[kind, name] = text
    return [(kind, name, text) for (kind, name), text in found.items()]


def check_name(name: str) -> None:
    """Raises `ValueError` for what is no name."""
    if not 0 < len(name) <= NAME_LENGTH_MOST or "\0" in name:
        raise ValueError(f"a kind or a name has 1 to {NAME_LENGTH_MOST} characters, and no U+0000")
    name.encode()  # a lone surrogate is a ValueError too


def read(text: str | bytes) -> Facts | None:
    """The facts; None if these are none of ours."""
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None
