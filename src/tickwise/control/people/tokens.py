"""Access tokens: short-lived JWTs (RFC 9068) that any API process checks without asking who made them.

    sign in ──► make: EdDSA, ten minutes at most ──► read: algorithm, key, issuer, audience, type, times

A token says who it is, and bounds what that person may do; the permissions themselves are looked up where it is used,
so a role that is taken away is gone within seconds, and not with the next token.

Invariants: one algorithm is taken, by a key of our own table: a token never says how it is to be checked. A token that
is read was made by this installation, for this purpose, and is in its time.

All tokens of a signing key begin with the same text, their header. It is parsed once, and remembered when a token with
it was found good. The signature is most of the time that a check takes (`bench/cases/identity.py`).
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tickwise.domain.errors import Unauthenticated
from tickwise.ports.clock import Clock

ALGORITHM: Final = "EdDSA"
TYPE: Final = "at+jwt"
AUDIENCE: Final = "tickwise"
ACCESS_SECONDS: Final = 600.0
SKEW_SECONDS: Final = 30.0
"""The greatest difference between the clocks of two API processes."""
TOKEN_BYTES_MAX: Final = 4_096
MAX_HEADERS: Final = 64
"""Headers that are remembered: there is one for each signing key."""
_SIGNATURES: Final = jwt.PyJWS(algorithms=[ALGORITHM])


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a token."""

    iss: str
    """The installation."""
    aud: str
    jti: str
    sub: UUID
    """The person, or the key that it was made for."""
    sid: UUID
    """The session (the family of refresh tokens) that it belongs to."""
    gen: int
    """The generation of the person's credentials and roles; of a key, the number of the secret that was shown."""
    iat: int
    nbf: int
    exp: int
    kind: str = "user"
    """`user` or `key`."""
    scope: str | None = None
    """Permissions that it is bounded by, with spaces between; None: all of its subject."""
    ns: str | None = None
    """The only namespace in which it works; None: those of its subject."""
    ext: str | None = None
    """The subject of another issuer's token that it was made for; None: there is none."""


_claims: Final = msgspec.json.Decoder(Claims)


class SigningKey(NamedTuple):
    """A private key with its name."""

    key_id: str
    private: Ed25519PrivateKey


def key_id_of(public: Ed25519PublicKey) -> str:
    """The JWK thumbprint of a public key (RFC 7638): the same name wherever it is read."""
    member = f'{{"crv":"Ed25519","kty":"OKP","x":"{_text(raw(public))}"}}'
    return _text(hashlib.sha256(member.encode()).digest())


def raw(public: Ed25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)


def jwks(publics: Mapping[str, bytes]) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """The key set of raw public keys by their names, as `/.well-known/jwks.json` answers it (RFC 7517, RFC 8037)."""
    return {
        "keys": [
            {"kty": "OKP", "crv": "Ed25519", "alg": ALGORITHM, "use": "sig", "kid": name, "x": _text(public)}
            for name, public in sorted(publics.items())
        ]
    }


class AccessTokens:
    """Makes and reads them."""

    def __init__(self, issuer: Callable[[], str], clock: Clock) -> None:
        """`issuer` names the installation, once its store is open."""
        self._issuer = issuer
        self._clock = clock
        self._signing: SigningKey | None = None
        self._publics: dict[str, Ed25519PublicKey] = {}
        self._headers: dict[str, str] = {}
        """The name of the key in each header of a token that was good."""

    def use(self, publics: Mapping[str, Ed25519PublicKey], signing: SigningKey | None) -> None:
        """From now on these keys are known, and this one signs."""
        self._publics = dict(publics)
        self._signing = signing

    @property
    def can_sign(self) -> bool:
        """True if there is a key to sign with."""
        return self._signing is not None

    def knows(self, token: str) -> bool:
        """Check whether the key that a token names is known. Raises `Unauthenticated` for a text that is no token of
        this installation."""
        return self._key_id(token) in self._publics

    def make(
        self,
        subject: UUID,
        session: UUID,
        generation: int,
        *,
        kind: str,
        scope: str | None,
        namespace: str | None,
        external: str | None = None,
        seconds: float = ACCESS_SECONDS,
    ) -> str:
        """A token that works from now on, for `seconds`. `external`: the subject of another issuer's token. Raises
        `LookupError` if this process has no private key."""
        if self._signing is None:
            raise LookupError("no key to sign with")
        now = int(self._clock.now())
        claims: dict[str, Any] = {
            "iss": self._issuer(), "aud": AUDIENCE, "sub": str(subject), "sid": str(session), "gen": generation,
            "kind": kind, "iat": now, "nbf": now, "exp": now + int(min(seconds, ACCESS_SECONDS)),
            "jti": self._clock.random_bytes(12).hex(),
        }  # fmt: skip
        if scope is not None:
            claims["scope"] = scope
        if namespace is not None:
            claims["ns"] = namespace
        if external is not None:
            claims["ext"] = external
        headers = {"kid": self._signing.key_id, "typ": TYPE}
        return jwt.encode(claims, self._signing.private, algorithm=ALGORITHM, headers=headers)

    def read(self, token: str) -> Claims:
        """The content of a token. Raises `Unauthenticated`."""
        key_id = self._key_id(token)
        public = self._publics.get(key_id)
        if public is None:
            raise _refused("it is signed with a key that is not known here")
        try:
            claims = _claims.decode(_SIGNATURES.decode(token, public, algorithms=[ALGORITHM]))
        except (jwt.PyJWTError, msgspec.DecodeError, ValueError):
            claims = None
        if claims is None or claims.aud != AUDIENCE or claims.iss != self._issuer():
            raise _refused("it is not as a token of this installation is")
        self._remember_header(token, key_id)
        now = self._clock.now()
        if now >= claims.exp + SKEW_SECONDS:
            raise _refused("it has expired: ask for another one with the refresh token")
        if now < max(claims.nbf, claims.iat) - SKEW_SECONDS or claims.exp - claims.iat > ACCESS_SECONDS:
            raise _refused("its times cannot be right; are the clocks of all servers right?")
        return claims

    def _key_id(self, token: str) -> str:
        if len(token) > TOKEN_BYTES_MAX:
            raise _refused("it is too long")
        known = self._headers.get(token.partition(".")[0])
        if known is not None:
            return known
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            raise _refused("it cannot be read") from None
        if header.get("alg") != ALGORITHM or header.get("typ") != TYPE or "crit" in header:
            raise _refused("it is of another kind")
        return str(header.get("kid"))

    def _remember_header(self, token: str, key_id: str) -> None:
        if len(self._headers) >= MAX_HEADERS:
            self._headers.clear()
        self._headers[token.partition(".")[0]] = key_id


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"this token does not work: {why}")


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()
