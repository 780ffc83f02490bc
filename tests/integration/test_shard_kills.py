"""A move that dies at any step is ended, or undone, by the same command; nothing is lost and nothing is there twice."""

from __future__ import annotations

import asyncio
import getpass
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import count

import asyncpg
import pytest
import pytest_asyncio
from click.testing import CliRunner

from tests.support.made_rows import make_rows
from tests.support.two_databases import TwoDatabases, two_databases, upgraded
from tickwise.adapters.store.postgres.shards.mover import MoveProgress, MoveStep
from tickwise.cli.commands.operating.shards import shards
from tickwise.cli.session import Session
from tickwise.domain.errors import Conflict, Misconfigured, Unavailable
from tickwise.ports.audit import AuditQuery
from tickwise.ports.shards import NamespacePlace, ShardState
from tickwise.testing.factories import Factory
from tickwise.wiring.findings import DoctorFinding
from tickwise.wiring.installation.shards import (
    add_shards,
    move_namespace,
    move_status,
    open_databases,
    set_shard_state,
    shard_findings,
)

TEAM = "team"


@pytest_asyncio.fixture(scope="module")
async def template(postgres_url: str) -> AsyncIterator[str]:
    """A database with the schema."""
    async with upgraded(postgres_url) as name:
        yield name


@pytest_asyncio.fixture(scope="module")
async def two(postgres_url: str, template: str) -> AsyncIterator[TwoDatabases]:
    """Two databases, in which each test has a namespace of its own."""
    async with two_databases(postgres_url, template) as both:
        yield both


async def findings(two: TwoDatabases) -> Sequence[DoctorFinding]:
    """Of `doctor`, about the shards."""
    async with open_databases(two.urls) as databases:
        return await shard_findings(databases)


_numbers = count(1)


@pytest_asyncio.fixture
async def team(two: TwoDatabases) -> str:
    """A namespace in the first database, with a row in each table."""
    name = f"team-{next(_numbers)}"
    await two.first.shard_map.place(name, 1)
    connection = await asyncpg.connect(two.urls[0])
    await make_rows(connection, name)
    await connection.close()
    return name


async def heard(_: MoveProgress) -> None:
    """Nobody listens."""


@pytest_asyncio.fixture(scope="module")
async def movers() -> AsyncIterator[asyncio.subprocess.Process]:
    """The process that forks movers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.killed_mover",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


Kill = Callable[[MoveStep], Awaitable[None]]


@pytest.fixture
def killed_at(two: TwoDatabases, team: str, movers: asyncio.subprocess.Process) -> Kill:
    """Begin a move in another process, which is killed when this step is done."""

    async def kill(step: MoveStep) -> None:
        said: dict[str, object] = {"step": step, "namespace": team, "map_url": two.urls[0]}
        said |= {"source": asdict(two.end(1)), "goal": asdict(two.end(2))}
        assert movers.stdin is not None
        assert movers.stdout is not None
        movers.stdin.write(json.dumps(said).encode() + b"\n")
        assert int(await movers.stdout.readline()) == signal.SIGKILL

    return kill


async def whole(two: TwoDatabases, team: str, before: Mapping[str, object], number: int) -> None:
    """All of the namespace is in this shard, once, and nothing of it is in the other one."""
    other = 3 - number
    listed = {"namespaces": before["namespaces"]} if other == 1 else {}
    assert await two.content(number, team) == before
    assert await two.content(other, team) == listed
    assert (await two.first.shard_map.read()).places[team] == NamespacePlace(number)
    assert await move_status(two.urls) == []


@pytest.mark.parametrize("step", MoveStep)
async def test_a_mover_that_is_killed_is_followed_by_one_that_ends_the_move(
    two: TwoDatabases, team: str, killed_at: Kill, step: MoveStep
) -> None:
    """SIGKILL, after each step."""
    before = await two.content(1, team)
    await killed_at(step)
    await move_namespace(two.urls, team, 2, heard)
    await whole(two, team, before, 2)
    make = Factory(await two.first.now(), namespace=team)
    await two.store(2).jobs.add([make.job()])


@pytest.mark.parametrize("step", [MoveStep.BEGUN, MoveStep.COPIED, MoveStep.FENCED, MoveStep.STAGED])
async def test_a_mover_that_is_killed_before_the_end_is_undone(
    two: TwoDatabases, team: str, killed_at: Kill, step: MoveStep
) -> None:
    """The goal that is named is the shard where it is."""
    before = await two.content(1, team)
    await killed_at(step)
    await move_namespace(two.urls, team, 1, heard)
    await whole(two, team, before, 1)


async def test_a_namespace_that_has_left_is_not_brought_back_half_way(
    two: TwoDatabases, team: str, killed_at: Kill
) -> None:
    """The new database has all of it, the old one does not."""
    await killed_at(MoveStep.LEFT)
    with pytest.raises(Conflict):
        await move_namespace(two.urls, team, 1, heard)
    await move_namespace(two.urls, team, 2, heard)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("step", [MoveStep.COPYING, MoveStep.FENCED, MoveStep.STAGED, MoveStep.LEFT, MoveStep.CLEANING])
async def test_a_database_that_drops_its_sessions_ends_the_call_and_not_the_move(
    two: TwoDatabases, team: str, step: MoveStep, number: int
) -> None:
    """The old one or the new one, at any step: the next call goes on."""
    before = await two.content(1, team)
    cut = False

    async def tell(progress: MoveProgress) -> None:
        nonlocal cut
        if progress.step is step and not cut:
            cut = True
            await two.execute(
                number,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'tickwise shards move'",
            )

    with pytest.raises(Unavailable):
        await two.mover(team, 1, 2, tell).run()
    await move_namespace(two.urls, team, 2, heard)
    await whole(two, team, before, 2)


async def test_one_mover_at_a_time(two: TwoDatabases, team: str) -> None:
    """A second one is told to wait."""
    refused = []

    async def tell(progress: MoveProgress) -> None:
        if progress.step is MoveStep.COPIED:
            with pytest.raises(Conflict) as second:
                await move_namespace(two.urls, team, 2, heard)
            refused.append(second.value.code)

    await move_namespace(two.urls, team, 2, tell)
    assert refused == ["conflict"]


async def test_a_move_to_a_shard_that_drains_is_refused(two: TwoDatabases, team: str) -> None:
    """And one from it is what draining is for."""
    await two.first.shard_map.set_state(2, ShardState.DRAINING)
    with pytest.raises(Conflict):
        await move_namespace(two.urls, team, 2, heard)
    await two.first.shard_map.set_state(2, ShardState.OPEN)
    await move_namespace(two.urls, team, 2, heard)
    await two.first.shard_map.set_state(2, ShardState.DRAINING)
    await move_namespace(two.urls, team, 1, heard)
    await two.first.shard_map.set_state(2, ShardState.OPEN)
    assert (await two.first.shard_map.read()).places[team] == NamespacePlace(1)


async def test_a_move_to_where_it_is_does_nothing(two: TwoDatabases, team: str) -> None:
    """It is said to be there."""
    before = await two.content(1, team)
    assert await move_namespace(two.urls, team, 1, heard) is None
    await whole(two, team, before, 1)


async def test_doctor_tells_of_a_move_that_is_half_done(two: TwoDatabases, team: str, killed_at: Kill) -> None:
    """With the command that ends it, and the one that undoes it as long as it may be."""
    assert [finding.level for finding in await findings(two)] == ["ok"]
    await killed_at(MoveStep.COPIED)
    [finding] = await findings(two)
    assert (finding.level, "--to 2" in finding.advice, "--to 1" in finding.advice) == ("warning", True, True)
    await killed_at(MoveStep.LEFT)
    [finding] = await findings(two)
    assert (finding.level, "--to 2" in finding.advice, "--to 1" in finding.advice) == ("error", True, False)
    await move_namespace(two.urls, team, 2, heard)


async def test_doctor_tells_of_an_old_shard_that_was_restored_from_before_the_move(
    two: TwoDatabases, team: str
) -> None:
    """It has jobs again that run elsewhere."""
    before = await two.content(1, team)
    await move_namespace(two.urls, team, 2, heard)
    await two.execute(1, "DELETE FROM tickwise.shard_departures WHERE namespace = $1", team)
    connection = await asyncpg.connect(two.urls[0])
    await connection.execute("DELETE FROM tickwise.namespaces WHERE name = $1", team)
    await connection.execute("DELETE FROM tickwise.lanes WHERE namespace = $1", team)
    await make_rows(connection, team)
    await connection.close()
    [finding] = await findings(two)
    assert (finding.level, "may run them twice" in finding.detail) == ("error", True)
    assert await two.content(2, team) == before
    await two.execute(1, "DELETE FROM tickwise.runs WHERE namespace = $1", team)
    await two.execute(1, "DELETE FROM tickwise.jobs WHERE namespace = $1", team)


async def test_doctor_tells_of_a_new_shard_that_was_restored_from_before_the_move(two: TwoDatabases, team: str) -> None:
    """It has nothing of what was moved to it."""
    await move_namespace(two.urls, team, 2, heard)
    await two.execute(2, "DELETE FROM tickwise.shard_arrivals WHERE namespace = $1", team)
    [finding] = await findings(two)
    assert (finding.level, "restored from a dump of before" in finding.detail) == ("error", True)
    await two.execute(1, "DELETE FROM tickwise.shard_departures WHERE namespace = $1", team)


async def test_databases_are_added_moved_drained_and_removed_by_commands(postgres_url: str, template: str) -> None:
    """From one database to two and back, as an operator does it."""
    async with two_databases(postgres_url, template, named=False) as both:
        make = Factory(await both.first.now(), namespace=TEAM)
        await both.first.jobs.add([make.recurring(make.now + 3_600.0)])

        async def run(*arguments: str) -> dict[str, object]:
            given = [*arguments, "--database", " ".join(both.urls), "--json"]
            result = await asyncio.to_thread(CliRunner().invoke, shards, given, obj=Session(environ={}))
            assert result.exit_code == 0, result.output
            found: dict[str, object] = json.loads(result.stdout)
            return found

        assert await run("add") == {"added": [1, 2]}
        assert await run("add") == {"added": []}
        moved = await run("move", TEAM, "--to", "2")
        assert (moved["moved"], moved["shard"]) == (True, 2)
        assert await run("status") == {"moves": []}
        listed = await run("list")
        assert [(row["shard"], row["namespaces"]) for row in listed["shards"]] == [(1, 1), (2, 1)]  # type: ignore[attr-defined]  # a list of JSON
        assert await run("move", TEAM, "--to", "1") | {"pause_seconds": 0} == {
            "namespace": TEAM, "shard": 1, "moved": True, "pause_seconds": 0,
        }  # fmt: skip
        assert await run("drain", "2") == {"shard": 2, "state": "draining"}
        assert await run("remove", "2") == {"removed": 2}
        assert [row["shard"] for row in (await run("list"))["shards"]] == [1]  # type: ignore[attr-defined]  # as above


async def test_a_database_of_another_installation_is_not_added(
    two: TwoDatabases, postgres_url: str, template: str
) -> None:
    """Neither one that is a shard elsewhere, nor one that has jobs of its own, nor one that is named twice."""
    async with two_databases(postgres_url, template) as elsewhere:
        for urls in ([two.urls[0], elsewhere.urls[1]], [two.urls[0], elsewhere.urls[0]], [two.urls[0], two.urls[0]]):
            with pytest.raises(Misconfigured):
                await add_shards(urls)
    async with two_databases(postgres_url, template, named=False) as alone:
        make = Factory(await alone.first.now(), namespace=TEAM)
        await alone.first.jobs.add([make.job()])
        with pytest.raises(Misconfigured):
            await add_shards([two.urls[0], alone.urls[0]])
    assert set((await two.first.shard_map.read()).shards) == {1, 2}


async def test_what_changes_the_map_is_in_the_audit_log(two: TwoDatabases, team: str, killed_at: Kill) -> None:
    """Of the installation, in the first database, with the account that called the command."""
    since = await two.first.now()
    await set_shard_state(two.urls, 2, ShardState.DRAINING)
    await set_shard_state(two.urls, 2, ShardState.OPEN)
    await killed_at(MoveStep.COPIED)
    await move_namespace(two.urls, team, 1, heard)
    await move_namespace(two.urls, team, 2, heard)
    found = await two.first.audit.find(AuditQuery(namespace="*", since=since, ascending=True))
    assert [(row.action, row.target) for row in found] == [
        ("shard.changed", "2"),
        ("shard.changed", "2"),
        ("namespace.move_undone", team),
        ("namespace.move_begun", team),
        ("namespace.moved", team),
    ]
    details = [json.loads(row.detail or "{}") for row in found]
    assert {each["account"] for each in details} == {getpass.getuser()}
    assert [details[at]["state"] for at in (0, 1)] == ["draining", "open"]
    assert {(each["source"], each["goal"]) for each in details[2:]} == {(1, 2)}
    assert 0 < details[-1]["pause_seconds"] < 60
