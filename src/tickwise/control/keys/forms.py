"""The text of secrets: a prefix that says what it is, a random body, and a checksum.

    tw_  +  43 characters of 256 random bits  +  6 characters of CRC-32        keys
    twr_ +  the same                                                           refresh tokens
    twl_ +  the same                                                           secrets of links
    twc_ +  the same                                                           cookies of the pages
    twd_ +  the same                                                           device codes of terminals

The form is that of GitHub's tokens: body and checksum in base62, so that a double click selects all of it, and one
regular expression finds every secret (https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/).
The checksum covers prefix and body. It is no protection: anybody can compute it, so it tells nobody whether a secret is
good. It lets a scanner sort out look-alikes, and a mistyped secret is refused without a query.

Secrets of earlier releases have 43 characters after `tw_`, and a bootstrap key may have any form: neither has a
checksum, and both are looked up as they are.
"""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import sha256
from typing import Final
from zlib import crc32

from tickwise.ports.clock import Clock

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The digits of base62, in the order of ASCII."""
SECRET_BYTES: Final = 32
BODY_CHARACTERS: Final = 43
"""62 ** 43 is the first power above 2 ** 256."""
CHECK_CHARACTERS: Final = 6
"""62 ** 6 is the first power above 2 ** 32."""


class SecretKind(StrEnum):
    """The kind of a secret; the value is its prefix."""

    KEY = "tw_"
    REFRESH = "twr_"
    LINK = "twl_"
    COOKIE = "twc_"
    DEVICE = "twd_"


PATTERN: Final = rf"\btw[cdlr]?_[0-9A-Za-z]{{{BODY_CHARACTERS + CHECK_CHARACTERS}}}\b"
"""Finds every secret of this form in a text: for scanners."""
_FORM: Final = re.compile(rf"(tw[cdlr]?_)([0-9A-Za-z]{{{BODY_CHARACTERS}}})([0-9A-Za-z]{{{CHECK_CHARACTERS}}})")
_NOUNS: Final = {
    SecretKind.KEY: "an API key",
    SecretKind.REFRESH: "a refresh token",
    SecretKind.LINK: "the secret of a link",
    SecretKind.COOKIE: "a cookie of the pages",
    SecretKind.DEVICE: "the device code of a terminal",
}


def new_secret(clock: Clock, kind: SecretKind = SecretKind.KEY) -> str:
    """A secret of 256 random bits."""
    body = _base62(int.from_bytes(clock.random_bytes(SECRET_BYTES), "big"), BODY_CHARACTERS)
    return f"{kind}{body}{checksum(kind, body)}"


def checksum(prefix: str, body: str) -> str:
    """The CRC-32 (that of zlib and of PNG) of prefix and body, in base62 with leading zeros."""
    return _base62(crc32(f"{prefix}{body}".encode()), CHECK_CHARACTERS)


def is_genuine(text: str) -> bool:
    """Check whether a text has the form of a secret and the checksum that fits."""
    found = _FORM.fullmatch(text)
    return found is not None and checksum(found[1], found[2]) == found[3]


class SecretForms:
    """Says of a secret that was shown, without a query, whether it cannot be one of the wanted kind."""

    def __init__(self, chosen: str | None = None) -> None:
        """`chosen`: the bootstrap key of the settings, which may have any form."""
        self._chosen = None if chosen is None else sha256(chosen.encode()).digest()

    def fault(self, text: str, wanted: SecretKind) -> str | None:
        """The sentence that says why this text cannot be a secret of this kind; None: it has to be looked up."""
        found = _FORM.fullmatch(text)
        if found is None or (self._chosen is not None and sha256(text.encode()).digest() == self._chosen):
            return None
        if checksum(found[1], found[2]) != found[3]:
            return (
                f"this is not {_NOUNS[wanted]} as it was given out: its checksum does not fit, so a character of it is "
                "wrong; copy it again, whole"
            )
        kind = SecretKind(found[1])
        return None if kind is wanted else f"this is {_NOUNS[kind]}, and {_NOUNS[wanted]} is needed here"


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
