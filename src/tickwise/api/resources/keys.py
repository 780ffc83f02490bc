"""`/keys`: make, list, rotate and revoke API keys."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, Secret, answer, cursor_id, page_links
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.keys.composer import KeyBody
from tickwise.control.keys.service import KeyRotateBody, KeyService, MadeKey
from tickwise.ports.identity import KeyOrigin, KeyRow

_key: Final = msgspec.json.Decoder(KeyBody)
_rotation: Final = msgspec.json.Decoder(KeyRotateBody)


class KeysQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The page of the list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET
    namespace: Annotated[str, Meta(description="Only the keys of this namespace.")] | UnsetType = UNSET


class KeyView(msgspec.Struct, kw_only=True):
    """A key, without its secret."""

    key_id: UUID
    name: str
    """For people. Keys of one name share nothing."""
    namespace: str
    """The namespace of requests that name none."""
    namespaces: list[str]
    """All in which it works; `*`: each one, and the installation itself."""
    permissions: list[str]
    labels: dict[str, str]
    """The permissions hold for jobs that have all of these; empty: for all jobs."""
    scopes: list[str]
    """`permissions` under its earlier name."""
    origin: KeyOrigin
    """`made` on request, by the `setting` bootstrap_key, as the `first` one of the installation, or for the `local`
    command line of an `up`."""
    prefix: str | None
    """The beginning of the secret."""
    created_by: str | None
    owner_id: UUID | None
    """The person with whose permissions it works: it does at most what they may do now, and nothing once they are
    deactivated. None: it needs nobody's."""
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    """To the minute or so."""
    revoked_at: Instant | None
    rotated_at: Instant | None
    """The time of its last rotation; None: it has its first secret."""
    earlier_secret_until: Instant | None
    """The secret before the present one works until then. None: it works no more, or there is none."""


class MadeKeyView(KeyView, kw_only=True):
    """A new key, with its secret, which is told this once."""

    key: Secret


def key_view(row: KeyRow) -> KeyView:
    """A key as it is answered."""
    return KeyView(
        key_id=row.key_id,
        name=row.name,
        namespace=row.namespace,
        namespaces=sorted(row.namespaces),
        permissions=sorted(row.scopes),
        labels=dict(row.labels),
        scopes=sorted(row.scopes),
        origin=row.origin,
        prefix=row.prefix,
        created_by=row.created_by,
        owner_id=row.owner_id,
        created_at=time_of(row.created_at),
        expires_at=time_or_none(row.expires_at),
        last_used_at=time_or_none(row.last_used_at),
        revoked_at=time_or_none(row.revoked_at),
        rotated_at=time_or_none(row.rotated_at),
        earlier_secret_until=time_or_none(row.earlier_secret_until if row.revoked_at is None else None),
    )


async def key_make(call: Call) -> Reply:
    """Make a key."""
    return _told(201, await call.control.keys.make(call.principal, decode(_key, call.body, field_names(KeyBody))))


async def key_rotate(call: Call) -> Reply:
    """Give a key another secret."""
    body = decode(_rotation, call.body or b"{}", field_names(KeyRotateBody))
    return _told(200, await call.control.keys.rotate(call.principal, call.uuid("key_id", "key"), body))


def _told(status: int, made: MadeKey) -> Reply:
    """The only answer that has the secret."""
    view = MadeKeyView(**msgspec.structs.asdict(key_view(made.row)), key=made.secret)
    return answer(status, view, headers=[(b"cache-control", b"no-store")])


async def keys_list(call: Call) -> Reply:
    """A page of keys, the newest first."""
    query: KeysQuery = call.query
    namespace = None if query.namespace is UNSET else query.namespace
    rows = await call.control.keys.page(call.principal, cursor_id(query.cursor), query.limit + 1, namespace=namespace)
    page = rows[: query.limit]
    last = str(page[-1].key_id) if len(rows) > query.limit else None
    return answer(200, [key_view(row) for row in page], headers=page_links(call, last))


async def key_revoke(call: Call) -> Reply:
    """Revoke a key."""
    return answer(200, key_view(await call.control.keys.revoke(call.principal, call.uuid("key_id", "key"))))


KEYS: Final = (
    Endpoint(
        method="POST", path=f"{API}/keys", control=KeyService.make, name="createKey", tag="keys",
        summary="Make a key, at most as strong as the one that makes it. Its secret is shown only once.",
        description="A new key has at most the permissions, namespaces, labels and expiry of the key that makes it. "
        "A key that a person makes, and each that it makes in turn, works with the permissions of that person: it does "
        "at most what they may do now, and nothing once they are deactivated. "
        "A `role` stands for its permissions as they are now. The answer is not kept, so an "
        "Idempotency-Key has no effect: a repeat makes one more key.",
        handler=key_make, body=KeyBody, answers=(MadeKeyView,), status=201, refuses=(404, 409), secret=True,
        answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="GET", path=f"{API}/keys", control=KeyService.page, name="listKeys", tag="keys",
        summary="The keys that work in the namespace, the newest first, also those that are revoked or have expired.",
        description="Of a key whose home is another namespace, its name, permissions and times are told, and no other "
        "namespace, owner or maker. Keys that work in all namespaces are listed in their home. A caller with "
        "`keys:admin` in the installation sees the keys of all namespaces, whole.",
        handler=keys_list, answers=(list[KeyView],), query=KeysQuery,
    ),
    Endpoint(
        method="POST", path=f"{API}/keys/{{key_id}}/rotate", control=KeyService.rotate, name="rotateKey",
        tag="keys", signed_in=True, summary="Give a key another secret; the present one works until the overlap ends.",
        description="The key keeps its id, name, permissions, namespaces, owner and expiry. A key may rotate itself, "
        "by its present secret. Another one needs `keys:admin`, at least its permissions, and a credential that works "
        "for as long as the key: no person, and no key of a person, is told the secret of a key that does not depend "
        "on that person. In an overlap, only a rotation with `overlap_seconds` 0 is taken: it ends all earlier "
        "secrets. Of several rotations at once, one succeeds; the others are 409. The answer is not kept, so an "
        "Idempotency-Key has no effect.",
        handler=key_rotate, body=KeyRotateBody, optional_body=True, answers=(MadeKeyView,), refuses=(404, 409),
        secret=True, answer_headers=("Cache-Control",),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/keys/{{key_id}}", control=KeyService.revoke, name="revokeKey", tag="keys",
        summary="Revoke a key permanently, and return it.",
        description="Each process of the API refuses it at once where signals come through, and within 4 seconds where "
        "they do not. Revoking it again changes nothing. A key that works in several namespaces is revoked in that of "
        "the request, and works in the others. A caller with `keys:admin` in the installation revokes keys of each "
        "namespace, everywhere.",
        handler=key_revoke, answers=(KeyView,), refuses=(404,),
    ),
)  # fmt: skip
