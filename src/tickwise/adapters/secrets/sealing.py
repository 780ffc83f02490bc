"""The sealer: AES-256-GCM under a data key for each value, and the data key wrapped by the installation's key.

    sealed key     1 | id of the key (8) | length (2) | wrapped data key
    sealed value   nonce (12) | encrypted value and tag; the context is its associated data
    sealed         both, one behind the other

A data key encrypts one value once, so no nonce can come twice under it. Unwrapped data keys are kept, a bounded number
for a bounded time: a command then answers once for many starts.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tickwise.adapters.secrets.keys import KEY_BYTES, WrappingKey
from tickwise.domain.errors import NotOpened, SealingUnavailable
from tickwise.ports.clock import Clock
from tickwise.ports.sealing import NO_KEY, SealedParts, key_id_of, key_text

KEPT_KEYS_MOST: Final = 1_000
KEPT_KEY_SECONDS: Final = 300.0
"""A key that was taken out of the settings, or out of the reach of a command, opens nothing after this time."""
_FORMAT: Final = 1
_HEAD: Final = struct.Struct(">B8sH")
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_LABEL: Final = b"tickwise: sealed value\0"


class EnvelopeSealing:
    """`ports.sealing.EnvelopeSealer` by the keys of the settings."""

    def __init__(self, keys: Sequence[WrappingKey], clock: Clock) -> None:
        """The first key wraps, each one unwraps; none: nothing can be sealed or opened."""
        self._keys = {key.key_id: key for key in reversed(keys)}
        self._newest = keys[0] if keys else None
        self._order = tuple(dict.fromkeys(key.key_id for key in keys))
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[bytes, float]] = OrderedDict()

    @property
    def newest(self) -> bytes | None:
        return None if self._newest is None else self._newest.key_id

    @property
    def known(self) -> Sequence[bytes]:
        return self._order

    async def seal(self, plain: bytes, context: str) -> bytes:
        parts = await self.seal_parts(plain, context)
        return parts.key + parts.value

    async def open(self, sealed: bytes, context: str) -> bytes:
        end = _HEAD.size + _wrapped_bytes(sealed)
        return await self.open_parts(SealedParts(sealed[:end], sealed[end:]), context)

    async def seal_parts(self, plain: bytes, context: str) -> SealedParts:
        data_key = self._clock.random_bytes(KEY_BYTES)
        sealed_key = await self._wrapped(data_key)
        nonce = self._clock.random_bytes(_NONCE_BYTES)
        return SealedParts(sealed_key, nonce + AESGCM(data_key).encrypt(nonce, plain, _bound(context)))

    async def open_parts(self, sealed: SealedParts, context: str) -> bytes:
        data_key = await self._data_key(sealed.key)
        if len(sealed.value) < _NONCE_BYTES + _TAG_BYTES:
            raise _changed()
        nonce, encrypted = sealed.value[:_NONCE_BYTES], sealed.value[_NONCE_BYTES:]
        try:
            return AESGCM(data_key).decrypt(nonce, encrypted, _bound(context))
        except InvalidTag as failure:
            raise _changed() from failure

    async def rewrap(self, sealed_key: bytes) -> bytes:
        return await self._wrapped(await self._unwrapped(sealed_key))

    async def _wrapped(self, data_key: bytes) -> bytes:
        if self._newest is None:
            raise SealingUnavailable(NO_KEY)
        wrapped = await self._newest.wrap(data_key)
        return _HEAD.pack(_FORMAT, self._newest.key_id, len(wrapped)) + wrapped

    async def _data_key(self, sealed_key: bytes) -> bytes:
        """The data key, of those that are kept or unwrapped now."""
        name = sha256(sealed_key).digest()
        kept, now = self._kept.get(name), self._clock.monotonic()
        if kept is not None and kept[1] > now:
            self._kept.move_to_end(name)
            return kept[0]
        data_key = await self._unwrapped(sealed_key)
        self._kept[name] = (data_key, now + KEPT_KEY_SECONDS)
        self._kept.move_to_end(name)
        while len(self._kept) > KEPT_KEYS_MOST:
            self._kept.popitem(last=False)
        return data_key

    async def _unwrapped(self, sealed_key: bytes) -> bytes:
        wrapped = sealed_key[_HEAD.size :]
        if len(wrapped) != _wrapped_bytes(sealed_key):
            raise _changed()
        key_id = key_id_of(sealed_key)
        key = self._keys.get(key_id)
        if key is None:
            raise NotOpened(
                f"it is sealed under the key {key_text(key_id)}, which this process does not have: set that key again "
                "behind the others in TICKWISE_SECRETS_KEY, or set the value anew"
            )
        return await key.unwrap(wrapped)


def _wrapped_bytes(sealed: bytes) -> int:
    """The length of the wrapped key that the head of a sealed value tells. Raises `NotOpened`."""
    if len(sealed) < _HEAD.size:
        raise _changed()
    form, _, length = _HEAD.unpack_from(sealed)
    if form != _FORMAT:
        raise _changed()
    return int(length)


def _bound(context: str) -> bytes:
    return _LABEL + context.encode()


def _changed() -> NotOpened:
    return NotOpened("its sealed bytes were changed, or stood at another place when they were sealed: set it anew")
