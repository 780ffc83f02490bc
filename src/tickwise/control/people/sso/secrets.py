"""The secrets of one sign-in by a provider, derived from one that the browser alone keeps.

    browser's secret (cookie) ─┐
    state (address)  ──────────┴─HKDF──► nonce, verifier of PKCE

The store has digests of both alone: a copy of it completes no sign-in. One secret serves several tabs, for each has a
state of its own.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tickwise.ports.clock import Clock
from tickwise.ports.identity.oidc import SignInRequest

SECRET_BYTES: Final = 32
_FORM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def new_text(clock: Clock) -> str:
    """A state, or the secret of a browser: 43 characters."""
    return _text(clock.random_bytes(SECRET_BYTES))


def is_secret(text: str | None) -> bool:
    """Check whether a text has the form of a state or of a browser's secret."""
    return text is not None and _FORM.fullmatch(text) is not None


def sign_in_request(secret: str, state: str) -> SignInRequest:
    """The secrets of the sign-in of a browser."""
    return SignInRequest(
        state=state, nonce=_derived(secret, state, b"nonce"), verifier=_derived(secret, state, b"pkce")
    )


def _derived(secret: str, state: str, purpose: bytes) -> str:
    expand = HKDF(algorithm=SHA256(), length=SECRET_BYTES, salt=state.encode(), info=b"tickwise sign-in " + purpose)
    return _text(expand.derive(secret.encode()))


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()
