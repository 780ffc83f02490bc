"""Keys: how their secrets are kept, and the first ones. How secrets look: `forms`.

A secret is shown once and never stored; what is kept is its SHA-256. That is enough for secrets of 256 random
bits; nobody can try them all, so the slow hash that passwords need would only slow down every request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import Final
from uuid import UUID

import structlog

from tickwise.control.keys.forms import SecretKind
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Misconfigured
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal, time_id
from tickwise.domain.permissions import EVERYTHING
from tickwise.ports.clock import Clock
from tickwise.ports.identity import KeyOrigin, Keys, NewKey

SHOWN_CHARACTERS: Final = len(SecretKind.KEY) + 8
"""Of a secret's beginning in lists. 208 bits stay unknown."""
ADMIN: Final = "admin"
"""The principal of the installation's own keys."""

BOOTSTRAP_CHARACTERS_MIN: Final = 32
_CHARACTERS_LEAST: Final = 8
"""Different ones: of 32 random hexadecimal digits fewer are the same in one of ten million draws."""
_PAIRS_LEAST: Final = 16
"""Different pairs of adjacent characters: of 32 random hexadecimal digits about 29 are. A repeated word has few."""

logger = structlog.get_logger("tickwise.keys")


def secret_digest(secret: bytes) -> bytes:
    """The stored part of a secret."""
    return sha256(secret).digest()


def key_of(clock: Clock, secret: str, principal: Principal, origin: KeyOrigin, *, by: str | None = None) -> NewKey:
    """A key to keep. Of a secret that we did not make, nothing may be shown."""
    identifier: UUID = time_id(int(clock.now() * 1000), clock.random_bytes(10))
    return NewKey(
        key_id=identifier,
        digest=secret_digest(secret.encode()),
        principal=principal,
        origin=origin,
        prefix=None if origin is KeyOrigin.SETTING else secret[:SHOWN_CHARACTERS],
        created_by=by,
    )


def admin_key(clock: Clock, secret: str, origin: KeyOrigin) -> NewKey:
    """A key of the installation's administrator."""
    principal = Principal(ADMIN, DEFAULT_NAMESPACE, frozenset({EVERYTHING}))
    return replace(key_of(clock, secret, principal, origin), namespaces=frozenset({INSTALLATION}))


async def admit_setting(keys: Keys, clock: Clock, secret: str) -> Sequence[UUID] | None:
    """Let the `bootstrap_key` of the settings in, and revoke those that it replaces: which these were; None:
    it stays out. Raises `Misconfigured` for a secret that can be guessed.

    A secret that was revoked or replaced stays out: a process that still has an old setting brings nothing back.
    """
    check_strength(secret)
    replaced = await keys.of_setting(admin_key(clock, secret, KeyOrigin.SETTING))
    if replaced is None:
        logger.error("bootstrap_key_revoked")
        return None
    for key_id in replaced:
        logger.warning("bootstrap_key_replaced", key_id=str(key_id))
    return replaced


def check_strength(secret: str, setting: str = "TICKWISE_BOOTSTRAP_KEY") -> None:
    """Raise `Misconfigured` if a secret that a person chose is none: short, or made of what is easily guessed."""
    weakness = _weakness(secret)
    if weakness is not None:
        raise Misconfigured(f"{setting} {weakness}; make one with: openssl rand -hex 32")


def _weakness(secret: str) -> str | None:
    if len(secret) < BOOTSTRAP_CHARACTERS_MIN:
        return f"has {len(secret)} characters, at least {BOOTSTRAP_CHARACTERS_MIN} are needed"
    if len(set(secret)) < _CHARACTERS_LEAST:
        return f"consists of {len(set(secret))} different characters, so it can be guessed"
    adjacent = list(pairwise(secret))
    if len(set(adjacent)) < _PAIRS_LEAST:
        return "repeats itself, so it can be guessed"
    steps = sum(abs(ord(after) - ord(before)) <= 1 for before, after in adjacent)
    if 2 * steps > len(adjacent):
        return "counts characters up or down, so it can be guessed"
    return None
