"""A namespace moves between two databases: all of it, once, while others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.support.made_rows import make_rows
from tests.support.two_databases import TwoDatabases, two_databases, upgraded
from tickwise.adapters.store.postgres.shards.mover import MoveProgress, MoveStep
from tickwise.adapters.store.postgres.shards.tables import MOVED, STAYING, Ownership
from tickwise.control.audit.verification import verify
from tickwise.domain.audit import AuditAction, AuditEntry
from tickwise.domain.errors import Conflict, NamespaceMoved, NotFound
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Claimed
from tickwise.ports.shards import NamespacePlace
from tickwise.ports.store import ClaimRequest, Store
from tickwise.testing import factories
from tickwise.testing.contracts.base import began
from tickwise.testing.contracts.store.jobs.audit import ADA
from tickwise.testing.factories import Factory

HOUR = 3_600.0
TEAM, OTHERS = "team", "others"


@pytest_asyncio.fixture(scope="module")
async def template(postgres_url: str) -> AsyncIterator[str]:
    """A database with the schema."""
    async with upgraded(postgres_url) as name:
        yield name


@pytest_asyncio.fixture
async def two(postgres_url: str, template: str) -> AsyncIterator[TwoDatabases]:
    """Two databases, and two namespaces in the first."""
    async with two_databases(postgres_url, template) as both:
        for namespace in (TEAM, OTHERS):
            await both.first.shard_map.place(namespace, 1)
        yield both


@pytest_asyncio.fixture
async def team(two: TwoDatabases) -> Factory:
    """What the namespace that moves has."""
    return Factory(await two.first.now(), namespace=TEAM, seed="team")


@pytest_asyncio.fixture
async def others(two: TwoDatabases) -> Factory:
    """What one that stays has."""
    return Factory(await two.first.now(), namespace=OTHERS, seed="others")


async def fill(two: TwoDatabases, number: int = 1) -> None:
    """A row in each table, of both namespaces."""
    connection = await asyncpg.connect(two.urls[number - 1])
    try:
        for namespace in (TEAM, OTHERS):
            await make_rows(connection, namespace)
    finally:
        await connection.close()


async def claim(store: Store, executor: int, limit: int = 100) -> Sequence[Claimed]:
    return await store.attempts.claim(
        ClaimRequest(executor=executor, queues=("default",), labels=(), limit=limit, ahead_seconds=0.0)
    )


async def joined(two: TwoDatabases) -> int:
    """An executor that is known in both databases, as one that goes by the map is."""
    executor = factories.executor(lease_seconds=300.0)
    for store in two.stores:
        await store.executors.join(executor)
    return executor.number


def at_step(step: MoveStep, act):  # type: ignore[no-untyped-def]  # a coroutine function of no arguments
    """Do something once, when this step is done."""
    done: list[bool] = []

    async def tell(progress: MoveProgress) -> None:
        if progress.step is step and not done:
            done.append(True)
            await act()

    return tell


async def test_each_table_is_known_to_the_move(two: TwoDatabases) -> None:
    """A migration that adds a table says whether its rows move with their namespace."""
    rows = await two.rows(1, "schema_version")
    assert len(rows) == 1
    connection = await asyncpg.connect(two.urls[0])
    tables = await connection.fetch(
        "SELECT relname FROM pg_class "
        "WHERE relnamespace = 'tickwise'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
    )
    await connection.close()
    moved = [table.name for table in MOVED]
    assert {row["relname"] for row in tables} == {*moved, *STAYING}
    assert len(moved) == len(set(moved))
    assert set(moved) & set(STAYING) == set()


async def test_each_table_with_a_namespace_moves_or_says_why(two: TwoDatabases) -> None:
    """A column of the name tells that rows belong to one; those that stay are of people, credentials and moves."""
    connection = await asyncpg.connect(two.urls[0])
    tables = await connection.fetch(
        "SELECT DISTINCT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relnamespace = 'tickwise'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
        "AND a.attname = 'namespace'"
    )
    await connection.close()
    moved = {table.name for table in MOVED if table.ownership is Ownership.NAMESPACE}
    assert {row["relname"] for row in tables} - moved == {
        "lanes", "lanes_freed", "feed", "keys", "members", "custom_roles", "sessions", "device_sign_ins",
        "shard_places", "shard_departures", "shard_changes", "shard_departed_runs", "shard_arrivals",
        "notices_successes",  # a trigger of rules writes it: see the next test
    }  # fmt: skip


async def test_the_jobs_whose_successes_rules_ask_for_are_known_in_the_other_database(two: TwoDatabases) -> None:
    """And in the old one no more."""
    await fill(two)
    job, rule = UUID(int=7), UUID(int=8)
    first, second = [await asyncpg.connect(url) for url in two.urls]
    await first.execute(
        "INSERT INTO tickwise.notification_rules (created_at, rule_id, namespace, name, created_by, channels, jobs, "
        "events, enabled, body) VALUES (now(), $1, $2, 'beat', 'ada', '{}', $3, '{success}', true, '{}')",
        rule, TEAM, [job],
    )  # fmt: skip
    asked = "SELECT job_id, rule_id, namespace FROM tickwise.notices_successes WHERE namespace = $1"
    assert [(job, rule, TEAM)] == [tuple(row) for row in await first.fetch(asked, TEAM)]
    await two.move(TEAM, 1, 2)
    assert [(job, rule, TEAM)] == [tuple(row) for row in await second.fetch(asked, TEAM)]
    assert [] == await first.fetch(asked, TEAM)
    await first.close()
    await second.close()


async def test_all_rows_of_the_namespace_move_and_no_others(two: TwoDatabases) -> None:
    """Row by row, of each table: nothing is lost, nothing changed, nothing left, nothing of others touched."""
    await fill(two)
    before, others = await two.content(1, TEAM), await two.content(1, OTHERS)
    assert {table.name for table in MOVED} == set(before)
    await two.move(TEAM, 1, 2)
    assert await two.content(2, TEAM) == before
    # The first database lists all namespaces.
    assert await two.content(1, TEAM) == {"namespaces": before["namespaces"]}
    assert (await two.content(1, OTHERS), await two.content(2, OTHERS)) == (others, {})
    assert (await two.first.shard_map.read()).places[TEAM] == NamespacePlace(2)


async def test_it_moves_there_and_back(two: TwoDatabases) -> None:
    """The database that it had left takes it again."""
    await fill(two)
    before = await two.content(1, TEAM)
    await two.move(TEAM, 1, 2)
    await two.move(TEAM, 2, 1)
    assert await two.content(1, TEAM) == before
    assert await two.content(2, TEAM) == {}
    make = Factory(await two.first.now(), namespace=TEAM)
    await two.store(1).jobs.add([make.job()])
    with pytest.raises(NamespaceMoved):
        await two.store(2).jobs.add([make.job()])


async def test_databases_that_move_nothing_have_no_trigger_of_it(two: TwoDatabases) -> None:
    """The hot path pays nothing. What was moved away leaves guards for new rows alone, and they go when it is back."""

    async def triggers(number: int) -> set[tuple[str, str]]:
        rows = await two.rows(number, "shard_map")
        assert len(rows) == 1
        connection = await asyncpg.connect(two.urls[number - 1])
        found = await connection.fetch(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgname LIKE 'shard\\_%'"
        )
        await connection.close()
        return {(row[0].removeprefix("tickwise."), row[1]) for row in found}

    assert (await triggers(1), await triggers(2)) == (set(), set())
    await two.move(TEAM, 1, 2)
    assert {name for _, name in await triggers(1)} == {"shard_watch_insert"}
    assert await triggers(2) == set()
    await two.move(TEAM, 2, 1)
    assert await triggers(1) == set()


async def test_what_changes_while_it_is_copied_is_changed_in_its_new_place(
    two: TwoDatabases, team: Factory, others: Factory
) -> None:
    """Jobs that come, change, end and go after their page was read."""
    store = two.first
    kept, edited, dropped, ends = (team.recurring(team.now + HOUR) for _ in range(4))
    for job in (kept, edited, dropped):
        await store.jobs.add([job])
    await store.jobs.add([once := team.job(team.now - 1.0)])
    executor = await joined(two)

    async def work() -> None:
        row = await store.jobs.get(TEAM, edited.job_id)
        assert row is not None
        await store.jobs.change(team.change(row, name="another name", replan=team.plan(team.now + 2 * HOUR)))
        await store.jobs.add([ends, others.recurring(others.now + HOUR)])
        [claimed] = await claim(store, executor)
        assert claimed.job_id == once.job_id
        await store.attempts.finish(executor, factories.outcomes([claimed]))
        await two.execute(1, "DELETE FROM tickwise.timers WHERE job_id = $1", dropped.job_id)
        await two.execute(1, "DELETE FROM tickwise.jobs WHERE job_id = $1", dropped.job_id)

    seen: dict[str, object] = {}

    async def tell(progress: MoveProgress) -> None:
        if progress.step is MoveStep.COPIED:
            await work()
            seen.update(await two.content(1, TEAM))

    await two.mover(TEAM, 1, 2, tell).run()
    assert await two.content(2, TEAM) == seen
    there = await two.store(2).jobs.get(TEAM, edited.job_id)
    assert there is not None
    assert (there.name, there.version) == ("another name", 2)
    assert await two.store(2).jobs.get(TEAM, dropped.job_id) is None


async def test_while_it_is_fenced_its_writes_are_refused_and_those_of_others_are_not(
    two: TwoDatabases, team: Factory, others: Factory
) -> None:
    """A batch of outcomes of both is taken for those that stay, and sent again; claims pass over those that leave."""
    store = two.first
    await store.jobs.add([team.job(team.now - 2.0), others.job(others.now - 2.0)])
    executor = await joined(two)
    held = await claim(store, executor)
    assert {each.namespace for each in held} == {TEAM, OTHERS}
    await store.attempts.start(executor, [began(each) for each in held])
    await store.jobs.add([team.job(team.now - 1.0), others.job(others.now - 1.0)])
    facts: list[object] = []

    async def look() -> None:
        with pytest.raises(NamespaceMoved):
            await store.jobs.add([team.job()])
        await store.jobs.add([others.job(others.now + HOUR)])
        with pytest.raises(NamespaceMoved):
            await store.attempts.finish(executor, factories.outcomes(held))
        states = {each.namespace: await store.runs.get(each.namespace, each.run_id) for each in held}
        facts.append({namespace: row.state for namespace, row in states.items() if row is not None})
        facts.append({each.namespace for each in await claim(store, executor)})

    await two.mover(TEAM, 1, 2, at_step(MoveStep.FENCED, look)).run()
    assert facts == [{TEAM: RunState.RUNNING, OTHERS: RunState.SUCCESS}, {OTHERS}]


async def test_a_run_under_way_ends_in_the_new_place(two: TwoDatabases, team: Factory) -> None:
    """Its claim travels with it, token and all; the old database says so until the new one has it, and then refuses."""
    await two.first.jobs.add([team.job(team.now - 1.0)])
    executor = await joined(two)
    [held] = await claim(two.first, executor)
    await two.first.attempts.start(executor, [began(held)])
    answers: list[str] = []

    async def report() -> None:
        with pytest.raises(NamespaceMoved):
            await two.store(1).attempts.finish(executor, [factories.outcome(held)])
        answers.append("send it again")

    await two.mover(TEAM, 1, 2, at_step(MoveStep.LEFT, report)).run()
    assert answers == ["send it again"]
    assert list(await two.store(1).attempts.finish(executor, [factories.outcome(held)])) == [held.run_id]
    assert list(await two.store(2).attempts.finish(executor, [factories.outcome(held)])) == []
    [ended] = (await two.content(2, TEAM))["history"]
    assert (ended["run_id"], ended["state"], ended["token"]) == (held.run_id, CODES[RunState.SUCCESS], held.token)


async def test_a_later_claim_in_the_new_place_has_a_greater_token(two: TwoDatabases, team: Factory) -> None:
    """Tokens of a run only grow, whichever database draws them: systems that tasks write to may compare them."""
    await two.execute(1, "SELECT setval('tickwise.fence', last_value + 5000) FROM tickwise.fence")
    await two.first.jobs.add([team.job(team.now - 1.0)])
    executor = await joined(two)
    [held] = await claim(two.first, executor)
    await two.move(TEAM, 1, 2)
    given_back = factories.outcome(held, RunState.QUEUED)
    assert list(await two.store(2).attempts.finish(executor, [given_back])) == []
    [again] = await claim(two.store(2), executor)
    assert (again.run_id, again.token > held.token) == (held.run_id, True)


async def test_a_run_of_an_executor_that_the_goal_does_not_know_is_held_there(two: TwoDatabases, team: Factory) -> None:
    """It is made known, with its lease: the run is not given to another one while its holder lives."""
    await two.first.jobs.add([team.job(team.now - 1.0)])
    alone = factories.executor(lease_seconds=300.0)
    await two.first.executors.join(alone)
    [held] = await claim(two.first, alone.number)
    await two.move(TEAM, 1, 2)
    assert (await two.store(2).executors.expire(crashes_max=3)).executors == []
    row = await two.store(2).runs.get(TEAM, held.run_id)
    assert row is not None
    assert (row.state, row.executor) == (RunState.DISPATCHED, alone.number)


async def test_a_number_that_is_of_another_executor_there_stops_the_move(two: TwoDatabases, team: Factory) -> None:
    """A run must not pass to one that never claimed it. Nothing has moved."""
    await two.first.jobs.add([team.job(team.now - 1.0)])
    here = factories.executor("here", lease_seconds=300.0)
    await two.first.executors.join(here)
    await two.store(2).executors.join(factories.executor("there", number=here.number, lease_seconds=300.0))
    await claim(two.first, here.number)
    with pytest.raises(Conflict):
        await two.move(TEAM, 1, 2)
    await two.first.jobs.add([team.job()])


async def test_the_chain_of_the_audit_log_holds_in_the_new_place(two: TwoDatabases) -> None:
    """Seals and entries go with the namespace, and later ones follow them."""

    async def write(store: Store) -> None:
        await store.audit.add(
            [AuditEntry(namespace=TEAM, action=AuditAction.JOB_CHANGED, source=ADA, target_kind="job")]
        )
        await store.audit.seal(1_000)

    for _ in range(3):
        await write(two.store(1))
    await two.move(TEAM, 1, 2)
    await write(two.store(2))
    seals = await two.store(2).audit.seals(TEAM, 0, 100)
    assert [seal.seq for seal in seals] == [1, 2, 3, 4]
    assert [later.previous for later in seals[1:]] == [earlier.hash for earlier in seals[:-1]]
    assert (await two.store(1).audit.seals(TEAM, 0, 100)) == []
    report = await verify(two.store(2).audit)
    assert (report.findings, report.seals, report.entries) == ([], 4, 4)


async def test_a_fence_whose_mover_died_is_void_after_its_time(two: TwoDatabases, team: Factory) -> None:
    """Nobody waits for a mover that does not come back."""

    class Died(Exception):
        pass

    async def die() -> None:
        raise Died

    with pytest.raises(Died):
        await two.mover(TEAM, 1, 2, at_step(MoveStep.COPIED, die)).run()
    fence = (
        "UPDATE tickwise.shard_departures SET state = 'fenced', until = clock_timestamp() + $1 * interval '1 second'"
    )
    await two.execute(1, fence, 60)
    with pytest.raises(NamespaceMoved):
        await two.first.jobs.add([team.job()])
    await two.execute(1, fence, -1)
    await two.first.jobs.add([team.job()])
    before = await two.content(1, TEAM)
    await two.move(TEAM, 1, 2)
    assert await two.content(2, TEAM) == before


async def test_a_move_is_undone(two: TwoDatabases, team: Factory) -> None:
    """It stays where it is, nothing of it is in the other database, and it may move again."""
    await fill(two)
    before = await two.content(1, TEAM)

    class Interrupted(Exception):
        pass

    async def interrupt() -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        await two.mover(TEAM, 1, 2, at_step(MoveStep.STAGED, interrupt)).run()
    await two.mover(TEAM, 1, 2).undo()
    assert (await two.content(1, TEAM), await two.content(2, TEAM)) == (before, {})
    assert (await two.first.shard_map.read()).places[TEAM] == NamespacePlace(1)
    await two.move(TEAM, 1, 2)
    assert await two.content(2, TEAM) == before


async def test_a_namespace_that_has_left_is_not_undone(two: TwoDatabases) -> None:
    """The only way is on."""

    class Interrupted(Exception):
        pass

    async def interrupt() -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        await two.mover(TEAM, 1, 2, at_step(MoveStep.LEFT, interrupt)).run()
    with pytest.raises(Conflict):
        await two.mover(TEAM, 1, 2).undo()
    await two.move(TEAM, 1, 2)
    assert (await two.first.shard_map.read()).places[TEAM] == NamespacePlace(2)


async def test_a_namespace_without_a_place_does_not_move(two: TwoDatabases) -> None:
    """Its name may be mistyped."""
    with pytest.raises(NotFound):
        await two.move("tema", 1, 2)


async def test_a_goal_that_has_the_namespace_already_is_not_overwritten(two: TwoDatabases, team: Factory) -> None:
    """A map that was restored from an older dump may say the wrong place: nothing is removed by it."""
    await two.store(2).jobs.add([job := team.job()])
    with pytest.raises(Conflict):
        await two.move(TEAM, 1, 2)
    assert await two.store(2).jobs.get(TEAM, job.job_id) is not None
    await two.store(1).jobs.add([team.job()])


async def test_a_writer_that_stays_open_holds_up_the_move_and_nobody_else(
    two: TwoDatabases, team: Factory, others: Factory
) -> None:
    """The move waits for it a moment, lets all others go on, and tries again."""
    await two.first.jobs.add([team.recurring(team.now + HOUR)])
    tries = 0
    session = await asyncpg.connect(two.urls[0])
    transaction = session.transaction()

    async def tell(progress: MoveProgress) -> None:
        nonlocal tries
        if progress.step is MoveStep.CAUGHT_UP:
            await transaction.start()
            await session.execute("UPDATE tickwise.jobs SET version = version + 1 WHERE namespace = 'team'")
            asyncio.get_running_loop().call_later(1.2, lambda: asyncio.ensure_future(transaction.commit()))
        if progress.step is MoveStep.FENCED:
            tries += 1

    await two.mover(TEAM, 1, 2, tell).run()
    await session.close()
    assert tries == 1
    [job] = (await two.content(2, TEAM))["jobs"]
    assert job["version"] == 2


def test_a_table_says_how_it_is_read() -> None:
    """Rows that are copied page by page have a key; those that act go at once, or wait."""
    assert [table for table in MOVED if table.is_captured and table.key is None] == []
    assert [table.name for table in MOVED if table.acts and not table.is_staged] == []
