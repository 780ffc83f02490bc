"""The two kinds of signatures, by libraries: HMAC-SHA256 (RFC 2104) for requests, Ed25519 (RFC 8032) for results.

Measured on two cores, for a message of 300 bytes: HMAC 1.6 µs, Ed25519 30 µs to sign and 95 µs to verify. A request is
a message of its own, thousands a second; results come in batches, a hundred messages a second (decision 0030).
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_HASH: Final = "sha256"


class SharedSecrets:
    """`ports.signing.Signer` and `Verifier` by secrets that both sides know: the first signs, each is accepted."""

    def __init__(self, secrets: Sequence[str]) -> None:
        """At least one."""
        self._secrets = [secret.encode() for secret in secrets]

    def sign(self, text: bytes) -> bytes:
        """See the port."""
        return hmac.digest(self._secrets[0], text, _HASH)

    def verify(self, text: bytes, signature: bytes) -> bool:
        """See the port."""
        return any(hmac.compare_digest(hmac.digest(secret, text, _HASH), signature) for secret in self._secrets)


class Ed25519Key:
    """`ports.signing.ExecutorKey`."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        """See the port."""
        return self._private.sign(text)


class Ed25519Keys:
    """`ports.signing.ExecutorKeys`."""

    def new(self) -> Ed25519Key:
        """See the port."""
        return Ed25519Key()

    def verify(self, public: bytes, text: bytes, signature: bytes) -> bool:
        """See the port."""
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True
