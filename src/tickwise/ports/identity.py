"""Who may do what. The smallest honest form: hashed keys that stand for a principal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from tickwise.domain.model import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to keep. The secret itself is never stored: `digest` is its SHA-256."""

    key_id: UUID
    digest: bytes
    principal: Principal
    label: str


class Keys(Protocol):
    """API keys, looked up by the hash of the secret."""

    async def key_add(self, key: NewKey) -> bool:
        """Keep it; False, and nothing changes, if a key with this digest is there already."""
        ...

    async def key_find(self, digest: bytes) -> Principal | None:
        """Whose key this is, or None."""
        ...

    async def keys_count(self) -> int:
        """How many keys there are: none means that nobody was ever let in."""
        ...
