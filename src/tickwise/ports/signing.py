"""Signatures of messages through a broker: a key proves the maker of a message, and not the right to write to a topic.

    requests    API ──shared secret──► recorder               one secret of the installation, two during its rotation
    results     executor ──its private key──► recorder        a key pair for each life of an executor; the public half
                                                              is in its row of the store

`roles/shared/signatures.py` tells which messages are signed and who refuses them.
"""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """Holds a key that signs."""

    def sign(self, text: bytes) -> bytes:
        """The signature of this text. The same text has the same one."""
        ...


class Verifier(Protocol):
    """Holds the keys of which a signature is accepted."""

    def verify(self, text: bytes, signature: bytes) -> bool:
        """Check whether one of the keys signed this text. Never raises, for any bytes."""
        ...


class ExecutorKey(Signer, Protocol):
    """The key pair of one life of an executor. Its private half never leaves the process."""

    @property
    def public(self) -> bytes:
        """The key that verifies its signatures; no secret."""
        ...


class ExecutorKeys(Protocol):
    """Makes key pairs, and verifies by their public halves."""

    def new(self) -> ExecutorKey:
        """A new, random pair."""
        ...

    def verify(self, public: bytes, text: bytes, signature: bytes) -> bool:
        """Check whether the holder of the private half signed this text. Never raises, for any bytes."""
        ...
