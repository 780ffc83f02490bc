"""The private key that access tokens are signed with: a file of its owner, never in the store.

    `token_key_file` is set ──► read; refused if others may read it
    `up` without it         ──► token.key in the data folder, made at the first start
    `api` without it        ──► no tokens are made here; tokens that other processes made are checked all the same

Another key takes the place of the one before at the next start: its public half is published before it signs, and
tokens of the key before work until they expire.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.keys.first_keys import write_private
from tickwise.wiring.private_files import read_private

if TYPE_CHECKING:
    from tickwise.control.control import Control
    from tickwise.control.people.tokens import SigningKey

TOKEN_KEY: Final = "token.key"


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
    await control.bearers.sign_with(_read(file))


def _read(file: Path) -> SigningKey:
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


def _new_key() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = Ed25519PrivateKey.generate()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
