"""People and their roles: small tables, changed one after the other.

A role that holds for jobs with certain labels alone is stored under a name that no role can have: `developer`, a space,
and the labels as JSON. Programs of the release before know no role of that name, so to them the person has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import UniqueBroken, translated
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.people.identities import link_identity
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry, by_person
from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.domain.selectors import labels_from
from tickwise.ports.identity.users import (
    Member,
    NewLink,
    NewUser,
    PasswordLimit,
    RoleRow,
    SignIn,
    UserChange,
    UserRow,
    check_administrator,
    check_judged,
    check_roles,
    user_changed,
    user_exists,
)


class Users(Part):
    """`UserStore` of the port."""

    async def add(self, user: NewUser, *, audit: AuditEntry | None = None) -> UserRow:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("users_lock"))
            found = await _found(connection, user.user_id)
            if found is not None:
                return found.row
            check_roles(user.roles, await _custom(connection, None), user.known_roles)
            await _check_looks(connection, user.user_id, user.name, user.looks)
            await check_open(connection, *(each.namespace for each in user.roles))
            try:
                with translated(writes=True):
                    await connection.execute(
                        statement("user_add"),
                        user.user_id, user.name, user.name_key, user.email, user.email_key, user.password,
                        user.created_by, [*user.looks], _limit_text(user.password_limit),
                    )  # fmt: skip
            except UniqueBroken as error:
                raise user_exists(user.name) from error
            await _replace_members(connection, user.user_id, user.roles)
            if user.identity is not None:
                await link_identity(connection, user.identity, user.user_id)
            await write_audit(connection, audit)
            return (await _surely_found(connection, user.user_id)).row

    async def get(self, user_id: UUID) -> UserRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            found = await _found(connection, user_id)
        return None if found is None else found.row

    async def sign_in(self, key: str) -> SignIn | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("users_found"), None, key)
        return None if row is None else _sign_in(row)

    async def page(self, namespace: str | None, *, after: UUID | None, limit: int) -> Sequence[UserRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            ids = [row["user_id"] for row in await connection.fetch(statement("users_page"), namespace, after, limit)]
            rows = await connection.fetch(statement("users_found"), ids, None)
        found = {row["user_id"]: _sign_in(row).row for row in rows}
        return [found[user_id] for user_id in ids if user_id in found]

    async def change(self, change: UserChange, *, audit: AuditEntry | None = None) -> UserRow:
        """See the port."""
        row = change.row
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("users_lock"))
            found = await _found(connection, row.user_id)
            if found is None:
                raise NotFound(f"there is no user {row.user_id}")
            if change.is_done(found):
                return found.row
            if found.row.version != row.version:
                raise VersionConflict(f"the user is at version {found.row.version}, not {row.version}: look again")
            check_roles(row.roles, await _custom(connection, None), change.known_roles)
            if row.name != found.row.name:
                await _check_looks(connection, row.user_id, row.name, change.looks)
            await check_open(connection, *(each.namespace for each in set(row.roles) - set(found.row.roles)))
            before = await connection.fetchval(statement("administrators_count"))
            try:
                with translated(writes=True):
                    await connection.execute(
                        statement("user_change"),
                        row.user_id, row.version, row.name, change.name_key, row.email, change.email_key, row.active,
                        change.password, change.ends_tokens(found.row), [*change.looks],
                    )  # fmt: skip
            except UniqueBroken as error:
                raise user_exists(row.name) from error
            if change.ends_links(found.row):
                await connection.execute(statement("links_end"), [row.user_id])
            await _replace_members(connection, row.user_id, row.roles)
            check_administrator(before, await connection.fetchval(statement("administrators_count")))
            await write_audit(connection, audit)
            return (await _surely_found(connection, row.user_id)).row

    async def link(self, link: NewLink, *, audit: AuditEntry | None = None) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            # A change of the person comes before, or after and ends the link.
            await connection.execute(statement("users_lock"))
            if await connection.fetchval(statement("link_was"), link.digest):
                return
            added = await connection.fetchval(
                statement("link_add"),
                link.digest, link.kind, link.user_id, link.seconds, link.created_by, link.generation,
                _limit_text(link.password_limit),
            )  # fmt: skip
            if not added:
                raise user_changed()
            await write_audit(connection, audit)

    async def link_holder(self, digest: bytes) -> UserRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            user_id = await connection.fetchval(statement("link_holder"), digest)
            found = None if user_id is None else await _found(connection, user_id)
        return None if found is None or not found.row.active else found.row

    async def use_link(self, digest: bytes, password: str, *, audit: AuditEntry | None = None) -> UserRow | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            # The update of the person waits for a change that holds `users_lock`, and a change waits for it.
            user_id = await connection.fetchval(statement("link_use"), digest, password)
            if user_id is None:
                return None
            await connection.execute(statement("links_end"), [user_id])
            row = (await _surely_found(connection, user_id)).row
            await write_audit(connection, audit and by_person(audit, row.user_id, row.name))
            return row

    async def complete_looks(self, looks: Mapping[UUID, Sequence[str]], limit: int) -> Mapping[UUID, str]:
        """See the port."""
        found = [(user_id, [*own]) for user_id, own in looks.items()]
        async with self._links.pooled(writes=True) as connection:
            if found:
                await connection.executemany(statement("user_put_looks"), found)
            rows = await connection.fetch(statement("users_without_looks"), limit)
        return {row["user_id"]: row["name"] for row in rows}

    async def signed_in(self, user_id: UUID) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(statement("user_signed_in"), user_id)


class Roles(Part):
    """`RoleStore` of the port."""

    async def all(self, namespace: str | None) -> Sequence[RoleRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return [_role(row) for row in await connection.fetch(statement("custom_roles"), namespace)]

    async def put(
        self, role: RoleRow, *, judged: frozenset[RoleRow] | None = None, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("users_lock"))
            await check_open(connection, role.namespace, or_closing=False)
            custom = await _custom(connection, role.namespace)
            if custom.get((role.namespace, role.name)) != role:  # else it is done
                check_judged(role.namespace, role.name, custom, judged)
            labels = json.dumps(dict(role.labels))
            await connection.execute(
                statement("custom_role_put"), role.namespace, role.name, sorted(role.permissions), labels
            )
            rows = await connection.fetch(statement("custom_role_members"), role.namespace, role.name)
            members = [row["user_id"] for row in rows]
            await connection.execute(statement("links_end"), members)
            await write_audit(connection, audit)
        return members

    async def drop(
        self,
        namespace: str,
        name: str,
        *,
        judged: frozenset[RoleRow] | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("users_lock"))
            custom = await _custom(connection, namespace)
            if (namespace, name) in custom:
                check_judged(namespace, name, custom, judged)
            dropped: bool | None = await connection.fetchval(statement("custom_role_drop"), namespace, name)
            if dropped:
                await write_audit(connection, audit)
        if dropped is None:
            raise Conflict(f"people have the role {name}: give them another one first", code="role_in_use")
        return dropped


async def _found(connection: asyncpg.Connection, user_id: UUID) -> SignIn | None:
    row = await connection.fetchrow(statement("users_found"), [user_id], None)
    return None if row is None else _sign_in(row)


async def _surely_found(connection: asyncpg.Connection, user_id: UUID) -> SignIn:
    found = await _found(connection, user_id)
    assert found is not None
    return found


async def _replace_members(connection: asyncpg.Connection, user_id: UUID, roles: Sequence[Member]) -> None:
    await connection.execute(
        statement("members_replace"),
        user_id,
        [each.namespace for each in roles],
        [_stored_role(each) for each in roles],
    )


async def _custom(connection: asyncpg.Connection, namespace: str | None) -> Mapping[tuple[str, str], RoleRow]:
    """Custom roles by namespace and name, of a namespace and of `*`; None: all."""
    rows = [_role(row) for row in await connection.fetch(statement("custom_roles"), namespace)]
    return {(row.namespace, row.name): row for row in rows}


async def _check_looks(connection: asyncpg.Connection, user_id: UUID, name: str, looks: Sequence[str]) -> None:
    if await connection.fetchval(statement("users_look_alike"), user_id, [*looks]):
        raise user_exists(name)


def _limit_text(limit: PasswordLimit | None) -> str | None:
    if limit is None:
        return None
    return json.dumps({"namespace": limit.namespace, "permissions": sorted(limit.permissions)})


def _limit(text: str | None) -> PasswordLimit | None:
    if text is None:
        return None
    fields = json.loads(text)
    return PasswordLimit(fields["namespace"], frozenset(fields["permissions"]))


def _sign_in(row: Mapping[str, Any]) -> SignIn:
    fields = dict(row)
    password = fields.pop("password")
    limit = _limit(fields.pop("password_limit"))
    roles = tuple(sorted(map(_member, fields.pop("namespaces") or (), fields.pop("roles") or ())))
    return SignIn(UserRow(**fields, roles=roles, has_password=password is not None, password_limit=limit), password)


def _stored_role(member: Member) -> str:
    if not member.labels:
        return member.role
    return f"{member.role} {json.dumps(dict(member.labels), ensure_ascii=False)}"


def _member(namespace: str, stored: str) -> Member:
    role, _, labels = stored.partition(" ")
    return Member(namespace, role, labels_from(json.loads(labels)) if labels else ())


def _role(row: Mapping[str, Any]) -> RoleRow:
    labels = labels_from(json.loads(row["labels"]))
    return RoleRow(row["namespace"], row["name"], frozenset(row["permissions"]), labels)
