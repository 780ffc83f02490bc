"""No more run with a key than its limit says, however many executors start, finish, die and are cut off at once.

The witness is none of the store's: each task says for itself when it begins and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import sessions_waiting
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.codes import OVERLAPS
from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Lane
from tickwise.ports.store import (
    Began,
    ClaimRequest,
    Gate,
    LetterStatus,
    Replay,
    RunQuery,
    Settled,
    Settlement,
    Successor,
)
from tickwise.testing.factories import Factory, executor, outcome

pytestmark = pytest.mark.usefixtures("patient_locks")

RUNS = 72
IN_FILE = 18
"""Besides: runs of one job, of which the next waits for the one before it, and both for a slot."""
LIMITS = {"key:narrow": 1, "key:wide": 3, "key:free": 30}
FILE = "one after the other"
PAUSE_SECONDS = 0.005
WORK_SECONDS = 0.01
LONG_LEASE_SECONDS = 600.0
"""Who lives is never expired here, however slow the machine."""
CUT_AT = (20, 50)
DIES_AT = 30

CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name LIKE 'tickwise%' AND datname = current_database() AND pid <> pg_backend_pid()
"""
DIES = "UPDATE tickwise.executors SET lease = now() - interval '1 second', lease_seconds = 0 WHERE executor = $1"
LOCK_KEY = "SELECT FROM tickwise.limits WHERE limit_key = $1 FOR UPDATE"
OPEN = "UPDATE tickwise.runs SET overlap = $1 WHERE run_id = ANY($2)"
"""These runs were made under that policy."""

T = TypeVar("T")


@pytest_asyncio.fixture
async def operator(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url, server_settings={"application_name": "operator"})
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def stores(database_url: str, operator: asyncpg.Connection) -> AsyncIterator[list[PostgresStore]]:
    """Three processes' clients."""
    stores = [PostgresStore(database_url, clock=SystemClock()) for _ in range(3)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def surely(call: Callable[[], Awaitable[T]]) -> T:
    """The answer of a call that is repeated until the store has one."""
    while True:
        try:
            return await call()
        except Unavailable:
            await SystemClock().sleep(PAUSE_SECONDS)


class Witness:
    """What tasks say of themselves."""

    def __init__(self) -> None:
        self.running: dict[UUID, tuple[str, ...]] = {}
        self.most: dict[str, int] = dict.fromkeys([*LIMITS, FILE], 0)
        self.began = 0

    def begins(self, run: UUID, *keys: str) -> None:
        self.began += 1
        self.running[run] = keys
        for key in keys:
            together = len([held for held in self.running.values() if key in held])
            self.most[key] = max(self.most[key], together)

    async def reaches(self, number: int) -> None:
        """So many have begun."""
        await eventually(lambda: self.began >= number, within_seconds=120.0, what=f"{number} have begun")

    def ends(self, run: UUID) -> None:
        self.running.pop(run, None)


class Hands:
    """An executor: claims, records each start, works, reports."""

    def __init__(self, store: PostgresStore, witness: Witness, keys: dict[UUID, tuple[str, ...]], number: int) -> None:
        self.store = store
        self.witness = witness
        self.keys = keys
        self.number = number
        self.held: dict[UUID, Claimed] = {}

    async def live(self) -> None:
        request = ClaimRequest(executor=self.number, queues=("limits",), labels=(), limit=5, ahead_seconds=0.0)
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    claims = await self.store.attempts.claim(request)
                except Unavailable:  # perhaps it took runs that we shall never hear of
                    await surely(self._keep)
                    continue
                if claims:
                    self.held |= {claimed.run_id: claimed for claimed in claims}
                    tasks.create_task(self._begin(claims))
                await SystemClock().sleep(PAUSE_SECONDS)

    async def _keep(self) -> int:
        # No claim is made meanwhile.
        return await self.store.executors.release_unknown(
            self.number, [each.token for each in self.held.values()], math.inf
        )

    async def _begin(self, claims: Sequence[Claimed]) -> None:
        """Several starts in one call: of one key, of several, in any order."""
        begans = [
            Began(each.run_id, each.token, each.now, gate=Gate(key, LIMITS[key]))
            for each in claims
            for key in self.keys[each.job_id][:1]
        ]
        refused = set(await surely(lambda: self.store.attempts.start(self.number, begans)))
        self._drop(claimed for claimed in claims if claimed.run_id in refused)
        begun = [claimed for claimed in claims if claimed.run_id not in refused]
        for claimed in begun:
            self.witness.begins(claimed.run_id, *self.keys[claimed.job_id])
        try:
            await SystemClock().sleep(WORK_SECONDS)
        finally:
            for claimed in begun:
                self.witness.ends(claimed.run_id)
        ended = [outcome(claimed) for claimed in begun]
        assert [] == await surely(lambda: self.store.attempts.finish(self.number, ended))
        self._drop(begun)

    def _drop(self, claims: Iterable[Claimed]) -> None:
        """These are over; a run of theirs may be held anew by now."""
        for claimed in claims:
            if self.held.get(claimed.run_id) is claimed:
                del self.held[claimed.run_id]


async def tidy(store: PostgresStore) -> None:
    """A scheduler."""
    while True:
        with contextlib.suppress(Unavailable):
            await store.runs.unblock()
            await store.executors.expire(crashes_max=10)
        await SystemClock().sleep(10 * PAUSE_SECONDS)


async def test_no_more_run_than_the_limit_whatever_is_cut_or_dies(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """Ninety runs of three keys, some of them one after the other besides; six executors of three processes, two cuts,
    one death: all of them end well."""
    make = Factory(await stores[0].now(), seed="limits")
    jobs = [make.job(make.now - RUNS + number, lane=Lane(queue="limits")) for number in range(RUNS)]
    await stores[0].jobs.add(jobs)
    keys: dict[UUID, tuple[str, ...]] = {
        job.job_id: (list(LIMITS)[number % len(LIMITS)],) for number, job in enumerate(jobs)
    }
    file = make.recurring(make.now, never=True, lane=Lane(queue="limits"))
    await stores[0].jobs.add([file])
    keys[file.job_id] = ("key:wide", FILE)
    in_file = [
        make.run(file.job_id, make.now + number / 1000, overlap=Overlap.QUEUE_ALL, nominal=make.now + number / 1000)
        for number in range(IN_FILE)
    ]
    await stores[0].runs.add("default", file.job_id, in_file)
    witness = Witness()
    hands = [
        Hands(store, witness, keys, await store.executors.join(executor(lease_seconds=LONG_LEASE_SECONDS)))
        for store in stores * 2
    ]
    lives = [asyncio.create_task(each.live()) for each in hands]
    tidies = [asyncio.create_task(tidy(store)) for store in stores[:2]]
    done = RunQuery(namespace="default", states=(RunState.SUCCESS,), limit=2 * RUNS)
    try:
        for moment in sorted({*CUT_AT, DIES_AT}):
            await witness.reaches(moment)
            if moment == DIES_AT:
                lives[0].cancel()  # with all its tasks
                await asyncio.wait(lives[:1])
                await operator.execute(DIES, hands[0].number)
            else:
                await operator.fetchval(CUT)

        async def all_ended() -> bool:
            failed = [task.exception() for task in [*lives[1:], *tidies] if task.done()]
            assert failed == []
            return await surely(lambda: stores[0].searches.count(done)) == RUNS + IN_FILE

        await eventually(all_ended, within_seconds=180.0, what="every run ends well")
    finally:
        for task in [*lives, *tidies]:
            task.cancel()
        await asyncio.wait([*lives, *tidies])
    assert {key: most for key, most in witness.most.items() if most > {**LIMITS, FILE: 1}[key]} == {}
    assert witness.most["key:wide"] > 1


async def claimed(store: PostgresStore, seed: str, count: int) -> tuple[Factory, int, list[Claimed]]:
    """Runs in the hands of an executor, in the order of their due times."""
    make = Factory(await store.now(), seed=seed)
    await store.jobs.add([make.job(make.now - count + number, lane=Lane(queue=seed)) for number in range(count)])
    born = await store.executors.join(executor(lease_seconds=LONG_LEASE_SECONDS))
    request = ClaimRequest(executor=born, queues=(seed,), labels=(), limit=count, ahead_seconds=1.0)
    found = list(await store.attempts.claim(request))
    assert len(found) == count
    return make, born, sorted(found, key=lambda each: each.due)


def start(claimed: Claimed, key: str, limit: int) -> list[Began]:
    return [Began(claimed.run_id, claimed.token, claimed.now, gate=Gate(key, limit))]


@pytest.mark.parametrize("overlap", [Overlap.ALLOW, Overlap.QUEUE_ALL])
async def test_of_two_that_want_the_last_slot_at_once_one_gets_it(
    stores: list[PostgresStore], operator: asyncpg.Connection, overlap: Overlap
) -> None:
    """On two connections, as two executors would; both ask before either has it. Also where each looks at the earlier
    runs of its job first."""
    key = f"key:two {overlap}"
    _, born, [first, second, third] = await claimed(stores[0], f"last-slot-{overlap}", 3)
    await operator.execute(OPEN, OVERLAPS[overlap], [second.run_id, third.run_id])
    assert await stores[0].attempts.start(born, start(first, key, 2)) == []
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_KEY, key)
    calls = []
    for number, (store, run) in enumerate([(stores[0], second), (stores[1], third)], 1):
        calls.append(asyncio.create_task(store.attempts.start(born, start(run, key, 2))))

        async def wait(number: int = number) -> bool:
            return await sessions_waiting(operator) >= number

        await eventually(wait)
    await transaction.rollback()
    refused = [run for call in calls for run in await call]
    assert len(refused) == 1
    rows = [await stores[0].runs.get("default", each.run_id) for each in (second, third)]
    states = sorted((row.state, row.blocked) for row in rows if row is not None)
    assert states == [(RunState.QUEUED, True), (RunState.RUNNING, False)]


async def test_who_asks_for_a_slot_while_it_is_given_up_is_not_forgotten(
    stores: list[PostgresStore], operator: asyncpg.Connection
) -> None:
    """It begins, or is claimable, and no sweep is needed for that."""
    _, born, [first, second] = await claimed(stores[0], "given-up", 2)
    assert await stores[0].attempts.start(born, start(first, "key:one", 1)) == []
    transaction = operator.transaction()
    await transaction.start()
    await operator.execute(LOCK_KEY, "key:one")
    ending = asyncio.create_task(stores[0].attempts.finish(born, [outcome(first)]))
    asking = asyncio.create_task(stores[1].attempts.start(born, start(second, "key:one", 1)))

    async def both_wait() -> bool:
        return await sessions_waiting(operator) >= 2

    await eventually(both_wait)
    await transaction.rollback()
    assert (await ending, await asking) == ([], [])
    row = await stores[0].runs.get("default", second.run_id)
    assert row is not None
    assert row.state is RunState.RUNNING


async def test_a_letter_is_settled_once_however_many_ask_at_the_same_time(stores: list[PostgresStore]) -> None:
    """The others are told that it is taken, and their runs are not made."""
    make, born, runs = await claimed(stores[0], "letters", 8)
    assert await stores[0].attempts.finish(born, [outcome(each, RunState.FAILED) for each in runs]) == []
    wanted = [
        [
            Settlement(each.run_id, LetterStatus.REDRIVEN, run=make.run(each.job_id, origin=each.run_id))
            for each in (runs if number % 2 else reversed(runs))
        ]
        for number in range(len(stores))
    ]
    answers = await asyncio.gather(
        *(
            store.letters.settle("default", settlements, by="ada")
            for store, settlements in zip(stores, wanted, strict=True)
        )
    )
    told = []
    for settlements, answer in zip(wanted, answers, strict=True):
        assert not isinstance(answer, Replay)
        told += [(settlement.run_id, settled) for settlement, settled in zip(settlements, answer, strict=True)]
    for each in runs:
        mine = sorted(settled for run, settled in told if run == each.run_id)
        assert mine == [Settled.SETTLED, Settled.TAKEN, Settled.TAKEN]
        assert await stores[0].searches.count(RunQuery(namespace="default", origin=each.run_id)) == 1


async def test_successors_are_made_once_however_many_make_them_at_the_same_time(stores: list[PostgresStore]) -> None:
    """The others make nothing."""
    make, born, [ended] = await claimed(stores[0], "follows", 1)
    job = make.recurring(make.now, never=True, schedule_type="ON_DEMAND")
    await stores[0].jobs.add([job])
    assert await stores[0].attempts.finish(born, [outcome(ended, follow=True)]) == []
    starts = [Successor(job.job_id, make.run(job.job_id, origin=ended.run_id))]
    made = await asyncio.gather(*(store.completions.commit("default", {ended.run_id: starts}) for store in stores))
    assert sorted(made) == [0, 0, 1]
    assert await stores[0].searches.count(RunQuery(namespace="default", job_id=job.job_id)) == 1
