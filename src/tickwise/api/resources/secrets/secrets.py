"""`/secrets`: set, list and remove secrets, and rotate the installation's key. No answer has a value."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.conditions import etag, guarded, tag_of
from tickwise.api.endpoint import (
    Call,
    Endpoint,
    Reply,
    answer,
    cursor_of,
    cursor_text,
    foreign_cursor,
    page_links,
)
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, encode, time_of
from tickwise.control.secrets.service import VALUE_BYTES_MOST, SecretBody, SecretDetails, SecretService
from tickwise.ports.sealing import key_text
from tickwise.ports.store.secrets import SecretPlace, SecretRow

BODY_BYTES_MOST: Final = 6 * VALUE_BYTES_MOST + 4_096
"""JSON writes a byte of a text in six at most."""


class SecretsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The part of the list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class SecretRemovalQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The way of a removal."""

    force: Annotated[bool, Meta(description="Also if jobs or stored tasks name it: their runs fail from now on.")] = (
        False
    )


class RewrapBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The next step of a rotation of the installation's key."""

    after: (
        Annotated[str, Meta(max_length=2_000, description="`next` of the step before; the first has none.")] | None
    ) = None
    again: Annotated[
        bool,
        Meta(
            description="Also what the newest key wraps already: for a key behind a command that has a newer version."
        ),
    ] = False


class SecretView(msgspec.Struct, kw_only=True):
    """A secret, without its value."""

    name: str
    version: int
    created_at: Instant
    created_by: str
    changed_at: Instant
    """The time of its newest version."""
    changed_by: str
    sealed_under: str
    """The id of the installation's key that wraps its data key; `command`: a key behind a command."""
    readable: bool
    """False: the server that answers does not have this key. If no other server has it, the value is lost: set
    it again."""


class ListedSecretView(SecretView, kw_only=True):
    """A secret in a list."""

    jobs: int
    """The jobs, recurring or on demand, that name it; 1,000 at most. `GET /secrets/{name}/uses` has them all."""


class UsingJobView(msgspec.Struct, kw_only=True):
    """A job that names a secret."""

    job_id: UUID
    name: str
    key: str | None


class UsingTaskView(msgspec.Struct, kw_only=True):
    """A stored task whose newest version names a secret."""

    task_id: str = msgspec.field(name="taskId")
    version: int


class SecretUsesView(msgspec.Struct, kw_only=True):
    """The jobs and stored tasks that name a secret, as far as the caller may see them."""

    jobs: list[UsingJobView]
    """By id, 1,000 at most. None of them are jobs that are cancelled, and one-time jobs that are over, or that were
    made less than a day before their time without a key or an id of the caller's."""
    tasks: list[UsingTaskView]
    """Stored tasks by id, 1,000 at most. Jobs of a stored task have a copy, and are in `jobs`."""
    hidden: int
    """The number of jobs and tasks that name it, too, and that the caller may not see."""
    more: bool
    """There are more, or may be: of one-time jobs, 2,000 are looked at."""


class SecretVersionView(msgspec.Struct, kw_only=True):
    """The record of one version."""

    version: int
    set_at: Instant
    set_by: str


class SecretDetailView(SecretView, kw_only=True):
    """A secret with the records of its versions, without a value."""

    versions: list[SecretVersionView]
    """The newest first, ten at most. Only the newest one has a value."""


class SecretSetView(SecretDetailView, kw_only=True):
    """A secret that was set, without its value."""

    warnings: list[str]
    """Such as: the value is not masked in the output of tasks, because it would mask too much."""


class SecretPlaceView(msgspec.Struct, kw_only=True):
    """A secret of a namespace."""

    namespace: str
    name: str


class KeyUseView(msgspec.Struct, kw_only=True):
    """A key of the installation, and what it wraps."""

    id: str
    known: bool
    """The server that answers has it."""
    newest: bool
    """It wraps what is set from now on."""
    secrets: int


class SecretKeysView(msgspec.Struct, kw_only=True):
    """The keys of the installation."""

    keys: list[KeyUseView]
    """The newest first, then those that are known, then those that are not."""
    lost: list[SecretPlaceView]
    """Secrets whose key is not known, 100 at most."""


class RewrapFailureView(msgspec.Struct, kw_only=True):
    """A secret whose data key could not be wrapped again."""

    namespace: str
    name: str
    detail: str


class RewrapView(msgspec.Struct, kw_only=True):
    """The outcome of one step."""

    rewrapped: int
    failed: list[RewrapFailureView]
    next: str | None
    """The `after` of the next step; null: all are done."""


_body: Final = msgspec.json.Decoder(SecretBody)
_rewrap: Final = msgspec.json.Decoder(RewrapBody)


async def secret_put(call: Call) -> Reply:
    """Set it."""
    name, secrets, who = call.path_values["name"], call.control.secrets, call.principal

    async def look() -> tuple[SecretDetails | None, bytes | None]:
        found = await secrets.to_change(who, name)
        return found, None if found is None else tag_of(encode(_details(call, found)))

    async def put(found: SecretDetails | None) -> Reply:
        body = decode(_body, call.body, field_names(SecretBody))
        done = await secrets.set(who, name, body, found=found, only=call.conditions is not None)
        details = await secrets.to_change(who, name) or SecretDetails(done.row, ())
        view = _details(call, details)
        warnings = [] if done.unmasked is None else [f"the value is not masked in the output of tasks: {done.unmasked}"]
        shown = SecretSetView(**msgspec.structs.asdict(view), warnings=warnings)
        return Reply(201 if done.created else 200, encode(shown), etag(encode(view)))

    return await guarded(call.conditions, look, put)


async def secrets_list(call: Call) -> Reply:
    """A page of them."""
    said: SecretsQuery = call.query
    after = None if said.cursor is UNSET else cursor_text(said.cursor)
    rows = await call.control.secrets.page(call.principal, after, said.limit + 1)
    page = rows[: said.limit]
    last = page[-1].name if len(rows) > said.limit else None
    views = [ListedSecretView(**_fields(call, row), jobs=row.jobs) for row in page]
    return answer(200, views, headers=page_links(call, last))


async def secret_get(call: Call) -> Reply:
    """One."""
    return answer(200, _details(call, await call.control.secrets.get(call.principal, call.path_values["name"])))


async def secret_uses(call: Call) -> Reply:
    """The jobs and stored tasks that name it."""
    found = await call.control.secrets.uses(call.principal, call.path_values["name"])
    view = SecretUsesView(
        jobs=[UsingJobView(job_id=each.job_id, name=each.name, key=each.key) for each in found.jobs],
        tasks=[UsingTaskView(task_id=each.task_id, version=each.version) for each in found.tasks],
        hidden=found.hidden,
        more=found.more,
    )
    return answer(200, view)


async def secret_remove(call: Call) -> Reply:
    """Remove it."""
    name, secrets, who = call.path_values["name"], call.control.secrets, call.principal

    async def look() -> tuple[SecretDetails | None, bytes | None]:
        found = await secrets.to_change(who, name)
        return found, None if found is None else tag_of(encode(_details(call, found)))

    async def remove(found: SecretDetails | None) -> Reply:
        return answer(200, _details(call, await secrets.remove(who, name, found, force=call.query.force)))

    return await guarded(call.conditions, look, remove)


async def secret_keys(call: Call) -> Reply:
    """The keys of the installation."""
    found = await call.control.secrets.keys(call.principal)
    ids = dict.fromkeys([*found.known, *sorted(found.used)])
    keys = [
        KeyUseView(
            id=key_text(key_id), known=key_id in found.known, newest=key_id == found.newest,
            secrets=found.used.get(key_id, 0),
        )
        for key_id in ids
    ]  # fmt: skip
    lost = [SecretPlaceView(namespace=row.namespace, name=row.name) for row in found.lost]
    return answer(200, SecretKeysView(keys=keys, lost=lost))


async def secrets_rewrap(call: Call) -> Reply:
    """The next step."""
    body = decode(_rewrap, call.body or b"{}", field_names(RewrapBody))
    done = await call.control.secrets.rewrap(call.principal, _place(body.after), again=body.again)
    failed = [RewrapFailureView(namespace=place[0], name=place[1], detail=detail) for place, detail in done.failed]
    following = None if done.next is None else cursor_of("/".join(done.next))
    return answer(200, RewrapView(rewrapped=done.rewrapped, failed=failed, next=following))


def _place(cursor: str | None) -> SecretPlace | None:
    if cursor is None:
        return None
    namespace, sign, name = cursor_text(cursor).partition("/")
    if not sign:
        raise foreign_cursor()
    return SecretPlace(namespace, name)


def _fields(call: Call, row: SecretRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "version": row.version,
        "created_at": time_of(row.created_at),
        "created_by": row.created_by,
        "changed_at": time_of(row.changed_at),
        "changed_by": row.changed_by,
        "sealed_under": key_text(row.key_id),
        "readable": call.control.secrets.has_key(row),
    }


def _details(call: Call, found: SecretDetails) -> SecretDetailView:
    versions = [
        SecretVersionView(version=each.version, set_at=time_of(each.set_at), set_by=each.set_by)
        for each in found.versions
    ]
    return SecretDetailView(**_fields(call, found.row), versions=versions)


SECRETS: Final = (
    Endpoint(
        method="GET", path=f"{API}/secrets", control=SecretService.page, name="listSecrets", tag="secrets",
        summary="The secrets of the namespace by name, without their values.", handler=secrets_list,
        query=SecretsQuery, answers=(list[ListedSecretView],),
    ),
    Endpoint(
        method="PUT", path=f"{API}/secrets/{{name}}", control=SecretService.set, name="putSecret", tag="secrets",
        summary="Set or replace a secret.",
        description="The value is encrypted before it is stored, and no answer contains it. Tasks that start from now "
        "on get the new value. The values of earlier versions are erased; their records stay.",
        handler=secret_put, body=SecretBody, body_bytes_max=BODY_BYTES_MOST, answers=(SecretSetView,),
        further=(201,), refuses=(409, 412), conditional=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/secrets/{{name}}", control=SecretService.get, name="getSecret", tag="secrets",
        summary="One secret with the records of its versions, without a value.", handler=secret_get,
        answers=(SecretDetailView,), refuses=(404,), conditional=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/secrets/{{name}}/uses", control=SecretService.uses, name="getSecretUses",
        tag="secrets", summary="The jobs and stored tasks that name a secret.",
        description="Names of those that the caller may see; the others are counted.", handler=secret_uses,
        answers=(SecretUsesView,), refuses=(404,),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/secrets/{{name}}", control=SecretService.remove, name="deleteSecret",
        tag="secrets", summary="Remove a secret with all of its versions.",
        description="Tasks that name it fail at their next start, so one that jobs or stored tasks name is removed "
        "with `force` alone (409, code `secret_in_use`).",
        handler=secret_remove, query=SecretRemovalQuery, answers=(SecretDetailView,), refuses=(404, 409, 412),
        conditional=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/secrets:keys", control=SecretService.keys, name="getSecretKeys", tag="secrets",
        summary="The keys of the installation, the number of secrets under each, and secrets whose key is lost.",
        description="Of all namespaces: for administrators of the installation.", handler=secret_keys,
        answers=(SecretKeysView,),
    ),
    Endpoint(
        method="POST", path=f"{API}/secrets:rewrap", control=SecretService.rewrap, name="rewrapSecrets",
        tag="secrets", summary="One step of a rotation: wrap the data keys of the next secrets by the newest key.",
        description="Of all namespaces: for administrators of the installation. Repeat it until `next` is null. Begin "
        "an interrupted rotation again without `after`: it skips the secrets that are done.",
        handler=secrets_rewrap, body=RewrapBody, optional_body=True, answers=(RewrapView,), refuses=(409,),
    ),
)  # fmt: skip
