"""Identity tokens: the documents that clouds and Vault read, and `/auth/identity-keys` for administrators."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.auth import KeySetView
from tickwise.api.wire import API, Instant, time_or_none
from tickwise.control.identity.service import KEY_SET_PATH, IdentityKeyService
from tickwise.domain.accounts.identity_tokens import TokenAlgorithm
from tickwise.ports.identity.tokens import IdentityKey

FRESH: Final = [(b"cache-control", b"public, max-age=300")]
"""As long as `KEYS_FRESH_SECONDS` of the issuer: a key is published for longer before it signs."""


class DiscoveryView(msgspec.Struct, kw_only=True):
    """The description of this issuer, by which its tokens are checked (OpenID Connect Discovery 1.0)."""

    issuer: str
    jwks_uri: str
    response_types_supported: list[str]
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]
    scopes_supported: list[str]
    claims_supported: list[str]


class IdentityKeyView(msgspec.Struct, kw_only=True):
    """A published key."""

    kid: str
    """Its name in the header of the tokens that it signs."""
    algorithm: TokenAlgorithm
    created_at: Instant | None
    signs_at: Instant | None
    """It signs from then on, until the next one of its algorithm does."""


class IdentityKeyRotation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A rotation."""

    algorithm: TokenAlgorithm = TokenAlgorithm.RS256
    at_once: Annotated[
        bool,
        Meta(
            description="The new key signs now, and the others of its algorithm are no longer published: for a key "
            "that leaked. Tokens that they signed are refused, and tasks that go on get none until renewal."
        ),
    ] = False


_rotation: Final = msgspec.json.Decoder(IdentityKeyRotation)


async def discovery_get(call: Call) -> Reply:
    """The discovery document."""
    return answer(200, DiscoveryView(**await call.control.identity.discovery()), headers=FRESH)


async def key_set_get(call: Call) -> Reply:
    """The public keys."""
    found = await call.control.identity.key_set()
    return answer(200, KeySetView(keys=[dict(each) for each in found["keys"]]), headers=FRESH)


async def keys_list(call: Call) -> Reply:
    """The published keys."""
    return answer(200, [_view(each) for each in await call.control.identity.keys(call.principal)])


async def key_rotate(call: Call) -> Reply:
    """Make another key."""
    said = decode(_rotation, call.body or b"{}", field_names(IdentityKeyRotation))
    made = await call.control.identity.rotate(call.principal, said.algorithm, at_once=said.at_once)
    return answer(201, _view(made))


def _view(key: IdentityKey) -> IdentityKeyView:
    return IdentityKeyView(
        kid=key.key_id,
        algorithm=TokenAlgorithm(key.algorithm),
        created_at=time_or_none(key.created_at),
        signs_at=time_or_none(key.signs_at),
    )


IDENTITY: Final = (
    Endpoint(
        method="GET", path="/.well-known/openid-configuration", name="identityDiscovery", tag="auth",
        summary="The OpenID configuration by which clouds and Vault check the identity tokens of runs.",
        handler=discovery_get, answers=(DiscoveryView,), refuses=(404,), answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="GET", path=KEY_SET_PATH, name="identityKeySet", tag="auth",
        summary="The public keys with which the identity tokens of runs are checked.",
        description="Apart from those of access tokens. A new key is here 15 minutes before it signs, an old one for "
        "as long as its tokens live.",
        handler=key_set_get, answers=(KeySetView,), refuses=(404, 503), answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="GET", path=f"{API}/auth/identity-keys", control=IdentityKeyService.keys, name="listIdentityKeys",
        tag="auth",
        summary="The keys of identity tokens, for administrators of the installation.",
        handler=keys_list, answers=(list[IdentityKeyView],),
    ),
    Endpoint(
        method="POST", path=f"{API}/auth/identity-keys:rotate", control=IdentityKeyService.rotate,
        name="rotateIdentityKey", tag="auth", status=201,
        summary="Make another key for identity tokens.",
        description="It is published now and signs 15 minutes later, when those who check tokens have read it.",
        handler=key_rotate, body=IdentityKeyRotation, answers=(IdentityKeyView,), refuses=(409, 503),
    ),
)  # fmt: skip
