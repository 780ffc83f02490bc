"""`/auth/providers`: the provider that signs people in, and what it tells us."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.wire import API
from tickwise.domain.errors import Malformed

FORM: Final = b"application/x-www-form-urlencoded"
MAX_FIELDS: Final = 10


class ProviderView(msgspec.Struct, kw_only=True):
    """A provider."""

    issuer: str
    button: str
    """The text of its button on the sign-in page."""
    login: str
    """The path, among the pages, that begins a sign-in in a browser."""


class WaysInView(msgspec.Struct, kw_only=True):
    """The ways to sign in as a person."""

    providers: list[ProviderView]
    passwords: str
    """The people that sign in with a password: `on` (everybody that has one), `admins` or `off`."""


class LogoutTokenBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A logout that the provider tells, as a form."""

    logout_token: Annotated[str, Meta(min_length=1, max_length=65_536)]


class LoggedOutView(msgspec.Struct, kw_only=True):
    """The sessions have ended."""

    ended: bool


async def ways_in(call: Call) -> Reply:
    """The ways to sign in."""
    found = call.control.sso.provider()
    providers = []
    if found is not None:
        providers = [ProviderView(issuer=found.issuer, button=found.button, login="/login/provider")]
    return answer(200, WaysInView(providers=providers, passwords=call.control.sso.passwords.value))


async def provider_logout(call: Call) -> Reply:
    """End the sessions that a logout token names."""
    try:
        fields = dict(parse_qsl(call.body.decode("utf-8"), strict_parsing=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        fields = {}
    token = fields.get("logout_token")
    if token is None:
        raise Malformed("send logout_token as a form")
    await call.control.sso.log_out(token, call.origin)
    return answer(200, LoggedOutView(ended=True), headers=[(b"cache-control", b"no-store")])


PROVIDERS: Final = (
    Endpoint(
        method="GET", path=f"{API}/auth/providers", name="listProviders", tag="auth",
        summary="The ways to sign in as a person: the provider, and passwords.",
        handler=ways_in, answers=(WaysInView,),
    ),
    Endpoint(
        method="POST", path=f"{API}/auth/providers/logout", name="providerLogout", tag="auth",
        summary="End the sessions that a logout token of the provider names.",
        description="OpenID Connect Back-Channel Logout 1.0: the provider sends a form with a signed `logout_token`, "
        "which counts once. Browser sessions of the named session end, and all refresh tokens of the person.",
        handler=provider_logout, body=LogoutTokenBody, media=frozenset({FORM}), answers=(LoggedOutView,),
        refuses=(401, 404, 429, 503), secret=True, answer_headers=("Cache-Control",),
    ),
)  # fmt: skip
