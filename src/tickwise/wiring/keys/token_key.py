"""The private key that access tokens are signed with: a file of its owner, never in the store.

    `token_key_file` is set ──► read; refused if others may read it
    `up` without it         ──► token.key in the data folder, made at the first start
    `api` without it        ──► no tokens are made here; tokens that other processes made are checked all the same

Another key takes the place of the one before at the next start: its public half is published before it signs, and
tokens of the key before work until they expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwise.config import Settings
from tickwise.wiring.keys.first_keys import write_private
from tickwise.wiring.private_files import TOKEN_KEY, read_signing_key

if TYPE_CHECKING:
    from tickwise.control.control import Control


async def sign_tokens(settings: Settings, control: Control, *, makes: bool = False) -> None:
    """Let control make tokens if it has a key, or may make one. Raises `Misconfigured`, `StoreUnavailable`."""
    if "auth" not in settings.api_serve:
        return
    file = settings.token_key_file
    if file is None:
        if not makes:
            return
        file = settings.data_dir / TOKEN_KEY
        if not file.exists():
            write_private(file, _new_key())
    await control.bearers.sign_with(read_signing_key(file))


def _new_key() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = Ed25519PrivateKey.generate()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
