"""Reads the private key that access tokens and links of notices are signed with, from a file of its owner alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.private_files import read_private

if TYPE_CHECKING:
    from tickwise.control.people.tokens import SigningKey

TOKEN_KEY: Final = "token.key"
"""The key that `up` makes in the data folder."""


def signing_key(settings: Settings) -> SigningKey | None:
    """The key if this process has it: that of the settings, or that of `up`. Raises `Misconfigured`."""
    file = settings.token_key_file or settings.data_dir / TOKEN_KEY
    return read_signing_key(file) if settings.token_key_file is not None or file.exists() else None


def read_signing_key(file: Path) -> SigningKey:
    """The key in a file. Raises `Misconfigured`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from tickwise.control.people.tokens import SigningKey, key_id_of

    text = read_private(file, "the key of tokens")
    try:
        private = load_pem_private_key(text, password=None)
    except (ValueError, TypeError) as failure:
        raise Misconfigured(f"the key of tokens {file} is no private key without a password in PEM") from failure
    if not isinstance(private, Ed25519PrivateKey):
        raise Misconfigured(
            f"the key of tokens {file} is not of Ed25519; make one with: openssl genpkey -algorithm ed25519"
        )
    return SigningKey(key_id_of(private.public_key()), private)
