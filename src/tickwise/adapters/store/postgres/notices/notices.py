"""Notices: taken by a sender with a lease, and settled by the one that holds them.

Invariant: a sender takes notices while no other one does, so that at most one of a channel is held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.documents.notices import lines_document, lines_of
from tickwise.domain.audit import AuditEntry
from tickwise.domain.notices.merging import merged
from tickwise.domain.notices.rules import Notice, NoticeChannelKind, NoticeState, Severity
from tickwise.ports.store.notices import (
    FAILING_OF_NAMESPACE,
    FAILING_SENDS,
    LINGER_SECONDS,
    LINGERING_OF_NAMESPACE,
    SEND_LEASE_SECONDS,
    SENDS_OF_NAMESPACE,
    DueNotices,
    KindBacklog,
    NoticeQuery,
    SettledNotice,
    no_channel,
)

TRIES: Final = 5
"""Events may make another notice of the channel and rule while one is put back: each try merges that one, too."""


class Notices(Part):
    """`NoticeStore` of the port."""

    async def add(self, notice: Notice, *, audit: AuditEntry | None = None) -> Notice:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            stored = await connection.fetchrow(statement("notice_get"), notice.notice_id)
            if stored is not None:
                return _notice(stored)
            of_tests = "notice_channel_of_test" if notice.is_test else "notice_channel"
            if await connection.fetchval(statement(of_tests), notice.channel_id, notice.namespace) is None:
                raise no_channel()
            await check_open(connection, notice.namespace)
            if notice.is_test and (test := await self._test(connection, notice)) is not None:
                await write_audit(connection, audit)
                return test
            await connection.execute(
                statement("notice_add"), notice.notice_id, notice.namespace, notice.channel_id, notice.rule_id,
                notice.rule_name, notice.severity.value, notice.events, notice.first_at, notice.last_at, notice.due,
                lines_document(notice.lines), notice.is_test, notice.is_escalation, notice.subjects, notice.beside,
                notice.repeated,
            )  # fmt: skip
            await write_audit(connection, audit)
            return _notice(await connection.fetchrow(statement("notice_get"), notice.notice_id))

    async def _test(self, connection: asyncpg.Connection, notice: Notice) -> Notice | None:
        """The test of the channel that waits, made anew unless it is under way."""
        await connection.execute(statement("notice_test_anew"), notice.channel_id, notice.due)
        row = await connection.fetchrow(statement("notice_test"), notice.channel_id)
        return None if row is None else _notice(row)

    async def due(self, sender: str, limit: int) -> DueNotices:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await connection.execute(statement("notices_take_lock"))
            rows = await connection.fetch(
                statement("notices_take"), sender, limit, SEND_LEASE_SECONDS, SENDS_OF_NAMESPACE, FAILING_OF_NAMESPACE,
                FAILING_SENDS, LINGER_SECONDS, LINGERING_OF_NAMESPACE,
            )  # fmt: skip
            exist = bool(rows) or await connection.fetchval(statement("channels_exist"))
        return DueNotices(sorted(map(_notice, rows), key=lambda each: (each.due, each.notice_id)), exist)

    async def settle(self, sender: str, results: Sequence[SettledNotice]) -> None:
        """See the port."""
        for each in results:
            await self._settle(sender, each)

    async def _settle(self, sender: str, result: SettledNotice) -> None:
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            alerts = await _locked_alerts(connection, result.notice_id) if result.state is NoticeState.DEAD else []
            row = await connection.fetchrow(statement("notice_held"), result.notice_id, sender)
            if row is None:
                return
            if alerts:
                await connection.execute(statement("notice_alerts_untold"), alerts, result.notice_id)
            if not result.was_tried:
                await connection.execute(statement("notice_untried"), result.notice_id)
                await _wait(connection, _notice(row), row["error"], result.again_seconds, anew=False)
                return
            delivered = result.state is NoticeState.DELIVERED
            rests = 0.0 if row["is_test"] or result.state is not NoticeState.WAITING else result.rest_seconds
            await connection.execute(
                statement("channel_outcome"), row["channel_id"], delivered, result.error, rests, result.was_slow
            )  # fmt: skip
            if delivered:
                await connection.execute(statement("notices_hurry"), row["channel_id"])
            if result.state is NoticeState.WAITING:
                waits = replace(_notice(row), served=tuple(result.served))
                await _wait(connection, waits, result.error, result.again_seconds, anew=False)
            else:
                await connection.execute(
                    statement("notice_end"), result.notice_id, result.state.value, result.error, list(result.served)
                )

    async def find(self, query: NoticeQuery) -> Sequence[Notice]:
        """See the port."""
        asked = [
            query.namespace,
            [state.value for state in query.states] or None,
            query.channel_id,
            query.rule_id,
            query.notice_id,
            query.before,
            query.limit,
        ]
        async with self._links.pooled(writes=False) as connection:
            return [_notice(row) for row in await connection.fetch(statement("notices_find"), *asked)]

    async def backlog(self) -> Mapping[NoticeChannelKind, KindBacklog]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("notices_backlog"))
        found = {
            NoticeChannelKind(row["kind"]): KindBacklog(
                row["waiting"], row["oldest_seconds"], row["failing"], row["resting"]
            )
            for row in rows
        }
        return {kind: found.get(kind, KindBacklog(0, 0.0, 0)) for kind in NoticeChannelKind}

    async def again(self, namespace: str, notice_id: UUID, *, audit: AuditEntry | None = None) -> Notice | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            row = await connection.fetchrow(statement("notice_dead"), notice_id, namespace)
            if row is None:
                return None
            await _wait(connection, _notice(row), row["error"], 0.0, anew=True)
            await connection.execute(statement("channel_wake"), row["channel_id"])
            await write_audit(connection, audit)
            return _notice(await connection.fetchrow(statement("notice_get"), notice_id))


async def _locked_alerts(connection: asyncpg.Connection, notice_id: UUID) -> Sequence[UUID]:
    """The alerts that a notice tells of, as a fold locks them: before a notice and a channel."""
    lines = await connection.fetchval(statement("notice_alerts"), notice_id)
    told = [] if lines is None else [line.alert_id for line in lines_of(lines) if line.alert_id is not None]
    locked = await connection.fetch(statement("notice_alerts_lock"), told) if told else []
    return [row["alert_id"] for row in locked]


async def _wait(
    connection: asyncpg.Connection, notice: Notice, error: str | None, seconds: float, *, anew: bool
) -> None:
    """Let a notice wait, with what waits for its channel and rule."""
    for turn in range(TRIES):
        try:
            async with connection.transaction():
                whole = notice
                if not notice.is_test:
                    target = (notice.channel_id, notice.rule_id, notice.is_escalation)
                    for row in await connection.fetch(statement("notice_joins"), *target):
                        whole = merged(whole, _notice(row))
                await connection.execute(
                    statement("notice_wait"), whole.notice_id, error, seconds, whole.events, whole.first_at,
                    whole.last_at, whole.severity.value, whole.rule_name, lines_document(whole.lines), anew,
                    whole.subjects, list(whole.served),
                )  # fmt: skip
        except asyncpg.UniqueViolationError:
            if turn == TRIES - 1:
                raise
        else:
            return


def _notice(row: Mapping[str, Any]) -> Notice:
    return Notice(
        notice_id=row["notice_id"],
        namespace=row["namespace"],
        channel_id=row["channel_id"],
        rule_id=row["rule_id"],
        rule_name=row["rule_name"],
        severity=Severity(row["severity"]),
        state=NoticeState(row["state"]),
        events=row["events"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        lines=lines_of(row["lines"]),
        due=row["due"],
        tries=row["tries"],
        tried_at=row["tried_at"],
        error=row["error"],
        ended_at=row["ended_at"],
        is_test=row["is_test"],
        is_escalation=row["is_escalation"],
        subjects=row["subjects"],
        beside=row["beside"],
        repeated=row["repeated"],
        served=tuple(row["served"]),
    )
