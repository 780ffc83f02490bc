"""Restricted keys and roles beside programs of the release before, which do not know labels: they see no permission.

The statements below are those of that release.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.model import Principal
from tickwise.domain.permissions import ROLES
from tickwise.ports.identity.users import Member, RoleRow
from tickwise.testing.contracts.store.people.keys import new_key
from tickwise.testing.contracts.store.people.users import new_user
from tickwise.testing.factories import Factory

LABELS = (("team", "billing"),)

KEY_FIND = """
    SELECT key_id, name, namespace, namespaces, scopes, origin, owner_id, date_part('epoch', expires) AS expires_at
    FROM tickwise.keys WHERE digest = $1 AND revoked IS NULL AND (expires IS NULL OR expires > tickwise.now())"""
KEY_ADD = """
    INSERT INTO tickwise.keys (created, key_id, digest, name, namespace, scopes, label, prefix, created_by, expires,
                               namespaces, owner_id)
    SELECT tickwise.now(), $1, $2, $3, $4, $5, $6, $7, $8, to_timestamp($9::float8), $10::text[], $11::uuid"""
MEMBERS = "SELECT namespace, role FROM tickwise.members WHERE user_id = $1 ORDER BY namespace, role"
ADMINISTRATORS = """
    SELECT count(DISTINCT m.user_id) FROM tickwise.members m JOIN tickwise.users u USING (user_id)
    WHERE m.namespace = '*' AND m.role = 'admin' AND u.active"""
CUSTOM_ROLES = "SELECT namespace, name, permissions, labels::text FROM tickwise.custom_roles"


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    await upgrade(database_url)
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def before(database_url: str, store: PostgresStore) -> AsyncIterator[asyncpg.Connection]:
    """A session of a program of the release before."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def make(store: PostgresStore) -> Factory:
    return Factory(await store.now(), seed="selectors")


async def test_a_restricted_key_is_one_without_permissions_to_the_release_before(
    store: PostgresStore, before: asyncpg.Connection, make: Factory
) -> None:
    """Whatever it asks is refused there, however wide the key is; it is no key of everything by mistake."""
    for number, scopes in enumerate((frozenset({"jobs:read", "jobs:write"}), frozenset({"*"}))):
        key = new_key(make, b"secret %d" % number, Principal("ci", "default", scopes), labels=LABELS)
        await store.keys.add(key)
        row = await before.fetchrow(KEY_FIND, key.digest)
        assert [] == row["scopes"]
        found = await store.keys.find(key.digest)
        assert found is not None
        assert scopes <= found.caller.principal().permissions_in("default", LABELS)


async def test_a_key_of_the_release_before_holds_for_all_jobs(
    store: PostgresStore, before: asyncpg.Connection, make: Factory
) -> None:
    """Its programs go on making keys."""
    arguments: list[Any] = [
        make.identifier(), b"d" * 32, "ci", "default", ["jobs:read"], "", "tw_", "ada", None, ["default"], None,
    ]  # fmt: skip
    await before.execute(KEY_ADD, *arguments)
    found = await store.keys.find(b"d" * 32)
    assert found is not None
    assert found.caller.principal().scopes == {"jobs:read"}


async def test_no_row_is_both_restricted_and_unrestricted(
    store: PostgresStore, before: asyncpg.Connection, make: Factory
) -> None:
    """The database itself refuses a restricted key whose scopes an old program would take for granted."""
    await store.keys.add(new_key(make, labels=LABELS))
    for change in ("scopes = '{jobs:read}'", "labels = NULL", "labelled_scopes = NULL"):
        with pytest.raises(asyncpg.CheckViolationError):
            await before.execute(f"UPDATE tickwise.keys SET {change}")


async def test_a_restricted_role_is_unknown_to_the_release_before(
    store: PostgresStore, before: asyncpg.Connection, make: Factory
) -> None:
    """It finds no role of that name, neither built-in nor custom, counts no administrator, and keeps the row."""
    await store.roles.put(RoleRow("default", "rerunner", frozenset({"runs:write"}), ()))
    roles = (
        Member("*", "admin", LABELS),
        Member("default", "developer", LABELS),
        Member("default", "rerunner", LABELS),
    )
    row = await store.users.add(new_user(make, "ada", *roles))
    known = {*ROLES, *(each["name"] for each in await before.fetch(CUSTOM_ROLES))}
    assert {"rerunner", "developer"} < known
    stored = {each["role"] for each in await before.fetch(MEMBERS, row.user_id)}
    assert 3 == len(stored)
    assert stored.isdisjoint(known)
    assert 0 == await before.fetchval(ADMINISTRATORS)
    assert (await store.users.get(row.user_id)) == row
