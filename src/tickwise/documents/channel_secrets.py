"""The secrets of a channel as they are stored: sealed, bound to the channel.

    {"url": …, "password": …} ──seal──► {"sealed": base64} ──open──► {"url": …, "password": …}

Where no key is set they are stored as they are, and so they were before there was sealing; both are read for ever.
Invariant: sealed secrets of one channel open for no other.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from tickwise.domain.errors import NotOpened
from tickwise.ports.sealing import EnvelopeSealer, key_id_of

SEALED: Final = "sealed"
"""The only field of secrets that are sealed; no channel has one of this name."""


async def sealed_secrets(
    secrets: Mapping[str, str], channel_id: UUID, sealer: EnvelopeSealer | None
) -> Mapping[str, str]:
    """The secrets for the store. Raises `SealingUnavailable`."""
    if not secrets or sealer is None or sealer.newest is None:
        return secrets
    plain = json.dumps(dict(secrets)).encode()
    return {SEALED: b64encode(await sealer.seal(plain, _context(channel_id))).decode()}


async def opened_secrets(kept: Mapping[str, str], channel_id: UUID, sealer: EnvelopeSealer | None) -> Mapping[str, str]:
    """The secrets as a sender takes them. Raises `NotOpened`, `SealingUnavailable`."""
    if SEALED not in kept:
        return kept
    if sealer is None:
        raise NotOpened("the secrets of this channel are sealed, and this process has no key: set TICKWISE_SECRETS_KEY")
    opened: dict[str, str] = json.loads(await sealer.open(b64decode(kept[SEALED]), _context(channel_id)))
    return opened


def sealed_under(kept: Mapping[str, str]) -> bytes | None:
    """The id of the key that they are sealed under; None: they are not sealed."""
    return key_id_of(b64decode(kept[SEALED])) if SEALED in kept else None


def _context(channel_id: UUID) -> str:
    return f"channel/{channel_id}"
