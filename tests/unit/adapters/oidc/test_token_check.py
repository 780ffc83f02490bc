"""Tokens of an issuer: which are taken, and what each attack on the check meets."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
import pytest_asyncio

from tests.support.signing_issuer import CLIENT, SigningIssuer, private_key
from tickwise.adapters.oidc.issuer import KEPT_SECONDS, KEYS_SECONDS, METADATA_SECONDS, REFETCH_SECONDS, Issuer
from tickwise.adapters.oidc.requests import ANSWER_BYTES_MAX, IssuerAnswer, IssuerRequests, OutgoingWay
from tickwise.adapters.oidc.tokens import IssuerTokenCheck
from tickwise.domain.errors import ProviderUnavailable, Unauthenticated
from tickwise.ports.identity.oidc import TokenRules
from tickwise.testing.clock import ShiftedClock

SECURE = "https://sso.example.com"
HMAC = {"alg": "HS256", "kid": "k1", "typ": "JWT"}
RULES = TokenRules(audiences=frozenset({CLIENT}))


@pytest_asyncio.fixture
async def issuer() -> AsyncIterator[SigningIssuer]:
    async with SigningIssuer() as made:
        yield made


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest_asyncio.fixture
async def check(issuer: SigningIssuer, clock: ShiftedClock) -> AsyncIterator[IssuerTokenCheck]:
    requests = IssuerRequests(OutgoingWay(timeout_seconds=2.0))
    yield IssuerTokenCheck(Issuer(issuer.url, requests, clock))
    await requests.close()


def claims(issuer: SigningIssuer, clock: ShiftedClock, **fields: Any) -> dict[str, Any]:
    """The claims of a good token, with these in place of some; None: the claim is absent."""
    now = int(clock.now())
    whole = {"iss": issuer.url, "aud": CLIENT, "sub": "u-1", "iat": now, "exp": now + 300, **fields}
    return {name: value for name, value in whole.items() if value is not None}


def _by_hmac(content: dict[str, Any], secret: bytes) -> str:
    """A token under HS256, made by hand: pyjwt makes none with a public key as its secret."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({**HMAC}, content)]
    text = b".".join(parts)
    return (text + b"." + base64.urlsafe_b64encode(hmac.digest(secret, text, "sha256")).rstrip(b"=")).decode()


async def refusal(check: IssuerTokenCheck, token: str, rules: TokenRules = RULES) -> str:
    """The reason for which a token is refused."""
    with pytest.raises(Unauthenticated) as refused:
        await check.verify(token, rules)
    return refused.value.detail


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_a_good_token_is_taken(algorithm: str, clock: ShiftedClock) -> None:
    """Of each family of algorithms, also from a key that does not say its algorithm."""
    async with SigningIssuer(algorithm) as issuer:
        requests = IssuerRequests()
        check = IssuerTokenCheck(Issuer(issuer.url, requests, clock))
        found = await check.verify(issuer.sign(claims(issuer, clock, groups=["ops"])), RULES)
        assert ("u-1", ["ops"]) == (found["sub"], found["groups"])
        await requests.close()


async def test_a_token_chooses_neither_its_algorithm_nor_its_key(
    issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """`none`; HS256 with the public key as its secret; a key in its own header; a key of somebody else by our name."""
    good = claims(issuer, clock)
    unsigned = jwt.encode(good, "", algorithm="none", headers={"kid": "k1"})
    assert "algorithm is 'none'" in await refusal(check, unsigned)
    confused = _by_hmac(good, json.dumps(issuer.published()[0]).encode())
    assert "algorithm is 'HS256'" in await refusal(check, confused)
    theirs = private_key("stranger")
    jwk = jwt.get_algorithm_by_name("RS256").to_jwk(theirs.public_key(), as_dict=True)
    own = jwt.encode(good, theirs, algorithm="RS256", headers={"kid": "k1", "jwk": jwk, "jku": "https://x.example/"})
    assert "signature" in await refusal(check, own)
    issuer.algorithm = "PS256"
    issuer.metadata = {}
    assert "u-1" == (await check.verify(issuer.sign(good), RULES))["sub"]
    extended = issuer.sign(good, crit=["exp"], exp=1)
    assert "cannot be read" in await refusal(check, extended)


async def test_a_changed_token_is_refused(issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck) -> None:
    """Also one that is none, or too long."""
    head, body, signature = issuer.sign(claims(issuer, clock)).split(".")
    read = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**read, "sub": "u-2"}).encode()).rstrip(b"=").decode()
    assert "signature" in await refusal(check, f"{head}.{forged}.{signature}")
    assert "cannot be read" in await refusal(check, "a.b.c")
    assert "too long" in await refusal(check, "a" * 70_000)
    assert "of the type" in await refusal(check, issuer.sign(claims(issuer, clock), typ="at+jwt"))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"iss": "https://other.example.com"}, "another issuer"),
        ({"aud": "another-client"}, "for others than"),
        ({"aud": ["another-client"]}, "for others than"),
        ({"aud": None}, "lacks the claim aud"),
        ({"sub": None}, "lacks the claim sub"),
        ({"exp": None}, "lacks the claim exp"),
        ({"exp": "soon"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
    ],
)
async def test_a_token_for_others_is_refused(
    fields: dict[str, Any], why: str, issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """By its issuer, its audience, and claims that are absent or no times."""
    said = await refusal(check, issuer.sign(claims(issuer, clock, **fields)))
    assert why in said or "content" in said, said


@pytest.mark.parametrize("seconds", [-30, 30])
async def test_clocks_that_differ_by_30_s_are_no_reason_to_refuse(
    seconds: int, issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """In either direction; the leeway is 60 s."""
    rules = TokenRules(audiences=frozenset({CLIENT}), age_seconds_most=0.0)
    now = int(clock.now()) + seconds
    token = issuer.sign(claims(issuer, clock, iat=now, nbf=now, exp=now + 15))
    assert "u-1" == (await check.verify(token, rules))["sub"]


@pytest.mark.parametrize("seconds", [-600, 600])
async def test_clocks_that_differ_by_10_min_are_named_in_the_refusal(
    seconds: int, issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """A person who cannot sign in learns whom to ask for what."""
    rules = TokenRules(audiences=frozenset({CLIENT}), age_seconds_most=300.0)
    now = int(clock.now()) + seconds
    said = await refusal(check, issuer.sign(claims(issuer, clock, iat=now, exp=now + 3_600)), rules)
    assert "clocks" in said


async def test_keys_that_are_rotated_are_found(
    issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """At once if the last look was a while ago. A key that the issuer took back counts no more after `KEYS_SECONDS`."""
    before = issuer.sign(claims(issuer, clock, exp=int(clock.now()) + 9_000))
    await check.verify(before, RULES)
    clock.shift(REFETCH_SECONDS + 1)
    issuer.rotate("k2")
    await check.verify(issuer.sign(claims(issuer, clock)), RULES)
    assert "does not publish" in await refusal(check, before)


async def test_a_removed_key_counts_no_longer_than_the_set_is_kept(
    issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """Also if no token names a key that is unknown."""
    token = issuer.sign(claims(issuer, clock, exp=int(clock.now()) + 9_000))
    await check.verify(token, RULES)
    issuer.rotate("k2")
    await check.verify(token, RULES)
    clock.shift(KEYS_SECONDS + 1)
    assert "does not publish" in await refusal(check, token)


async def test_made_up_keys_cause_few_requests(
    issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """A hundred tokens with names of keys that nobody has."""
    await check.verify(issuer.sign(claims(issuer, clock)), RULES)
    for number in range(100):
        await refusal(check, issuer.sign(claims(issuer, clock), kid=f"made-up-{number}"))
    assert 1 == issuer.asked.count("/jwks")


async def test_a_weak_key_signs_nothing(clock: ShiftedClock, issuer: SigningIssuer, check: IssuerTokenCheck) -> None:
    """RSA of 1024 bits."""
    issuer.keys = {"weak": private_key("weak", bits=1_024)}
    with pytest.warns(UserWarning, match="1024"):
        token = issuer.sign(claims(issuer, clock))
    assert "does not publish" in await refusal(check, token)


async def test_an_issuer_that_is_away_is_said_to_be(
    issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """Before it was ever asked, nothing can be checked; later, what it published counts for a day."""
    token = issuer.sign(claims(issuer, clock, exp=int(clock.now()) + 2 * 86_400))
    issuer.statuses = {"/.well-known/openid-configuration": 503, "/jwks": 503}
    with pytest.raises(ProviderUnavailable, match="503"):
        await check.verify(token, RULES)
    issuer.statuses.clear()
    clock.shift(3.0)
    await check.verify(token, RULES)
    issuer.statuses = {"/.well-known/openid-configuration": 503, "/jwks": 503}
    clock.shift(METADATA_SECONDS + 1)
    await check.verify(token, RULES)
    clock.shift(KEPT_SECONDS)
    with pytest.raises(ProviderUnavailable, match="away"):
        await check.verify(token, RULES)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"keys": [' + b" " * ANSWER_BYTES_MAX + b"]}", "more than 512 KiB"),
        (b"[]", "no JSON object"),
        (b"{" * 5_000, "no JSON object"),
        (b"<html>", "no JSON object"),
        (b'{"keys": 1}', "key set is none"),
    ],
)
async def test_a_huge_or_broken_answer_is_refused(
    body: bytes, why: str, issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """It costs no more memory than an answer may have."""
    issuer.raw["/jwks"] = body
    with pytest.raises(ProviderUnavailable, match=why):
        await check.verify(issuer.sign(claims(issuer, clock)), RULES)


async def test_a_slow_issuer_is_given_up(issuer: SigningIssuer, clock: ShiftedClock) -> None:
    """After the time of the settings; callers that wait for the same document do not wait for it again."""
    requests = IssuerRequests(OutgoingWay(timeout_seconds=0.2))
    check = IssuerTokenCheck(Issuer(issuer.url, requests, clock))
    issuer.hangs = True
    for _ in range(3):
        with pytest.raises(ProviderUnavailable, match="did not answer within"):
            await check.verify(issuer.sign(claims(issuer, clock)), RULES)
    assert 1 == len(issuer.asked)
    await requests.close()


async def test_metadata_of_another_issuer_is_refused(
    issuer: SigningIssuer, clock: ShiftedClock, check: IssuerTokenCheck
) -> None:
    """The operator named an issuer, and this is not it."""
    issuer.metadata = {"issuer": "https://other.example.com"}
    with pytest.raises(ProviderUnavailable, match="exactly as it names itself"):
        await check.verify(issuer.sign(claims(issuer, clock)), RULES)


async def test_a_secure_issuer_leads_to_no_clear_text(clock: ShiftedClock) -> None:
    """Its documents are believed, but not that far."""

    class Answers(IssuerRequests):
        """Gives metadata without a network."""

        async def get(self, url: str, *, bearer: str | None = None) -> IssuerAnswer:
            return IssuerAnswer(200, {"issuer": SECURE, "jwks_uri": f"http{SECURE[5:]}/jwks"}, None)

    issuer = Issuer(SECURE, Answers(), clock)
    with pytest.raises(ProviderUnavailable, match="https"):
        await issuer.keys("k1", "RS256")
