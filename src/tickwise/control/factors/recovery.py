"""Recovery codes: for people who have lost their phone or key. Each works once.

A code has 120 random bits, so its SHA-256 is enough to keep (NIST SP 800-63B, section 3.1.2.2). It is written in the 32
characters of Crockford, which leave out letters that look like digits; those are read as these digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from tickwise.ports.clock import Clock

CODES: Final = 10
"""Recovery codes of one person."""
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
CHARACTERS: Final = 24
GROUP: Final = 4
_READ_AS: Final = str.maketrans("oil", "011")


def new_codes(clock: Clock) -> Sequence[str]:
    """New codes as people write them, such as `4k2m-…`."""
    return [_new_code(clock) for _ in range(CODES)]


def recovery_digest(text: str) -> bytes | None:
    """The digest of a code that a person typed; None: the text has another form."""
    plain = "".join(text.split()).replace("-", "").lower().translate(_READ_AS)
    if len(plain) != CHARACTERS or any(each not in ALPHABET for each in plain):
        return None
    return sha256(b"tickwise recovery code\0" + plain.encode()).digest()


def _new_code(clock: Clock) -> str:
    number = int.from_bytes(clock.random_bytes(CHARACTERS * 5 // 8), "big")
    plain = "".join(ALPHABET[number >> 5 * place & 31] for place in range(CHARACTERS))
    return "-".join(plain[start : start + GROUP] for start in range(0, CHARACTERS, GROUP))
