"""`/auth`: tokens for a credential, and the keys that they are checked with."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from tickwise.api.endpoint import Call, Endpoint, Reply, Secret, answer
from tickwise.api.problems import TokenRequestInvalid
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.users import UserView, user_view
from tickwise.api.wire import API, Instant, time_or_none
from tickwise.control.people.auth import EXCHANGE_GRANT, TokenBody
from tickwise.control.people.users import SeenUser
from tickwise.domain.errors import Invalid

ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"

_token: Final = msgspec.json.Decoder(TokenBody)


class RevokeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The refresh token of the session to end."""

    token: Annotated[str, Meta(min_length=1, max_length=1_024)]


_revoke: Final = msgspec.json.Decoder(RevokeBody)


class TokenView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Tokens (RFC 6749, section 5.1)."""

    access_token: Secret
    token_type: str
    expires_in: int
    """Seconds."""
    refresh_token: Secret | None = None
    """Works once. Null: made from a key, which asks again."""
    user: UserView | None = None
    issued_token_type: str | None = None
    """The kind of token that a token exchange gave (RFC 8693)."""


class RevokedView(msgspec.Struct, kw_only=True):
    """The token works no more, if it ever did."""

    revoked: bool


class RestrictedView(msgspec.Struct, kw_only=True):
    """Permissions for the jobs that have all of these labels."""

    permissions: list[str]
    labels: dict[str, str]


class CallerView(msgspec.Struct, kw_only=True):
    """The caller of this request."""

    name: str
    namespace: str
    """Of this request."""
    permissions: list[str]
    """In that namespace."""
    restricted: list[RestrictedView]
    """Further permissions there, each for jobs with certain labels alone."""
    key_id: UUID | None
    user_id: UUID | None
    expires_at: Instant | None


class SessionLinkView(msgspec.Struct, kw_only=True):
    """A link that opens the pages, signed in, once."""

    link: Secret
    """The path of the address to open in a browser of this machine."""
    expires_in: int
    """Seconds."""


class KeySetView(msgspec.Struct, kw_only=True):
    """The public keys of tokens (RFC 7517)."""

    keys: list[dict[str, Any]]


async def token_make(call: Call) -> Reply:
    """Tokens for a credential."""
    try:
        body = decode(_token, call.body, field_names(TokenBody))
        found = await call.control.auth.token(body, call.origin)
    except Invalid as wrong:
        raise TokenRequestInvalid(wrong.detail, pointer=wrong.pointer) from None
    view = TokenView(
        access_token=found.access,
        token_type="Bearer",
        expires_in=found.expires_in,
        refresh_token=found.refresh,
        user=None if found.user is None else user_view(SeenUser(found.user)),
        issued_token_type=ACCESS_TOKEN if body.grant_type == EXCHANGE_GRANT else None,
    )
    return answer(200, view, headers=[(b"cache-control", b"no-store")])


async def token_revoke(call: Call) -> Reply:
    """End a session."""
    await call.control.auth.revoke(decode(_revoke, call.body, field_names(RevokeBody)).token, call.origin)
    return answer(200, RevokedView(revoked=True))


async def sessions_end(call: Call) -> Reply:
    """End all sessions of the caller."""
    await call.control.auth.revoke_all(call.principal)
    return answer(200, RevokedView(revoked=True))


async def caller_get(call: Call) -> Reply:
    """The caller."""
    who = call.principal
    view = CallerView(
        name=who.name,
        namespace=who.namespace,
        permissions=sorted(who.scopes),
        restricted=[
            RestrictedView(permissions=sorted(each.permissions), labels=dict(each.labels)) for each in who.restricted
        ],
        key_id=who.key_id,
        user_id=who.user_id,
        expires_at=time_or_none(who.expires_at),
    )
    return answer(200, view)


async def session_link(call: Call) -> Reply:
    """A link that signs a browser of this machine in."""
    link = await call.control.browsers.make_link(call.principal)
    view = SessionLinkView(link=f"/open/{link.secret}", expires_in=int(link.seconds))
    return answer(201, view, headers=[(b"cache-control", b"no-store")])


async def key_set(call: Call) -> Reply:
    """The public keys."""
    found = await call.control.auth.key_set()
    return answer(
        200, KeySetView(keys=[dict(each) for each in found["keys"]]), headers=[(b"cache-control", b"max-age=60")]
    )


AUTH: Final = (
    Endpoint(
        method="POST", path=f"{API}/auth/token", name="createToken", tag="auth",
        summary="A token that works for ten minutes, for a password, a refresh token, a key, a terminal that a person "
        "approved, or the token of another issuer.",
        description="Use it as `Authorization: Bearer`. A refresh token works once; shown again, it ends its session, "
        "because one of the two clients stole it. A person with a second factor gets the problem "
        "`second_factor_required` for a right password, with a `challenge` that works for five minutes: send it with "
        "`grant_type` `second_factor` and a `code`. Keys and refresh tokens are not asked for one. A terminal gets 400 "
        "with the `code` `authorization_pending` or `slow_down` while it waits, and `access_denied` or "
        "`expired_token` when it gets none.",
        handler=token_make, body=TokenBody, answers=(TokenView,), refuses=(401, 403, 429, 503), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="POST", path=f"{API}/auth/revoke", name="revokeToken", tag="auth",
        summary="End the session of a refresh token. A token that is not known is no error.",
        handler=token_revoke, body=RevokeBody, answers=(RevokedView,), refuses=(503,), secret=True,
    ),
    Endpoint(
        method="DELETE", path=f"{API}/auth/sessions", name="endSessions", tag="auth", signed_in=True,
        summary="End all sessions of the person who asks.",
        handler=sessions_end, answers=(RevokedView,),
    ),
    Endpoint(
        method="POST", path=f"{API}/auth/links", name="createSessionLink", tag="auth", signed_in=True, status=201,
        summary="A link that opens the pages in a browser of the server's machine, once, signed in as the key.",
        description="For callers on the server's machine alone, and used there alone. The session ends with its key.",
        handler=session_link, answers=(SessionLinkView,), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="GET", path=f"{API}/auth/me", name="whoAmI", tag="auth", signed_in=True,
        summary="The caller of this request, with the permissions in its namespace.",
        handler=caller_get, answers=(CallerView,),
    ),
    Endpoint(
        method="GET", path="/.well-known/jwks.json", name="keySet", tag="auth",
        summary="The public keys with which tokens are checked.",
        handler=key_set, answers=(KeySetView,), refuses=(503,), answer_headers=("Cache-Control",),
    ),
)  # fmt: skip
