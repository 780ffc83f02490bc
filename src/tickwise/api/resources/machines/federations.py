"""`/federations`: trust in the tokens of other issuers, for programs without a stored key."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_id, page_links
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.federations.service import FederationBody, FederationService
from tickwise.ports.identity.federations import FederationRow

_federation: Final = msgspec.json.Decoder(FederationBody)


class FederationsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The page of the list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET
    namespace: Annotated[str, Meta(description="Only the federations of this namespace.")] | UnsetType = UNSET


class FederationView(msgspec.Struct, kw_only=True):
    """A federation."""

    federation_id: UUID
    """It is the id of its key, too."""
    name: str
    issuer: str
    audience: str
    conditions: dict[str, str]
    """Patterns by claim. All must hold."""
    key_set: dict[str, Any] | None
    """The public keys of the issuer; null: those that its discovery names."""
    lifetime_seconds: float
    single_use: bool
    namespace: str
    """The namespace of requests that name none."""
    namespaces: list[str]
    permissions: list[str]
    labels: dict[str, str]
    created_by: str | None
    owner_id: UUID | None
    """The person with whose permissions it works, as of a key."""
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    """To the minute or so."""


def federation_view(row: FederationRow) -> FederationView:
    """A federation as it is answered."""
    federation, key = row
    return FederationView(
        federation_id=federation.key_id,
        name=key.name,
        issuer=federation.issuer,
        audience=federation.audience,
        conditions=dict(federation.conditions),
        key_set=None if federation.key_set is None else json.loads(federation.key_set),
        lifetime_seconds=federation.lifetime_seconds,
        single_use=federation.single_use,
        namespace=key.namespace,
        namespaces=sorted(key.namespaces),
        permissions=sorted(key.scopes),
        labels=dict(key.labels),
        created_by=key.created_by,
        owner_id=key.owner_id,
        created_at=time_of(key.created_at),
        expires_at=time_or_none(key.expires_at),
        last_used_at=time_or_none(key.last_used_at),
    )


class RemovedFederationView(msgspec.Struct, kw_only=True):
    """It takes no token any more."""

    federation_id: UUID
    removed: bool


async def federation_make(call: Call) -> Reply:
    """Make a federation."""
    body = decode(_federation, call.body, field_names(FederationBody))
    return answer(201, federation_view(await call.control.federations.make(call.principal, body)))


async def federations_list(call: Call) -> Reply:
    """A page of federations, the newest first."""
    query: FederationsQuery = call.query
    namespace = None if query.namespace is UNSET else query.namespace
    before = cursor_id(query.cursor)
    rows = await call.control.federations.page(call.principal, before, query.limit + 1, namespace=namespace)
    page = rows[: query.limit]
    last = str(page[-1].federation.key_id) if len(rows) > query.limit else None
    return answer(200, [federation_view(row) for row in page], headers=page_links(call, last))


async def federation_get(call: Call) -> Reply:
    """One federation."""
    found = await call.control.federations.get(call.principal, call.uuid("federation_id", "federation"))
    return answer(200, federation_view(found))


async def federation_remove(call: Call) -> Reply:
    """End a federation."""
    federation_id = call.uuid("federation_id", "federation")
    await call.control.federations.remove(call.principal, federation_id)
    return answer(200, RemovedFederationView(federation_id=federation_id, removed=True))


FEDERATIONS: Final = (
    Endpoint(
        method="POST", path=f"{API}/federations", control=FederationService.make, name="createFederation",
        tag="federations",
        summary="Trust the tokens of another issuer that meet conditions: programs show them in place of a key.",
        description="A program sends its token to `POST /auth/token` with the `grant_type` "
        "`urn:ietf:params:oauth:grant-type:jwt-bearer`, and gets an access token. It is bounded as a key is: by the "
        "one that makes it, and by its owner.",
        handler=federation_make, body=FederationBody, answers=(FederationView,), status=201, refuses=(404, 409),
    ),
    Endpoint(
        method="GET", path=f"{API}/federations", control=FederationService.page, name="listFederations",
        tag="federations",
        summary="The federations that work in the namespace, the newest first.",
        handler=federations_list, answers=(list[FederationView],), query=FederationsQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/federations/{{federation_id}}", control=FederationService.get, name="getFederation",
        tag="federations", summary="One federation.",
        handler=federation_get, answers=(FederationView,),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/federations/{{federation_id}}", control=FederationService.remove,
        name="removeFederation", tag="federations",
        summary="End a federation, with the access tokens that it gave.",
        handler=federation_remove, answers=(RemovedFederationView,),
    ),
)  # fmt: skip
