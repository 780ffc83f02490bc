"""Calendars and maintenance windows: few, read whole by every scheduler, changed one after the other.

A change waits until no timer is being decided: what a scheduler holds back by the old rules is then written, and is
found and woken. It waits briefly, because schedulers wait behind it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import Links
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.records.paging import bounded, page_of
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.quotas import NO_QUOTAS
from tickwise.ports.store import Page, RuleKind, RuleQuery, RuleRow, check_room, check_seen, is_done

TRIES: Final = 4
"""Half a second each: a batch of timers takes some milliseconds."""


class Rules(Part):
    """`RuleStore` of the port."""

    async def put(
        self,
        rule: RuleRow,
        expected_version: int | None = None,
        *,
        again: bool = False,
        audit: AuditEntry | None = None,
    ) -> RuleRow:
        """See the port."""
        quotas = (await self._quotas.of([rule.namespace])).get(rule.namespace, NO_QUOTAS)
        async with changing_rules(self._links) as connection:
            before = await _found(connection, rule.namespace, rule.kind, rule.name)
            if before is not None and is_done(before, rule, expected_version, again=again):
                return before
            check_seen(before, rule, expected_version)
            await check_open(connection, rule.namespace, or_closing=before is None)
            if before is None:
                of_all, of_kind = await connection.fetchrow(statement("rules_count"), rule.namespace, rule.kind)
                check_room(rule.kind, quotas, of_all=of_all, of_kind=of_kind)
            stored = await connection.fetchrow(
                statement("rule_put"), rule.namespace, rule.kind, rule.name, rule.body, rule.created_by
            )
            await connection.execute(statement("rules_changed"), rule.namespace)
            await write_audit(connection, audit)
        return _rule(stored)

    async def find(self, query: RuleQuery) -> Page[RuleRow]:
        """See the port."""
        asked = (query.namespace, query.kind, query.names, query.after, query.limit, query.bytes_most)
        async with self._links.pooled(writes=False) as connection:
            return page_of(await connection.fetch(bounded("rules_list"), *asked), _rule)

    async def delete(
        self,
        namespace: str,
        kind: RuleKind,
        name: str,
        *,
        expected: RuleRow | None = None,
        audit: AuditEntry | None = None,
    ) -> None:
        """See the port."""
        async with changing_rules(self._links) as connection:
            before = await _found(connection, namespace, kind, name)
            if before is None:
                raise NotFound(f"there is no {kind} {name}")
            if expected is not None:
                check_seen(before, expected, expected.version)
            if kind is RuleKind.CALENDAR and await connection.fetchval(statement("calendar_used"), namespace, name):
                raise Conflict(
                    f"jobs go by the calendar {name}: take it out of their definitions, or cancel them",
                    code="calendar_in_use",
                )
            await connection.execute(statement("rule_drop"), namespace, kind, name)
            await connection.execute(statement("rules_changed"), namespace)
            await write_audit(connection, audit)

    async def all(self) -> tuple[int, Sequence[RuleRow]]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("rules_all"))
        return rows[0]["all_version"], [_rule(row) for row in rows if row["name"] is not None]


@contextlib.asynccontextmanager
async def changing_rules(links: Links) -> AsyncIterator[asyncpg.Connection]:
    """A transaction that alone changes rules, while no timer is being decided."""
    async with links.pooled(writes=True) as connection:
        for left in reversed(range(TRIES)):
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(statement("rules_lock"))
            except asyncpg.LockNotAvailableError:
                await transaction.rollback()
                if not left:
                    raise
            else:
                break
        try:
            yield connection
        except BaseException:
            if not connection.is_closed():
                await transaction.rollback()
            raise
        await transaction.commit()


async def _found(connection: asyncpg.Connection, namespace: str, kind: RuleKind, name: str) -> RuleRow | None:
    row = await connection.fetchrow(statement("rule_get"), namespace, kind, name)
    return None if row is None else _rule(row)


def _rule(row: Mapping[str, Any]) -> RuleRow:
    return RuleRow(
        namespace=row["namespace"],
        kind=RuleKind(row["kind"]),
        name=row["name"],
        body=row["body"],
        version=row["version"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
