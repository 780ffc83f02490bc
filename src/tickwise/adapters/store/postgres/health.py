"""Checks of the invariants, page by page, and the repairs that the store can make.

Each check is a statement of its own, `check_<name>`: it looks at up to `limit` subjects after an id, by a
primary key, and answers one row for each that is wrong, and the last one that it looked at. Invariant: what heals looks
again before it changes anything, so what is right by now stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.codes import JobStanding
from tickwise.adapters.store.postgres.connection.link import UniqueBroken, translated
from tickwise.adapters.store.postgres.jobs.changes import put_timer
from tickwise.adapters.store.postgres.queue.releases import FreeTerms, free_runs
from tickwise.adapters.store.postgres.queue.wakeups import Ended, wake
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.decision import TimerState
from tickwise.domain.errors import Bug, Invalid
from tickwise.domain.retry import CRASHES_MAX
from tickwise.ports.store import Check, Examined, Violation

log = logging.getLogger(__name__)


class Checks(Part):
    """`CheckStore` of the port."""

    async def violations(self, check: Check, *, after: UUID | None, limit: int) -> Examined:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement(f"check_{check}"), after, limit)
        last: UUID | None = rows[0]["last"] if rows and rows[0]["looked"] >= limit else None
        wrong = [row for row in rows if row["subject"] is not None]
        if check is not Check.CLAIMED_IN_TIME:
            found = [Violation(row["subject"], row["detail"], row["namespace"]) for row in wrong]
            return Examined(last=last, found=found)
        places = await self._lanes.places({row["lane"] for row in wrong})
        return Examined(
            last=last,
            found=[
                Violation(row["subject"], row["detail"], row["namespace"], places[row["lane"]].lane) for row in wrong
            ],
        )

    async def heal(self, check: Check, found: Sequence[Violation]) -> int:
        """See the port."""
        mend = MENDS.get(check)
        if mend is None:
            return 0
        count = 0
        async with self._links.pooled(writes=True) as connection:
            for subject in [violation.subject for violation in found]:
                try:
                    with translated(writes=True):
                        await mend(connection, subject)
                        count += await _is_right(connection, check, subject)
                except (Bug, Invalid, UniqueBroken) as error:
                    log.error("%s: %s cannot be put right: %s", check, subject, error)
        return count


class TimerRepair(Part):
    """`TimerStore.restore` of the port."""

    async def restore(self, namespace: str, job_id: UUID, timer: TimerState, *, expected_version: int) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            job = await connection.fetchrow(statement("job_lock"), namespace, job_id)
            if (
                job is None
                or job["version"] != expected_version
                or job["standing"] == JobStanding.CANCELLED
                or job["paused"]
            ):
                return False
            if await connection.fetchrow(statement("timer_lock"), job_id) is not None:
                return False
            await put_timer(connection, job_id, timer, None, None)
        return True


async def _is_right(connection: asyncpg.Connection, check: Check, subject: UUID) -> bool:
    """Check whether one subject satisfies the invariant by now."""
    before = UUID(int=subject.int - 1) if subject.int else None
    rows = await connection.fetch(statement(f"check_{check}"), before, 1)
    return all(row["subject"] != subject for row in rows)


async def _end_once(connection: asyncpg.Connection, subject: UUID) -> None:
    row = await connection.fetchrow(statement("heal_ended_once"), subject)
    if row is not None:
        log.error("the run %s had ended and was still active: the record stays", subject)
        ended = Ended()
        ended.add([row["job_id"]], [row["namespace"]], [row["limit_key"]] if row["limit_key"] else None)
        await wake(connection, ended)


async def _free(connection: asyncpg.Connection, subject: UUID) -> None:
    await free_runs(connection, [subject], FreeTerms(CRASHES_MAX, in_order=False))


async def _unblock(connection: asyncpg.Connection, subject: UUID) -> None:
    if not await _is_right(connection, Check.WAITS_FOR_SOMETHING, subject):
        await connection.execute(statement("heal_waits_for_something"), subject)


async def _drop_request(connection: asyncpg.Connection, subject: UUID) -> None:
    await connection.execute(statement("heal_heard_in_time"), subject)


async def _end_lease(connection: asyncpg.Connection, subject: UUID) -> None:
    await connection.execute(statement("heal_held_as_told"), subject)


MENDS: Final[Mapping[Check, Callable[[asyncpg.Connection, UUID], Awaitable[None]]]] = MappingProxyType(
    {
        Check.ENDED_ONCE: _end_once,
        Check.HELD_BY_ACTIVE: _free,
        Check.WAITS_FOR_SOMETHING: _unblock,
        Check.HEARD_IN_TIME: _drop_request,
        Check.HELD_AS_TOLD: _end_lease,
    }
)
