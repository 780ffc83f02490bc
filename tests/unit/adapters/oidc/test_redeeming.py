"""The exchange of a code, and the checks of what comes for it, against an issuer that a test holds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

from tests.support.signing_issuer import CLIENT, SigningIssuer
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.oidc.provider import LOGOUT_EVENT, ClientConfig, OidcProvider
from tickwise.adapters.oidc.requests import IssuerRequests
from tickwise.domain.errors import ProviderUnavailable, Unauthenticated
from tickwise.ports.identity.oidc import ProviderLogout, SignInRequest

REDIRECT: Final = "https://tickwise.example.com/login/provider/callback"
REQUEST: Final = SignInRequest(state="state", nonce="nonce", verifier="v" * 43)
GROUPS: Final = frozenset({"groups"})


@pytest_asyncio.fixture
async def issuer() -> AsyncIterator[SigningIssuer]:
    async with SigningIssuer() as made:
        yield made


@pytest_asyncio.fixture
async def provider(issuer: SigningIssuer) -> AsyncIterator[OidcProvider]:
    client = ClientConfig(client_id=CLIENT, client_secret="a:b c", redirect_uri=REDIRECT)
    made = OidcProvider(issuer.url, client, IssuerRequests(), SystemClock())
    yield made
    await made.close()


def id_token(issuer: SigningIssuer, **fields: Any) -> str:
    """A good ID token, with these claims in place of some; None: the claim is absent."""
    now = int(SystemClock().now())
    whole = {
        "iss": issuer.url, "aud": CLIENT, "sub": "u-1", "iat": now, "exp": now + 300, "nonce": "nonce", "sid": "s-1",
        **fields,
    }  # fmt: skip
    return issuer.sign({name: value for name, value in whole.items() if value is not None})


def logout_token(issuer: SigningIssuer, *, typ: str = "logout+jwt", **fields: Any) -> str:
    """A good logout token, with these claims in place of some; None: the claim is absent."""
    now = int(SystemClock().now())
    whole = {
        "iss": issuer.url, "aud": CLIENT, "sub": "u-1", "sid": "s-1", "iat": now, "exp": now + 120, "jti": "j-1",
        "events": {LOGOUT_EVENT: {}}, **fields,
    }  # fmt: skip
    return issuer.sign({name: value for name, value in whole.items() if value is not None}, typ=typ)


async def refusal(provider: OidcProvider, issuer: SigningIssuer, **tokens: Any) -> str:
    """The reason for which these tokens are refused."""
    issuer.tokens = {"access_token": "access", "token_type": "Bearer", **tokens}
    with pytest.raises(Unauthenticated) as refused:
        await provider.redeem("code", REQUEST, frozenset())
    return refused.value.detail


def half_hash(text: str) -> str:
    """The `at_hash` of an access token under RS256."""
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).rstrip(b"=").decode()


async def test_the_browser_is_sent_with_a_challenge_and_no_secret(
    issuer: SigningIssuer, provider: OidcProvider
) -> None:
    """The verifier and the client's secret stay here."""
    issuer.metadata = {"authorization_endpoint": f"{issuer.url}/auth?tenant=1"}
    url = await provider.authorization_url(REQUEST)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    digest = hashlib.sha256(REQUEST.verifier.encode()).digest()
    assert {
        "tenant": "1", "response_type": "code", "response_mode": "query", "client_id": CLIENT,
        "redirect_uri": REDIRECT, "scope": "openid profile email", "state": "state", "nonce": "nonce",
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), "code_challenge_method": "S256",
    } == query  # fmt: skip


@pytest.mark.parametrize("methods", [None, ["client_secret_basic"], ["client_secret_post"]])
async def test_a_code_is_exchanged_with_the_verifier_and_the_secret(
    methods: list[str] | None, issuer: SigningIssuer, provider: OidcProvider
) -> None:
    """By the way of showing the secret that the provider takes."""
    issuer.metadata = {"token_endpoint_auth_methods_supported": methods}
    access = "an access token"
    issuer.tokens = {"access_token": access, "id_token": id_token(issuer, at_hash=half_hash(access), azp=CLIENT)}
    found = await provider.redeem("a code", REQUEST, frozenset())
    assert (issuer.url, "u-1", "s-1") == (found.issuer, found.subject, found.session)
    (form,) = issuer.forms
    by_form = {"client_id": CLIENT, "client_secret": "a:b c"} if methods == ["client_secret_post"] else {}
    assert {
        "grant_type": "authorization_code", "code": "a code", "redirect_uri": REDIRECT,
        "code_verifier": REQUEST.verifier, **by_form,
    } == form  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"nonce": "of another sign-in"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another-client"}, "for others"),
        ({"aud": [CLIENT, "another-client"]}, "azp"),
        ({"azp": "another-client"}, "azp"),
        ({"at_hash": half_hash("another access token")}, "at_hash"),
        ({"at_hash": 1}, "at_hash"),
        ({"sub": ""}, "sub"),
        ({"sub": "u" * 256}, "sub"),
        ({"sub": "u\x00"}, "sub"),
        ({"iat": 1_000_000}, "clocks"),
    ],
)
async def test_an_id_token_of_another_sign_in_is_refused(
    fields: dict[str, Any], why: str, issuer: SigningIssuer, provider: OidcProvider
) -> None:
    """Of another browser, another client, another access token, or from long ago."""
    said = await refusal(provider, issuer, id_token=id_token(issuer, **fields))
    assert why in said or "content" in said, said


async def test_an_answer_without_an_id_token_signs_nobody_in(issuer: SigningIssuer, provider: OidcProvider) -> None:
    """An access token says nothing about who came."""
    assert "openid" in await refusal(provider, issuer)
    issuer.tokens_status = 400
    assert "invalid_grant: used" in await refusal(provider, issuer, error="invalid_grant", error_description="used\n")


async def test_groups_come_by_userinfo_about_the_same_person(issuer: SigningIssuer, provider: OidcProvider) -> None:
    """What the ID token says counts more; userinfo about somebody else is refused."""
    issuer.tokens = {"access_token": "access", "id_token": id_token(issuer, name="by token")}
    issuer.userinfo = {"sub": "u-1", "groups": ["ops"], "name": "by userinfo"}
    found = await provider.redeem("code", REQUEST, GROUPS)
    assert (["ops"], "by token") == (found.claims["groups"], found.claims["name"])
    issuer.userinfo = {"sub": "u-2", "groups": ["ops"]}
    with pytest.raises(Unauthenticated, match="another person"):
        await provider.redeem("code", REQUEST, GROUPS)
    issuer.tokens = {"access_token": "access", "id_token": id_token(issuer, groups=["dev"])}
    issuer.asked.clear()
    assert ["dev"] == (await provider.redeem("code", REQUEST, GROUPS)).claims["groups"]
    assert "/me" not in issuer.asked


async def test_an_answer_of_another_provider_is_refused(issuer: SigningIssuer, provider: OidcProvider) -> None:
    """RFC 9207: one that does not say whose it is, too, if the provider always says it."""
    await provider.check_issuer(None)
    await provider.check_issuer(issuer.url)
    with pytest.raises(Unauthenticated, match="another provider"):
        await provider.check_issuer("https://other.example.com")


async def test_a_provider_that_names_itself_always_does(issuer: SigningIssuer, provider: OidcProvider) -> None:
    """So an answer without its name was made by somebody else."""
    issuer.metadata = {"authorization_response_iss_parameter_supported": True}
    with pytest.raises(Unauthenticated, match="does not say"):
        await provider.check_issuer(None)


async def test_a_logout_token_is_read(issuer: SigningIssuer, provider: OidcProvider) -> None:
    """Of its own type, or of none."""
    assert ProviderLogout(issuer.url, "u-1", "s-1", "j-1", 420.0) == await provider.logout(logout_token(issuer))
    assert "u-1" == (await provider.logout(logout_token(issuer, typ="JWT", sid=None))).subject


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"nonce": "nonce"}, "ID token"),
        ({"events": {}}, "no logout token"),
        ({"events": {LOGOUT_EVENT: True}}, "no logout token"),
        ({"events": None}, "events"),
        ({"jti": None}, "jti"),
        ({"sub": None, "sid": None}, "no session and no person"),
        ({"aud": "another-client"}, "for others"),
        ({"iss": "https://other.example.com"}, "another issuer"),
        ({"iat": 1_000_000}, "clocks"),
    ],
)
async def test_what_is_no_logout_token_ends_nothing(
    fields: dict[str, Any], why: str, issuer: SigningIssuer, provider: OidcProvider
) -> None:
    """Above all an ID token, which the browsers of people have seen."""
    with pytest.raises(Unauthenticated, match=why):
        await provider.logout(logout_token(issuer, **fields))
    with pytest.raises(Unauthenticated, match="lacks the claim"):
        await provider.logout(id_token(issuer))


async def test_a_provider_without_what_is_needed_is_said_to_lack_it(
    issuer: SigningIssuer, provider: OidcProvider
) -> None:
    """By the name of the field that is absent."""
    issuer.metadata = {"authorization_endpoint": None, "end_session_endpoint": None}
    with pytest.raises(ProviderUnavailable, match="authorization_endpoint"):
        await provider.authorization_url(REQUEST)
    assert None is await provider.end_session_url("https://tickwise.example.com/login")
