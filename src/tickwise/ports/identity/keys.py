"""API keys: each stands for a principal, may expire, and can be taken back.

    add / first / of_setting ──► good ──┬─ revoke, or another setting ──► revoked, for ever
                                        └─ its time ────────────────────► expired

Invariant: a secret that was revoked never becomes good again. The secrets themselves are nowhere: a key is found by the
SHA-256 of its secret, which has at least 128 random bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.callers import Caller
from tickwise.domain.errors import Conflict
from tickwise.domain.model import Principal

MAX_KEYS: Final = 1_000
"""Good keys that one namespace may have; and of those that are revoked or expired, so many are kept."""


def check_keys_room(count: int) -> None:
    """Raise `Conflict`, code `keys_exhausted`, if a namespace with `count` good keys may have no more."""
    if count >= MAX_KEYS:
        raise Conflict(
            f"the namespace has {MAX_KEYS} keys that are good: revoke those that are no longer used",
            code="keys_exhausted",
        )


class KeyOrigin(StrEnum):
    """The origin of a key."""

    MADE = "made"
    """A caller requested it."""
    SETTING = "setting"
    """It is what `bootstrap_key` says. There is one such key at a time."""
    FIRST = "first"
    """It was made because there was none."""
    LOCAL = "local"
    """`up` made it for the command line of its machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to keep."""

    key_id: UUID
    digest: bytes
    """The SHA-256 of its secret."""
    principal: Principal
    """Its principal in the namespace of requests that name none. `principal.expires_at` is when the key expires,
    `principal.owner_id` its owner."""
    namespaces: frozenset[str] | None = None
    """The namespaces in which the key works; `*`: each one, and the installation itself. None: its own."""
    origin: KeyOrigin = KeyOrigin.MADE
    prefix: str | None = None
    """The beginning of the secret, which may be shown; None: nothing of it may be."""
    created_by: str | None = None
    """The name of the principal who asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key as it is listed."""

    key_id: UUID
    name: str
    namespace: str
    """The namespace of requests that name none."""
    namespaces: frozenset[str]
    """All in which it works; `*`: each one, and the installation itself."""
    scopes: frozenset[str]
    origin: KeyOrigin
    prefix: str | None
    created_by: str | None
    owner_id: UUID | None
    """The person with whose permissions it works; None: it needs nobody's."""
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    """To the minute or so; None: it was not used since keys say so."""
    revoked_at: float | None


class FoundKey(NamedTuple):
    """A good key."""

    caller: Caller
    """With the key's id, owner and expiry."""
    seconds_left: float | None
    """Until it expires, by the store's clock; None: it does not."""


class Keys(Protocol):
    """API keys. All may be called again after an `InDoubt`."""

    async def add(self, key: NewKey, *, audit: AuditEntry | None = None) -> bool:
        """Keep it; False, and nothing changes, if a key with this digest is or was there. Raises `Conflict`, code
        `keys_exhausted`, for one that was asked for where its namespace has `MAX_KEYS` good ones of these."""
        ...

    async def first(self, key: NewKey) -> bool:
        """Keep it if no key was ever kept, of any namespace. Of several processes that ask at once, one hears True."""
        ...

    async def of_setting(self, key: NewKey) -> Sequence[UUID] | None:
        """Keep it unless it is there, and revoke all other keys of origin SETTING: which these were. None, and nothing
        changes, if this one is revoked itself."""
        ...

    async def find(self, digest: bytes) -> FoundKey | None:
        """The good key with this digest."""
        ...

    async def of_id(self, key_id: UUID) -> FoundKey | None:
        """The good key with this id."""
        ...

    async def page(self, namespace: str | None, *, before: UUID | None, limit: int) -> Sequence[KeyRow]:
        """Keys of a namespace (None: of all), also those that are over, the newest id first; those below `before`."""
        ...

    async def revoke(self, namespace: str | None, key_id: UUID, *, audit: AuditEntry | None = None) -> KeyRow | None:
        """Revoke it; what was revoked stays as it is. None if the namespace (None: no namespace) has no such key."""
        ...

    async def used(self, ages: Mapping[UUID, float]) -> None:
        """Note how many seconds ago these were used; an earlier use than the noted one changes nothing.
        The first use of each leaves an entry in the audit log."""
        ...

    async def count(self) -> int:
        """The number of keys, valid or not: none means that no key was ever accepted."""
        ...
