"""Files that hold a secret: read only if nobody else may read them.

owned by this user ──► nobody else may read or write it (0600)
owned by root      ──► the group may read it (0640): how Kubernetes and administrators hand out files
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured

if TYPE_CHECKING:
    from tickwise.control.people.tokens import SigningKey

BYTES_MAX: Final = 64 * 1024
TOKEN_KEY: Final = "token.key"
"""The key that `up` makes in the data folder."""


def read_private(file: Path, called: str) -> bytes:
    """The content of a secret file. `called` names it in messages. Raises `Misconfigured` with what to do."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as stream:
            # Of the open file: a name could lead elsewhere by now.
            facts = os.fstat(stream.fileno())
            text = stream.read(BYTES_MAX)
    except OSError as failure:
        raise Misconfigured(f"{called} {file} cannot be read: {failure.strerror}") from failure
    if os.name == "posix" and stat.S_IMODE(facts.st_mode) & _forbidden(facts.st_uid):
        raise Misconfigured(f"others may read {called} {file}: chmod 600 {file}")
    return text


def _forbidden(owner: int) -> int:
    """The bits of the mode that a file of this owner must not have."""
    if owner == 0 and os.geteuid() != 0:
        return stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
    return stat.S_IRWXG | stat.S_IRWXO


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
