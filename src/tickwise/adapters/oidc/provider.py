"""The provider that signs people in: authorization code with PKCE (RFC 6749, RFC 7636, OpenID Connect Core 1.0).

    authorization_url ──browser──► provider ──code──► token endpoint ──► ID token ──checked──► userinfo if a claim lacks
                                                     (client's secret, verifier)

Invariant: a code is exchanged by this server, with the verifier of the browser that began. An ID token counts only
with the nonce of that sign-in, for this client, and with the access token that came with it.
"""

from __future__ import annotations

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha512
from typing import Any, Final
from urllib.parse import quote_plus

import jwt

from tickwise.adapters.oidc.issuer import Issuer
from tickwise.adapters.oidc.requests import IssuerAnswer, IssuerRequests, form_text
from tickwise.adapters.oidc.tokens import IssuerTokenCheck, refused
from tickwise.domain.errors import ProviderUnavailable, Unauthenticated
from tickwise.ports.clock import Clock
from tickwise.ports.identity.oidc import (
    LEEWAY_SECONDS,
    ProviderClaims,
    ProviderLogout,
    ProviderState,
    SignInRequest,
    TokenRules,
)

ID_TOKEN_SECONDS: Final = 300.0
"""An ID token that comes for a code was issued a moment ago; older ones are refused."""
LOGOUT_SECONDS: Final = 300.0
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
SUBJECT_CHARACTERS_MAX: Final = 255
"""Of `sub` (OpenID Connect Core 1.0, section 2), and of `sid` and `jti` here."""
SAID_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """This installation as a client of the provider."""

    client_id: str
    client_secret: str | None
    """None: a public client, which PKCE alone protects."""
    redirect_uri: str
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    leeway_seconds: float = LEEWAY_SECONDS


class OidcProvider(IssuerTokenCheck):
    """`IdentityProvider` of the port."""

    def __init__(self, name: str, client: ClientConfig, requests: IssuerRequests, clock: Clock) -> None:
        """`name`: the issuer, exactly as it names itself."""
        self._published = Issuer(name, requests, clock)
        super().__init__(self._published)
        self._client = client
        self._requests = requests

    @property
    def away(self) -> str | None:
        """See the port."""
        return self._published.away

    async def authorization_url(self, request: SignInRequest) -> str:
        """See the port."""
        from oauthlib.oauth2 import WebApplicationClient

        url = await self._needed("authorization_endpoint")
        # oauthlib would make the whole address, but takes none on this machine without TLS.
        challenge = WebApplicationClient(self._client.client_id).create_code_challenge(request.verifier, "S256")
        query = form_text({
            "response_type": "code", "response_mode": "query", "client_id": self._client.client_id,
            "redirect_uri": self._client.redirect_uri, "scope": " ".join(self._client.scopes),
            "state": request.state, "nonce": request.nonce,
            "code_challenge": challenge, "code_challenge_method": "S256",
        })  # fmt: skip
        return f"{url}{'&' if '?' in url else '?'}{query}"

    async def check_issuer(self, named: str | None) -> None:
        """See the port."""
        if named is None:
            if (await self._published.metadata()).get("authorization_response_iss_parameter_supported") is True:
                raise Unauthenticated("the answer of the provider does not say of which provider it is")
        elif named != self.issuer:
            raise Unauthenticated("this is the answer of another provider")

    async def redeem(self, code: str, request: SignInRequest, wanted: frozenset[str]) -> ProviderClaims:
        """See the port."""
        tokens = await self._exchange(code, request)
        access = tokens.get("access_token")
        claims = dict(await self._id_token(tokens.get("id_token"), request.nonce, access))
        if isinstance(access, str) and not wanted <= claims.keys():
            claims = {**await self._userinfo(access, claims["sub"]), **claims}
        return ProviderClaims(self.issuer, claims["sub"], _text(claims, "sid"), claims)

    async def logout(self, token: str) -> ProviderLogout:
        """See the port."""
        rules = TokenRules(
            audiences=frozenset({self._client.client_id}), required=frozenset({"iat", "exp", "jti", "events"}),
            leeway_seconds=self._client.leeway_seconds, age_seconds_most=LOGOUT_SECONDS,
            types=frozenset({"", "jwt", "logout+jwt"}),
        )  # fmt: skip
        claims = await self.verify(token, rules)
        events = claims["events"]
        if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
            raise refused("it is no logout token")
        if "nonce" in claims:
            raise refused("it has a nonce: it is an ID token")
        subject, session, identifier = _text(claims, "sub"), _text(claims, "sid"), _text(claims, "jti")
        if identifier is None or (subject is None and session is None):
            raise refused("it names no session and no person")
        seconds = LOGOUT_SECONDS + 2 * self._client.leeway_seconds
        return ProviderLogout(self.issuer, subject, session, identifier, seconds)

    async def end_session_url(self, back: str) -> str | None:
        """See the port."""
        url = await self._published.endpoint("end_session_endpoint")
        if url is None:
            return None
        query = form_text({"client_id": self._client.client_id, "post_logout_redirect_uri": back})
        return f"{url}{'&' if '?' in url else '?'}{query}"

    async def look(self) -> ProviderState:
        """See the port."""
        return ProviderState(*await self._published.look())

    async def knows_redirect(self) -> bool | None:
        """See the port."""
        asked = SignInRequest(state="doctor", nonce="doctor", verifier="d" * 43)
        # Without a person that is asked, the answer is an error: at our address if that is registered, else there.
        url = f"{await self.authorization_url(asked)}&prompt=none"
        status, place = await self._requests.place(url)
        if place is not None and place.startswith(self._client.redirect_uri):
            return True
        return False if 400 <= status < 500 else None

    async def close(self) -> None:
        """See the port."""
        await self._requests.close()

    async def _needed(self, name: str) -> str:
        url = await self._published.endpoint(name)
        if url is None:
            raise ProviderUnavailable(f"the provider's metadata has no {name}")
        return url

    async def _exchange(self, code: str, request: SignInRequest) -> Mapping[str, Any]:
        """The tokens of a code, as the provider answers them."""
        from oauthlib.oauth2 import WebApplicationClient

        url = await self._needed("token_endpoint")
        client, headers, more = self._client, {}, {}
        methods = (await self._published.metadata()).get("token_endpoint_auth_methods_supported") or ()
        if client.client_secret is not None and ("client_secret_basic" in methods or not methods):
            # RFC 6749, section 2.3.1: both are urlencoded first.
            pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}".encode()
            headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        elif client.client_secret is not None:
            more["client_secret"] = client.client_secret
        body = WebApplicationClient(client.client_id).prepare_request_body(
            code=code, redirect_uri=client.redirect_uri, code_verifier=request.verifier,
            include_client_id="Authorization" not in headers, **more,
        )  # fmt: skip
        answer = await self._requests.post(url, str(body), headers)
        if answer.status != 200:
            raise Unauthenticated(f"the provider did not take the code of this sign-in: {_fault(answer)}")
        return answer.fields

    async def _id_token(self, token: Any, nonce: str, access: Any) -> Mapping[str, Any]:
        """The claims of an ID token (OpenID Connect Core 1.0, section 3.1.3.7). Raises `Unauthenticated`."""
        if not isinstance(token, str):
            raise Unauthenticated("the provider gave no ID token; the scope openid asks for one")
        rules = TokenRules(
            audiences=frozenset({self._client.client_id}), leeway_seconds=self._client.leeway_seconds,
            age_seconds_most=ID_TOKEN_SECONDS,
        )  # fmt: skip
        claims = await self.verify(token, rules)
        if not hmac.compare_digest(str(claims.get("nonce")).encode(), nonce.encode()):
            raise refused("it is of another sign-in: its nonce is not that of this one")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") != self._client.client_id:
            raise refused("it was given to another client (azp)")
        if "at_hash" in claims and not _is_hash_of(claims["at_hash"], token, access):
            raise refused("it belongs to another access token (at_hash)")
        if _text(claims, "sub") is None:
            raise refused("it names nobody")
        return claims

    async def _userinfo(self, access: str, subject: str) -> Mapping[str, Any]:
        url = await self._published.endpoint("userinfo_endpoint")
        if url is None:
            return {}
        found = (await self._requests.get(url, bearer=access)).fields
        if found.get("sub") != subject:
            raise Unauthenticated("the provider's userinfo is about another person")
        return found


def _is_hash_of(told: Any, token: str, access: Any) -> bool:
    """Check the `at_hash` of an ID token, whose signature is good."""
    if not isinstance(told, str) or not isinstance(access, str):
        return False
    name = jwt.get_unverified_header(token)["alg"]
    if name == "EdDSA":  # Ed25519 hashes with SHA-512 (RFC 8032), and pyjwt leaves it to callers
        digest = sha512(access.encode()).digest()
    else:
        digest = jwt.get_algorithm_by_name(name).compute_hash_digest(access.encode())
    half = urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=")
    return hmac.compare_digest(half, told.encode())


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    """A claim that names something; None: it is not there. Raises `Unauthenticated` for one that cannot be."""
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= SUBJECT_CHARACTERS_MAX or "\x00" in value:
        raise refused(f"its {name} is no name")
    return value


def _fault(answer: IssuerAnswer) -> str:
    parts = (answer.fields.get(name) for name in ("error", "error_description"))
    text = ": ".join(part for part in parts if isinstance(part, str)) or f"status {answer.status}"
    return "".join(each if each.isprintable() else "?" for each in text[:SAID_CHARACTERS_MAX])
