"""Tokens of other issuers: forged, borrowed, old and repeated ones give nothing. The issuer is a real server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.security.probes import probe
from tests.support.app import World, world
from tests.support.issuers import AUDIENCE, LocalIssuer, exchanged, federation, local_issuer
from tests.support.people import ask, signing_key
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.oidc.federated import FederatedTokens

EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"

Forged = Callable[[LocalIssuer], str]


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with local_issuer() as made:
        yield made


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    verifier = FederatedTokens(SystemClock(), allow=["127.0.0.1"])
    async with world(verifier=verifier) as made:
        await made.control.bearers.sign_with(signing_key())
        yield made
    await verifier.close()


def _b64(value: bytes | dict[str, Any]) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unsigned(alg: str) -> Forged:
    return lambda issuer: f"{_b64({'alg': alg, 'typ': 'JWT', 'kid': 'first'})}.{_b64(issuer.claims())}."


def _signed_with_text(secret: Callable[[LocalIssuer], bytes]) -> Forged:
    """HS256 with what everybody knows as the secret: PyJWT would refuse to sign with a public key, so by hand."""

    def made(issuer: LocalIssuer) -> str:
        said = f"{_b64({'alg': 'HS256', 'typ': 'JWT', 'kid': 'first'})}.{_b64(issuer.claims())}"
        return f"{said}.{_b64(hmac.new(secret(issuer), said.encode(), hashlib.sha256).digest())}"

    return made


def _public_pem(issuer: LocalIssuer) -> bytes:
    return issuer.keys["first"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _stranger(headers: dict[str, Any], algorithm: str = "RS256") -> Forged:
    """Signed by somebody else, with what these headers say of the key."""
    private: Any = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    if algorithm == "ES256":
        private = ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        private = ed25519.Ed25519PrivateKey.generate()
    return lambda issuer: jwt.encode(issuer.claims(), private, algorithm=algorithm, headers=headers)


def _claims(**changed: Any) -> Forged:
    return lambda issuer: issuer.token(**{name: _now(value) for name, value in changed.items()})


class _In(float):
    """A time, seconds from now."""


def _now(value: Any) -> Any:
    return int(time.time() + value) if isinstance(value, _In) else value


def _headers(**changed: Any) -> Forged:
    return lambda issuer: issuer.token(changed)


def _changed(place: int, text: Callable[[str], str]) -> Forged:
    def made(issuer: LocalIssuer) -> str:
        parts = issuer.token().split(".")
        parts[place] = text(parts[place])
        return ".".join(parts)

    return made


def _with(part: str, **changed: Any) -> str:
    return _b64({**json.loads(base64.urlsafe_b64decode(part + "==")), **changed})


REFUSED: Final[dict[str, Forged]] = {
    "no algorithm": _unsigned("none"),
    "no algorithm, in capitals": _unsigned("NONE"),
    "no algorithm, in mixed case": _unsigned("nOnE"),
    "an empty algorithm": _unsigned(""),
    "RS256 without a signature": _unsigned("RS256"),
    "the public key as a secret": _signed_with_text(_public_pem),
    "the key set as a secret": _signed_with_text(lambda issuer: json.dumps(issuer.key_set()).encode()),
    "an empty secret": _signed_with_text(lambda _: b""),
    "another's key, the name of theirs": _stranger({"kid": "first"}),
    "another's key, no name": _stranger({}),
    "another's key, ES256": _stranger({"kid": "first"}, "ES256"),
    "another's key, EdDSA": _stranger({"kid": "first"}, "EdDSA"),
    "an unknown key": _stranger({"kid": "second"}),
    "a key name that is a path": _stranger({"kid": "../../../../dev/null"}),
    "a key name that is an address": _stranger({"kid": "http://127.0.0.1:1/keys"}),
    "a key name that is SQL": _stranger({"kid": "' OR 1=1 --"}),
    "a key name that is huge": _stranger({"kid": "k" * 8_000}),
    "a key address of its own (jku)": _stranger({"kid": "first", "jku": "http://127.0.0.1:1/keys"}),
    "a certificate address of its own (x5u)": _stranger({"kid": "first", "x5u": "http://127.0.0.1:1/cert"}),
    "a key of its own (jwk)": _stranger({"kid": "first", "jwk": {"kty": "oct", "k": "AA"}}),
    "a certificate of its own (x5c)": _stranger({"kid": "first", "x5c": ["MIIB"]}),
    "an extension that must be known": _headers(crit=["exp"]),
    "an unencoded payload": _headers(b64=False, crit=["b64"]),
    "a logout token": _headers(typ="logout+jwt"),
    "a token of another kind": _headers(typ="secevent+jwt"),
    "another audience": _claims(aud="https://other.example.com"),
    "the audience as a part": _claims(aud=f"{AUDIENCE}.evil.example"),
    "an empty audience": _claims(aud=""),
    "no audience": _claims(aud=None),
    "a list without the audience": _claims(aud=["a", "b"]),
    "another issuer": _claims(iss="https://token.actions.githubusercontent.com"),
    "no issuer": _claims(iss=None),
    "an issuer that is a list": _changed(1, lambda part: _with(part, iss=["x"])),
    "expired": _claims(iat=_In(-700), nbf=_In(-700), exp=_In(-400)),
    "just beyond the leeway": _claims(exp=_In(-61)),
    "no expiry": _claims(exp=None),
    "an expiry that is text": _claims(exp="tomorrow"),
    "an expiry without end": _claims(exp=1e300),
    "an expiry that is true": _claims(exp=True),
    "valid later": _claims(nbf=_In(300)),
    "issued later": _claims(iat=_In(300)),
    "no time of issue": _claims(iat=None),
    "no subject": _claims(sub=None),
    "a subject that is a number": _claims(sub=7),
    "an empty subject": _claims(sub=""),
    "another repository": _claims(repository="acme/other"),
    "a repository that begins alike": _claims(repository="acme/app-evil"),
    "the repository in capitals": _claims(repository="ACME/app"),
    "another branch": _claims(ref="refs/heads/evil"),
    "a pull request": _claims(ref="refs/pull/1/merge"),
    "no branch": _claims(ref=None),
    "an id that is a list": _claims(jti=["a"]),
    "an id that is huge": _claims(jti="j" * 5_000),
    "works for more than a day": _claims(exp=_In(90_000)),
    "claims changed after the signature": _changed(1, lambda part: _with(part, sub="admin")),
    "a signature of another length": _changed(2, lambda part: part[:-8]),
    "a signature of zeros": _changed(2, lambda part: _b64(bytes(256))),
    "an empty signature": _changed(2, lambda _: ""),
    "two parts": lambda issuer: issuer.token().rpartition(".")[0],
    "five parts": lambda issuer: f"{issuer.token()}.a.b",
    "no token": lambda _: "hello",
    "a payload that is no JSON": _changed(1, lambda _: _b64(b"hello")),
    "a payload that is a list": _changed(1, lambda _: _b64(b"[1]")),
    "a deep payload": _changed(1, lambda _: _b64(b'{"iss":"x","a":' + b"[" * 4_000 + b"]" * 4_000 + b"}")),
    "a deep header": _changed(0, lambda _: _b64(b'{"alg":"RS256","a":' + b"[" * 5_000 + b"]" * 5_000 + b"}")),
    "letters beyond ASCII": lambda issuer: f"{issuer.token()}é",
    "a NUL": lambda issuer: f"{issuer.token()}\0",
}  # fmt: skip


@probe(10, stopped_by="algorithms of a list, keys of the issuer's address alone, exact claims; then the conditions")
@pytest.mark.parametrize("case", sorted(REFUSED))
async def test_a_token_that_is_not_as_it_must_be_gives_nothing(here: World, issuer: LocalIssuer, case: str) -> None:
    """It is 401, and no key address of the token's own is asked."""
    await federation(here, issuer)
    answer = await exchanged(here, REFUSED[case](issuer))
    assert 401 == answer.status_code, answer.text
    assert set(issuer.asked) <= {"/.well-known/openid-configuration", "/keys"}


@probe(10, stopped_by="the body has bounds before it is read")
@pytest.mark.parametrize("size", [16_385, 100_000, 900_000])
async def test_a_huge_token_is_refused_before_it_is_read(here: World, issuer: LocalIssuer, size: int) -> None:
    """It costs neither a check nor a request."""
    await federation(here, issuer)
    answer = await exchanged(here, "a" * size)
    assert answer.status_code in (400, 401, 422), answer.text
    assert [] == issuer.asked


@probe(10, stopped_by="an id of a token is remembered until the token ends")
async def test_a_token_works_once(here: World, issuer: LocalIssuer) -> None:
    """A second use is refused, also by the other kind of grant."""
    await federation(here, issuer)
    token = issuer.token()
    assert 200 == (await exchanged(here, token)).status_code
    again = await exchanged(here, token)
    assert (401, True) == (again.status_code, "used before" in again.json()["detail"])
    body = {"grant_type": EXCHANGE, "subject_token": token}
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code


@probe(10, stopped_by="only issuers of federations are asked, and these within the guard of outgoing requests")
async def test_an_issuer_that_nobody_trusts_is_not_asked(here: World, issuer: LocalIssuer) -> None:
    """A stranger cannot send the server anywhere."""
    assert 401 == (await exchanged(here, issuer.token())).status_code
    assert [] == issuer.asked


@probe(
    10, stopped_by="the guard of outgoing requests: addresses that are not public have to be allowed by the operator"
)
async def test_a_federation_leads_the_server_to_no_private_address(issuer: LocalIssuer) -> None:
    """An administrator of a namespace names an issuer on the server's own machine."""
    verifier = FederatedTokens(SystemClock())
    async with world(verifier=verifier) as here:
        await here.control.bearers.sign_with(signing_key())
        await federation(here, issuer)
        answer = await exchanged(here, issuer.token())
    await verifier.close()
    assert 503 == answer.status_code, answer.text
    assert [] == issuer.asked


@probe(10, stopped_by="a key set counts for the federation that brings it, and for no other one")
async def test_keys_of_one_federation_open_no_other_one(here: World, issuer: LocalIssuer) -> None:
    """Somebody adds a federation for the same issuer with keys of their own, and signs tokens for the first."""
    await federation(here, issuer, name="strong", permissions=["*"], namespaces=["*"])
    with local_issuer() as evil:
        body = {"name": "evil", "permissions": ["docs:read"], "key_set": evil.key_set()}
        await federation(here, issuer, **body)
        evil.url = issuer.url
        answer = await exchanged(here, evil.token())
        assert 200 == answer.status_code
        me = (await ask(here, answer.json()["access_token"], "GET", "/auth/me")).json()
        assert ["docs:read"] == me["permissions"]
        assert 401 == (await exchanged(here, evil.token(), federation="strong")).status_code
