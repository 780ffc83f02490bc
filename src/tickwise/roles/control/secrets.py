"""Keys: how they look, how they are kept, and the first ones.

A secret is shown once and never stored; what is kept is its SHA-256. That is enough for secrets of 256 random
bits; nobody can try them all, so the slow hash that passwords need would only slow down every request.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final
from uuid import UUID

from tickwise.domain.errors import Misconfigured
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal, time_id
from tickwise.ports.clock import Clock
from tickwise.ports.identity import Keys, NewKey

PREFIX: Final = "tw_"
"""Lets people and secret scanners see what it is."""
SECRET_BYTES: Final = 32
BOOTSTRAP_CHARACTERS_MIN: Final = 32
ADMIN: Final = "admin"


def secret_digest(secret: bytes) -> bytes:
    """What is kept of a secret."""
    return sha256(secret).digest()


def new_secret(clock: Clock) -> str:
    """`tw_` and 43 URL-safe characters: 256 random bits."""
    return PREFIX + urlsafe_b64encode(clock.noise(SECRET_BYTES)).rstrip(b"=").decode()


async def ensure_keys(keys: Keys, clock: Clock, bootstrap_key: str | None) -> str | None:
    """Make sure that somebody can get in. The secret that was made for it, to be printed once, or None.

    A `bootstrap_key` is itself an admin key; without one, the first start makes a key. Raises `Misconfigured` for
    a bootstrap key that is too short to be a secret.
    """
    if bootstrap_key is not None:
        if len(bootstrap_key) < BOOTSTRAP_CHARACTERS_MIN:
            raise Misconfigured(
                f"TICKWISE_BOOTSTRAP_KEY has {len(bootstrap_key)} characters, at least {BOOTSTRAP_CHARACTERS_MIN} are "
                "needed; make one with: openssl rand -hex 32"
            )
        await keys.key_add(_admin_key(clock, bootstrap_key, "TICKWISE_BOOTSTRAP_KEY"))
        return None
    if await keys.keys_count():
        return None
    secret = new_secret(clock)
    await keys.key_add(_admin_key(clock, secret, "made at the first start"))
    return secret


async def add_admin_key(keys: Keys, clock: Clock, label: str) -> str:
    """Make one more admin key; its secret, which is not kept."""
    secret = new_secret(clock)
    await keys.key_add(_admin_key(clock, secret, label))
    return secret


def _admin_key(clock: Clock, secret: str, label: str) -> NewKey:
    identifier: UUID = time_id(int(clock.now() * 1000), clock.noise(10))
    return NewKey(
        key_id=identifier,
        digest=secret_digest(secret.encode()),
        principal=Principal(ADMIN, DEFAULT_NAMESPACE, frozenset({"*"})),
        label=label,
    )
