"""Sealing: encryption of what must be stored and read back, by the installation's key.

    plain ──data key of its own──► sealed value ─┐
    data key ──installation's key──► sealed key ─┴──► stored;  rotation replaces the sealed key alone

A context is a text that names the place of a value, such as `secret/default/db-password/3`. It is bound to the value:
opened with another context, the value is refused. So a row that was copied to another place opens nowhere.

Invariant: no key and no plain value is written to a log, an error or the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

COMMAND_KEY_ID: Final = b"command\0"
"""The id of the key behind a command, of however many versions it has there."""
NO_KEY: Final = (
    "this installation has no key for secrets: set TICKWISE_SECRETS_KEY for its APIs and executors (tickwise secrets "
    "new-key makes one), TICKWISE_SECRETS_KEY_FILE or TICKWISE_SECRETS_KEY_COMMAND"
)


class SealedParts(NamedTuple):
    """A sealed value in two parts, so that a rotation writes the small one alone."""

    key: bytes
    """The data key, wrapped by the installation's key, with the id of that key."""
    value: bytes
    """The encrypted value."""


class Sealer(Protocol):
    """Seals single values."""

    async def seal(self, plain: bytes, context: str) -> bytes:
        """The plain value, encrypted under a data key of its own. It is about 80 bytes longer with a key of the
        settings; a command may wrap in more. Raises `SealingUnavailable`."""
        ...

    async def open(self, sealed: bytes, context: str) -> bytes:
        """The plain value that was sealed in this context. Raises `NotOpened` if its key is not set, or if the bytes or
        the context are others; `SealingUnavailable` if the command that has the key does not answer."""
        ...


class EnvelopeSealer(Sealer, Protocol):
    """Seals values in parts, and wraps their data keys anew."""

    @property
    def newest(self) -> bytes | None:
        """The id of the key that wraps; None: no key is set."""
        ...

    @property
    def known(self) -> Sequence[bytes]:
        """The ids of all keys that are set, the newest first."""
        ...

    async def seal_parts(self, plain: bytes, context: str) -> SealedParts:
        """As `seal`, in parts. Raises `SealingUnavailable`."""
        ...

    async def open_parts(self, sealed: SealedParts, context: str) -> bytes:
        """As `open`, of parts. Raises `NotOpened`, `SealingUnavailable`."""
        ...

    async def rewrap(self, sealed_key: bytes) -> bytes:
        """The same data key, wrapped by the newest key. Raises `NotOpened`, `SealingUnavailable`."""
        ...


def key_id_of(sealed: bytes) -> bytes:
    """The id of the key that wraps the data key of a sealed value, or of its first part: 8 bytes."""
    return sealed[1:9]


def key_text(key_id: bytes) -> str:
    """The text that names a key to people: 16 hexadecimal digits, or `command`."""
    return "command" if key_id == COMMAND_KEY_ID else key_id.hex()
