"""Access tokens: what is made is read, and nothing else is."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from uuid import UUID

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tickwise.control.people.tokens import ACCESS_SECONDS, SKEW_SECONDS, AccessTokens, SigningKey, key_id_of, raw
from tickwise.domain.errors import Unauthenticated
from tickwise.testing.clock import ShiftedClock

ISSUER = "tickwise:4f1c"
ADA = UUID(int=1)
SESSION = UUID(int=2)


class Issuer:
    """An installation with one key."""

    def __init__(self, issuer: str = ISSUER) -> None:
        self.clock = ShiftedClock()
        self.private = Ed25519PrivateKey.generate()
        self.key_id = key_id_of(self.private.public_key())
        self.tokens = AccessTokens(lambda: issuer, self.clock)
        self.tokens.use({self.key_id: self.private.public_key()}, SigningKey(self.key_id, self.private))

    def token(self) -> str:
        """One for Ada."""
        return self.tokens.make(ADA, SESSION, 3, kind="user", scope="jobs:read", namespace=None)

    def signed(self, *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """One with other claims or headers, well signed."""
        said = jwt.decode(self.token(), options={"verify_signature": False})
        said.update({name: value for name, value in claims.items() if value is not None})
        for name in [name for name, value in claims.items() if value is None]:
            del said[name]
        return jwt.encode(
            said, self.private, algorithm="EdDSA", headers={"kid": self.key_id, "typ": "at+jwt", **(headers or {})}
        )


def test_a_token_says_who_it_was_made_for() -> None:
    """And by what it is bounded."""
    issuer = Issuer()
    claims = issuer.tokens.read(issuer.token())
    assert (claims.sub, claims.sid, claims.gen, claims.scope, claims.ns) == (ADA, SESSION, 3, "jobs:read", None)
    assert claims.exp - claims.iat == ACCESS_SECONDS


def test_a_token_is_good_in_its_time_alone() -> None:
    """With some seconds for clocks that are apart."""
    issuer = Issuer()
    token = issuer.token()
    issuer.clock.shift(-SKEW_SECONDS - 2.0)
    with pytest.raises(Unauthenticated):
        issuer.tokens.read(token)
    issuer.clock.shift(SKEW_SECONDS + 2.0 + ACCESS_SECONDS + SKEW_SECONDS + 1.0)
    with pytest.raises(Unauthenticated, match="expired"):
        issuer.tokens.read(token)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"}, {"aud": None}, {"iss": "tickwise:other"}, {"iss": None}, {"sub": "nobody"}, {"sub": None},
        {"exp": None}, {"nbf": None}, {"iat": None}, {"jti": None}, {"sid": None}, {"gen": None}, {"gen": "three"},
        {"exp": 1 << 40}, {"scope": ["jobs:write"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_claim_that_is_wrong_or_missing_is_refused(claims: dict[str, Any]) -> None:
    """Also under a good signature."""
    issuer = Issuer()
    with pytest.raises(Unauthenticated):
        issuer.tokens.read(issuer.signed(**claims))


@pytest.mark.parametrize("headers", [{"typ": "JWT"}, {"kid": "other"}, {"crit": ["exp"]}], ids=str)
def test_a_header_that_is_wrong_is_refused(headers: dict[str, Any]) -> None:
    """An id token or another key's is none of ours."""
    issuer = Issuer()
    with pytest.raises(Unauthenticated):
        issuer.tokens.read(issuer.signed(headers=headers))


def test_a_token_never_says_how_it_is_checked() -> None:
    """Neither `none`, nor HMAC with the public key, nor a key inside of it."""
    issuer = Issuer()
    head, body, _ = issuer.token().split(".")
    public = raw(issuer.private.public_key())
    for algorithm in ("none", "None", "HS256", "RS256", "ES256"):
        header = _text({"alg": algorithm, "typ": "at+jwt", "kid": issuer.key_id})
        for secret in (public, urlsafe_b64encode(public), b""):
            mac = hmac.new(secret, f"{header}.{body}".encode(), hashlib.sha256).digest()
            for signature in (urlsafe_b64encode(mac).rstrip(b"=").decode(), ""):
                with pytest.raises(Unauthenticated):
                    issuer.tokens.read(f"{header}.{body}.{signature}")
    stranger = Ed25519PrivateKey.generate()
    x = urlsafe_b64encode(raw(stranger.public_key())).rstrip(b"=").decode()
    said = json.loads(urlsafe_b64decode(body + "=="))
    forged = jwt.encode(
        said,
        stranger,
        algorithm="EdDSA",
        headers={"typ": "at+jwt", "kid": issuer.key_id, "jwk": {"kty": "OKP", "crv": "Ed25519", "x": x}},
    )
    with pytest.raises(Unauthenticated):
        issuer.tokens.read(forged)
    assert head


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "é.é.é", "x" * 10_000, "eyJhbGciOiJFZERTQSJ9..", "\0.\0.\0"])
def test_what_is_no_token_is_refused(token: str) -> None:
    """Whatever it is."""
    with pytest.raises(Unauthenticated):
        Issuer().tokens.read(token)


def test_a_token_of_another_installation_is_refused() -> None:
    """Also if both have the same key, as after a copy of the key file."""
    one, two = Issuer(), Issuer("tickwise:9a02")
    two.tokens.use({one.key_id: one.private.public_key()}, None)
    with pytest.raises(Unauthenticated):
        two.tokens.read(one.token())


def _text(value: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_header_that_was_good_vouches_for_no_other_token() -> None:
    """Each token is checked by its own signature, and a key that is no longer known signs nothing more."""
    issuer, stranger = Issuer(), Issuer()
    good = issuer.token()
    assert issuer.tokens.read(good).sub == ADA
    header, payload, signature = good.split(".")
    forged = jwt.encode(
        {"sub": "x"}, stranger.private, algorithm="EdDSA", headers={"kid": issuer.key_id, "typ": "at+jwt"}
    )
    assert forged.split(".")[0] == header
    for token in (forged, f"{header}.{payload}.{signature[::-1]}", f"{header}.{payload}", f"{header}."):
        with pytest.raises(Unauthenticated):
            issuer.tokens.read(token)
    issuer.tokens.use({}, None)
    assert not issuer.tokens.knows(good)
    with pytest.raises(Unauthenticated, match="not known here"):
        issuer.tokens.read(good)
