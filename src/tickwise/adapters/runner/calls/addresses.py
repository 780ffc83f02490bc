"""The address that an http task calls, as a text."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from tickwise.domain.errors import Invalid

MAX_URL_CHARACTERS: Final = 8_192


def check_url(url: str, *, pointer: str | None = None) -> str:
    """An address that an http task may call. Raises `Invalid`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may quote a password
        raise Invalid(
            "the address cannot be read: its host or port is none; write signs such as / and # in a password as %2F "
            "and %23",
            pointer=pointer,
        ) from None
    if parts.scheme not in ("http", "https"):
        raise Invalid("the address must begin with `http://` or `https://`", pointer=pointer)
    if not parts.hostname or port == 0:
        raise Invalid("the address names no host, as in `https://example.com/path`", pointer=pointer)
    if any(character <= " " or character == "\x7f" for character in url):
        raise Invalid("the address contains a blank or a control character; encode it (`%20`)", pointer=pointer)
    return url
