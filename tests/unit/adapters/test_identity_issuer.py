"""Identity tokens: others check them by the published keys, also across a rotation; nothing else passes that check."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from uuid import UUID

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tickwise.adapters.identity.issuer import (
    PUBLISHED_AHEAD_SECONDS,
    PUBLISHED_SECONDS,
    RELOAD_SECONDS,
    IssuerSettings,
    JwtIssuer,
)
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.domain.accounts.identity_tokens import (
    TokenAlgorithm,
    TokenFacts,
    TokenSubject,
    TokenWish,
    check_subject,
    checked_audience,
    subject_of,
)
from tickwise.domain.errors import Invalid, NotOpened, SealingKeyUnset, StoreUnavailable
from tickwise.ports.identity.tokens import IdentityKey, SignedToken, TokenFault
from tickwise.testing.clock import ShiftedClock

ISSUER = "https://tickwise.example.com"
AUDIENCE = "sts.amazonaws.com"
JOB, RUN = UUID(int=7), UUID(int=8)
RS256, EDDSA = TokenAlgorithm.RS256, TokenAlgorithm.EDDSA


class Installation:
    """A store, a key of the installation, and issuers on them."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ShiftedClock()
        self.store = MemoryStore(self.clock)
        self.settings = IssuerSettings(**{"issuer": ISSUER, **settings})
        self.issuer = self.process()

    def process(self, *keys: bytes) -> JwtIssuer:
        """The issuer of one more process."""
        sealer = EnvelopeSealing([LocalKey(key) for key in keys or (bytes(32),)], self.clock)
        return JwtIssuer(self.settings, store=self.store.identity_keys, sealer=sealer, clock=self.clock)

    async def token(self, algorithm: TokenAlgorithm = RS256, **wish: Any) -> str:
        """One of a run."""
        await self.issuer.make_ready(algorithm)
        signed = await self.issuer.sign(facts(algorithm, **wish))
        assert isinstance(signed, SignedToken), signed
        return signed.text

    async def checked(self, token: str, **given: Any) -> dict[str, Any]:
        """The claims, as another side checks them by the published keys. Times are judged by this clock."""
        keys = jwt.PyJWKSet.from_dict(dict(await self.issuer.key_set()))
        header = jwt.get_unverified_header(token)
        options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
        said = {"algorithms": ["RS256", "EdDSA"], "audience": AUDIENCE, "issuer": ISSUER, **given}
        claims: dict[str, Any] = jwt.decode(token, keys[header["kid"]], options=options, **said)
        if not claims["nbf"] <= self.clock.now() < claims["exp"]:
            raise jwt.ExpiredSignatureError
        return claims


def facts(algorithm: TokenAlgorithm = RS256, **wish: Any) -> TokenFacts:
    given: dict[str, Any] = {
        "audience": (AUDIENCE,), "algorithm": algorithm, "subject": TokenSubject.RUN, "job_key": "nightly",
    }  # fmt: skip
    return TokenFacts(TokenWish(**{**given, **wish}), "reports", JOB, RUN, 2)


@pytest.mark.parametrize("algorithm", [RS256, EDDSA])
async def test_a_token_says_which_run_it_is_and_others_check_it(algorithm: TokenAlgorithm) -> None:
    house = Installation()
    token = await house.token(algorithm)
    claims = await house.checked(token)
    assert {"alg": algorithm.value, "typ": "JWT", "kid": jwt.get_unverified_header(token)["kid"]} == (
        jwt.get_unverified_header(token)
    )
    times = {name: claims.pop(name) for name in ("iat", "nbf", "exp")}
    assert 3_600 == times["exp"] - times["iat"]
    assert times["iat"] == times["nbf"] <= house.clock.now()
    assert 32 == len(claims.pop("jti"))
    assert {
        "iss": ISSUER, "sub": f"ns:reports:job:nightly:run:{RUN}", "aud": AUDIENCE, "namespace": "reports",
        "job_id": str(JOB), "job_key": "nightly", "run_id": str(RUN), "attempt": 2,
    } == claims  # fmt: skip


async def test_no_two_tokens_are_one() -> None:
    """Each has an id of its own."""
    house = Installation()
    ids = {(await house.checked(await house.token()))["jti"] for _ in range(5)}
    assert 5 == len(ids)


async def test_a_token_has_the_life_that_is_set() -> None:
    house = Installation(seconds=60.0)
    token = await house.token()
    house.clock.shift(59)
    await house.checked(token)
    house.clock.shift(2)
    with pytest.raises(jwt.ExpiredSignatureError):
        await house.checked(token)


async def test_several_audiences_are_a_list() -> None:
    house = Installation()
    token = await house.token(audience=("vault", AUDIENCE))
    assert ["vault", AUDIENCE] == (await house.checked(token))["aud"]


# ------------------------------------------------------------------------------------------ attackers


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _part(value: Any) -> str:
    return _text(json.dumps(value).encode())


def _body(token: str) -> dict[str, Any]:
    text = token.split(".")[1]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return found


async def test_forged_tokens_are_refused_by_the_published_keys() -> None:
    """No algorithm, the public key as a shared secret, a changed body, the key of another algorithm or installation,
    another audience, another issuer."""
    house, stranger = Installation(), Installation()
    token, other = await house.token(), await house.token(EDDSA)
    header, body, signature = token.split(".")
    kid = jwt.get_unverified_header(token)["kid"]
    keys = jwt.PyJWKSet.from_dict(dict(await house.issuer.key_set()))
    public = keys[kid].key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{_part({'alg': 'HS256', 'typ': 'JWT', 'kid': kid})}.{body}"
    mixed = f"{signed}.{_text(hmac.new(public, signed.encode(), hashlib.sha256).digest())}"
    wide = _part({**_body(token), "sub": "ns:admin:job:root:run:1"})
    strange = await stranger.token()
    _, strange_body, strange_signature = strange.split(".")
    forged = {
        "none": f"{_part({'alg': 'none', 'typ': 'JWT', 'kid': kid})}.{body}.",
        "shared secret": mixed,
        "changed body": f"{header}.{wide}.{signature}",
        "other header": f"{other.split('.')[0]}.{body}.{signature}",
        "stranger's signature": f"{header}.{strange_body}.{strange_signature}",
        "no signature": f"{header}.{body}.",
        "unknown key": strange,
    }
    await house.checked(token)
    for name, each in forged.items():
        with pytest.raises((jwt.PyJWTError, KeyError)):
            pytest.fail(f"{name}: {await house.checked(each)}")
    for wrong in ({"audience": "vault"}, {"issuer": "https://other.example.com"}, {"algorithms": ["EdDSA"]}):
        with pytest.raises(jwt.PyJWTError):
            pytest.fail(f"{wrong}: {await house.checked(token, **wrong)}")


async def test_the_published_keys_have_no_private_part() -> None:
    """Only the members of RFC 7517 and 7518 that are public."""
    house = Installation()
    await house.token()
    await house.token(EDDSA)
    members = {frozenset(each) for each in (await house.issuer.key_set())["keys"]}
    common = {"kty", "alg", "use", "kid"}
    assert {frozenset({*common, "n", "e"}), frozenset({*common, "crv", "x"})} == members


async def test_a_private_key_is_stored_sealed_and_opens_at_its_place_alone() -> None:
    """Under the name of another key it is refused."""
    house = Installation()
    await house.token()
    (key,) = await house.store.identity_keys.find()
    assert b"0\x82" != key.sealed[:2]
    moved = house.process()
    moved._loaded = [key._replace(key_id="other")]
    with pytest.raises(NotOpened):
        await moved._opened(moved._loaded[0])


# ------------------------------------------------------------------------------------------ rotation


async def test_a_new_key_is_published_before_it_signs_and_the_old_one_until_its_tokens_are_over() -> None:
    """Tokens of both are good throughout."""
    house = Installation()
    first = await house.token()
    made = await house.issuer.rotate(RS256, at_once=False)
    assert made.key_id != jwt.get_unverified_header(first)["kid"]
    between = await house.token()
    assert jwt.get_unverified_header(first)["kid"] == jwt.get_unverified_header(between)["kid"]
    assert 2 == len((await house.issuer.key_set())["keys"])
    house.clock.shift(PUBLISHED_AHEAD_SECONDS + 1)
    second = await house.token()
    assert made.key_id == jwt.get_unverified_header(second)["kid"]
    for token in (between, second):
        await house.checked(token)
    house.clock.shift(PUBLISHED_SECONDS + 1)
    assert [made.key_id] == [each["kid"] for each in (await house.issuer.key_set())["keys"]]


async def test_a_rotation_at_once_takes_the_old_keys_away() -> None:
    """Also a process that signs with the old one goes over to the new one."""
    house = Installation()
    other = house.process()
    stolen = await house.token()
    assert isinstance(await other.sign(facts()), SignedToken)
    made = await house.issuer.rotate(RS256, at_once=True)
    with pytest.raises(KeyError):
        await house.checked(stolen)
    house.clock.shift(RELOAD_SECONDS + 1)
    signed = await other.sign(facts())
    assert isinstance(signed, SignedToken)
    assert made.key_id == jwt.get_unverified_header(signed.text)["kid"]
    await house.checked(signed.text)


async def test_a_key_that_is_old_is_followed_when_the_keys_are_asked_for() -> None:
    house = Installation(key_days=1.0)
    await house.token()
    assert 1 == len((await house.issuer.key_set())["keys"])
    house.clock.shift(86_400 + 1)
    assert 2 == len((await house.issuer.key_set())["keys"])
    assert 2 == len((await house.issuer.key_set())["keys"])


async def test_a_key_that_is_sealed_under_an_earlier_key_of_the_installation_is_followed() -> None:
    """So that the earlier one can be taken out of the settings."""
    house = Installation()
    before = jwt.get_unverified_header(await house.token())["kid"]
    house.issuer = house.process(bytes([1] * 32), bytes(32))
    assert before == jwt.get_unverified_header(await house.token())["kid"]
    house.clock.shift(PUBLISHED_AHEAD_SECONDS + 1)
    house.issuer = house.process(bytes([1] * 32))
    assert before != jwt.get_unverified_header(await house.token())["kid"]


async def test_processes_that_begin_at_once_make_one_key() -> None:
    house = Installation()
    processes = [house.process() for _ in range(4)]
    await asyncio.gather(*(each.make_ready(RS256) for each in processes))
    assert 1 == len(await house.store.identity_keys.find())
    for each in processes:
        signed = await each.sign(facts())
        assert isinstance(signed, SignedToken)
        await house.checked(signed.text)


# ------------------------------------------------------------------------------------------ bad days


class Away:
    """A store of keys that goes away and comes back."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.is_away = False

    async def find(self) -> list[IdentityKey]:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        return list(await self.inner.find())


async def test_tokens_are_signed_while_the_store_is_away() -> None:
    """With the keys that were read; without any, that may pass."""
    house = Installation()
    await house.token()
    store: Any = Away(house.store.identity_keys)
    sealer = EnvelopeSealing([LocalKey(bytes(32))], house.clock)
    known, new = (JwtIssuer(house.settings, store=store, sealer=sealer, clock=house.clock) for _ in range(2))
    assert isinstance(await known.sign(facts()), SignedToken)
    store.is_away = True
    house.clock.shift(RELOAD_SECONDS + 1)
    signed = await known.sign(facts())
    assert isinstance(signed, SignedToken)
    await house.checked(signed.text)
    fault = await new.sign(facts())
    assert isinstance(fault, TokenFault)
    assert fault.is_passing


async def test_an_executor_without_a_key_to_sign_with_says_so() -> None:
    """It waits for one: an API makes it."""
    fault = await Installation().issuer.sign(facts())
    assert isinstance(fault, TokenFault)
    assert fault.is_passing
    assert "identity-keys rotate" in fault.detail


async def test_without_the_key_of_the_installation_nothing_is_made_or_signed() -> None:
    house = Installation()
    await house.token()
    sealer = EnvelopeSealing([], house.clock)
    bare = JwtIssuer(house.settings, store=house.store.identity_keys, sealer=sealer, clock=house.clock)
    fault = await bare.sign(facts())
    assert isinstance(fault, TokenFault)
    assert "cannot be signed" in fault.detail
    with pytest.raises(SealingKeyUnset):
        await bare.make_ready(EDDSA)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"issuer": None}, "TICKWISE_IDENTITY_ISSUER"), ({"namespaces": ("billing",)}, "TICKWISE_IDENTITY_NAMESPACES")],
)
async def test_what_the_settings_do_not_allow_is_refused_for_good(settings: dict[str, Any], words: str) -> None:
    """By the executor too, also where an API let it pass."""
    house = Installation(**settings)
    fault = await house.issuer.sign(facts())
    assert isinstance(fault, TokenFault)
    assert not fault.is_passing
    assert words in fault.detail
    assert words in (house.issuer.refusal("reports") or "")


# ------------------------------------------------------------------------------------------ subjects


def test_no_key_makes_the_subject_of_another_job() -> None:
    """Colons and percent signs are escaped, and a key has not the form of the id of another job."""
    subjects = {
        subject_of(facts(job_key=key, subject=subject))
        for key in ("a", "a:run:1", "a%3Arun%3A1", "a:run", "%", ":", "%3A")
        for subject in TokenSubject
    }
    assert 14 == len(subjects)
    assert all(each.count(":") == (5 if ":run:" in each else 3) for each in subjects), subjects
    with pytest.raises(Invalid, match="form of a job's id"):
        check_subject("reports", JOB, str(RUN))
    check_subject("reports", JOB, str(JOB))
    assert subject_of(facts(job_key=None)).startswith(f"ns:reports:job:{JOB}:run:")


@pytest.mark.parametrize("key", ["é", "a\nb", "k" * 250])
def test_a_key_that_no_subject_can_have_is_refused(key: str) -> None:
    with pytest.raises(Invalid):
        check_subject("reports", JOB, key)


@pytest.mark.parametrize("said", ["", "a b", "é", "x" * 501, [], ["a"] * 11, ["a", ""], "a\nb"])
def test_an_audience_that_cannot_be_is_refused(said: Any) -> None:
    with pytest.raises(Invalid):
        checked_audience(said)
