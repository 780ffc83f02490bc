"""Whatever a program does, the database itself refuses what the table of moves does not allow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tickwise.adapters.store.postgres import upgrade
from tickwise.domain.lifecycle import CODES, FINAL, HELD, RunState, steps

RUN = UUID("0199c0de-0000-8000-8000-000000000001")
LIVING = [state for state in RunState if state not in FINAL]

INSERT = """
INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace, state, holder)
VALUES (now(), now(), now(), $1, $1, 1, 'default', $2, $3)
"""
END = """
INSERT INTO tickwise.history (due, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures,
                              crashes, trigger, namespace)
VALUES (now(), now(), now(), 1, 1, $1, $1, $2, $3, 1, 0, 0, 1, 'default')
"""


@pytest_asyncio.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session whose changes are undone."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


def holder(state: RunState) -> int:
    return 1 if state in HELD else 0


async def allows(connection: asyncpg.Connection, before: RunState, after: RunState) -> bool:
    """Whether the database lets a run go from one state to the other."""
    attempt = connection.transaction()
    await attempt.start()
    try:
        if after in FINAL:
            await connection.execute(END, RUN, CODES[after], CODES[before])
        else:
            await connection.execute(INSERT, RUN, CODES[before], holder(before))
            await connection.execute("UPDATE tickwise.runs SET state = $1, holder = $2", CODES[after], holder(after))
    except asyncpg.CheckViolationError:
        return False
    finally:
        await attempt.rollback()
    return True


async def test_the_database_allows_the_moves_of_the_table_and_no_others(connection: asyncpg.Connection) -> None:
    """Every pair of states, those that a final one would have to leave included."""
    pairs = {(before, after) for before in LIVING for after in RunState}
    pairs |= {(before, after) for before in FINAL for after in FINAL}
    assert {pair for pair in pairs if await allows(connection, *pair)} == steps()


@pytest.mark.parametrize("state", LIVING)
async def test_a_run_is_held_by_somebody_just_when_its_state_says_so(
    connection: asyncpg.Connection, state: RunState
) -> None:
    """A holder of a waiting run, or none of a running one, cannot be stored."""
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(INSERT, RUN, CODES[state], 1 - holder(state))


async def test_what_has_happened_cannot_be_changed(connection: asyncpg.Connection) -> None:
    """Not even to the same."""
    await connection.execute(END, RUN, CODES[RunState.SUCCESS], CODES[RunState.RUNNING])
    with pytest.raises(asyncpg.CheckViolationError, match="history is never changed"):
        await connection.execute("UPDATE tickwise.history SET error = 'no'")
