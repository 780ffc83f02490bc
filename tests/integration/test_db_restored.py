"""A backup is restored: the store is another epoch, what runs again is said, and doctor and history say it too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest_asyncio

from tests.support import databases
from tests.support.local_up import Ran, environment, run_command
from tests.support.recorded import Scene
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import find_binaries
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.audit import AuditAction, CallerKind
from tickwise.domain.fencing import epoch_of
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.browser_sessions import NewSessionLink, SessionSubject
from tickwise.ports.identity.sessions import Rotation
from tickwise.ports.store import ClaimRequest, EpochCause
from tickwise.testing import factories
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.contracts.store.people.browser_sessions import new_session as new_browser_session
from tickwise.testing.contracts.store.people.key_rotation import rotation
from tickwise.testing.contracts.store.people.keys import ADA, new_key
from tickwise.testing.contracts.store.people.sessions import digest, new_session
from tickwise.testing.contracts.store.people.users import changed, new_user
from tickwise.testing.factories import Factory

LEASE = 3600.0
DAY = 86_400.0
CATCHUP = 5


@pytest_asyncio.fixture
async def database_url(postgres_url: str) -> AsyncIterator[str]:
    """A database for one test alone: each leaves epochs behind."""
    async with databases.database(postgres_url) as url:
        await upgrade(url)
        yield url


async def execute(url: str, sql: str) -> None:
    """Something that only an operator can do."""
    connection = await asyncpg.connect(url)
    await connection.execute(sql)
    await connection.close()


def program(url: str, name: str, *options: str | Path) -> None:
    """One of PostgreSQL's own, at this database."""
    parts = urlsplit(url)
    settings = {
        "PGHOST": parse_qs(parts.query)["host"][0] if parts.query else parts.hostname or "",
        "PGUSER": "tickwise",
    }
    settings |= {"PGPASSWORD": parts.password or "", "PGDATABASE": parts.path.removeprefix("/")}
    ran = subprocess.run(
        [find_binaries().bin_dir / name, *options], env=settings, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


async def claim(store: PostgresStore, executor: int) -> Sequence[Claimed]:
    """All that there is."""
    request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=100, ahead_seconds=0.0)
    return await store.attempts.claim(request)


def tickwise(*words: str) -> Ran:
    """The command."""
    return run_command(list(words), environment())


async def test_a_restored_dump_is_noticed_and_what_it_holds_goes_on(database_url: str, tmp_path: Path) -> None:
    """By pg_dump and pg_restore, into the same database: the run that was under way in the dump is held by its executor
    again, what was made later is gone, and tokens grow."""
    dump = tmp_path / "dump"
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    make = Factory(await store.now(), seed="dump")
    await store.jobs.add([make.job()])
    executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
    [before] = await claim(store, executor)
    program(database_url, "pg_dump", "--format=custom", f"--file={dump}")
    assert [] == await store.attempts.finish(executor, [factories.outcome(before)])
    later = make.job()
    await store.jobs.add([later])
    [after] = await claim(store, executor)
    await store.close()
    await execute(database_url, "DROP SCHEMA tickwise CASCADE")
    program(database_url, "pg_restore", "--no-owner", "--dbname", urlsplit(database_url).path[1:], dump)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    told, _ = await store.epochs.all()
    assert EpochCause.RESTORED is told.cause
    assert await store.jobs.get("default", later.job_id) is None
    assert {before.run_id: before.token} == dict(await store.held.tokens(executor, after.token))
    assert [] == await store.attempts.finish(executor, [factories.outcome(before)])
    row = await store.runs.get("default", before.run_id)
    assert row is not None
    assert RunState.SUCCESS is row.state
    await store.jobs.add([later])
    [again] = await claim(store, executor)
    assert after.token < again.token
    await store.close()


async def test_keys_that_came_back_with_a_backup_are_found_by_the_log_and_revoked(
    database_url: str, tmp_path: Path
) -> None:
    """One was revoked after the dump, one rotated, one neither; the log of the API is the only witness."""
    dump, log = tmp_path / "dump", tmp_path / "api.log"
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    make = Factory(await store.now(), seed="keys")
    keys = [new_key(make, name.encode(), ADA._replace(name=name)) for name in ("revoked", "rotated", "kept")]
    for key in keys:
        assert await store.keys.add(key)
    program(database_url, "pg_dump", "--format=custom", f"--file={dump}")
    await store.keys.revoke("default", keys[0].key_id)
    await store.keys.rotate(rotation(keys[1], b"another", overlap_seconds=0.0))
    events = [
        {"event": "key_revoked", "key_id": str(keys[0].key_id), "by": "admin"},
        {"event": "key_rotated", "key_id": str(keys[1].key_id), "rotation": 1},
        {"event": "request", "key_id": str(keys[2].key_id)},
    ]
    log.write_text("a line of another program\n" + "".join(json.dumps(each) + "\n" for each in events))
    await store.close()
    said = tickwise("db", "restored", "--database", database_url, "--log", str(log))
    assert "No key came back" in said.out, said.err
    await execute(database_url, "DROP SCHEMA tickwise CASCADE")
    program(database_url, "pg_restore", "--no-owner", "--dbname", urlsplit(database_url).path[1:], dump)
    assert "Name the logs of the API" in tickwise("db", "restored", "--database", database_url).out
    said = tickwise("db", "restored", "--database", database_url, "--log", str(log))
    assert "2 keys came back that were taken away since the backup; revoke them with --revoke" in said.out
    assert "revoked: works again: revoked after the backup" in said.out
    assert "rotated: its old secret works again: rotated after the backup" in said.out
    ran = tickwise("db", "restored", "--database", database_url, "--log", str(log), "--revoke", "--json")
    assert {("revoked", "revoked", True), ("rotated", "rotated", True)} == {
        (each["name"], each["why"], each["revoked"]) for each in ran.json["returned_keys"]
    }
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    assert [False, False, True] == [await store.keys.find(key.digest) is not None for key in keys]
    entries = await store.audit.find(AuditQuery(namespace=None, action=AuditAction.KEY_REVOKED))
    assert {(row.target, row.source.kind) for row in entries} == {
        (str(key.key_id), CallerKind.PROGRAM) for key in keys[:2]
    }
    await store.close()


async def test_people_are_as_the_backup_knows_them_until_somebody_ends_that(database_url: str, tmp_path: Path) -> None:
    """A person who was deactivated since is active again, and a session that was ended goes on, as
    docs/explanation/security.md says. To deactivate the person again ends both."""
    dump = tmp_path / "dump"
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    make = Factory(await store.now(), seed="people")
    ada = await store.users.add(new_user(make, "ada"))
    session = new_session(make, ada)
    await store.sessions.begin(session)
    program(database_url, "pg_dump", "--format=custom", f"--file={dump}")
    await store.sessions.revoke(user_id=ada.user_id)
    await store.users.change(changed(ada, active=False))
    assert not await store.sessions.is_good(session.family)
    await store.close()
    await execute(database_url, "DROP SCHEMA tickwise CASCADE")
    program(database_url, "pg_restore", "--no-owner", "--dbname", urlsplit(database_url).path[1:], dump)
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    back = await store.users.get(ada.user_id)
    assert back is not None
    assert (True, True) == (back.active, await store.sessions.is_good(session.family))
    assert Rotation.ROTATED is (await store.sessions.rotate(digest(1), digest(2))).rotation
    await store.users.change(changed(back, active=False))
    assert Rotation.ROTATED is not (await store.sessions.rotate(digest(2), digest(3))).rotation
    await store.close()


async def test_no_browser_is_signed_in_after_a_restore(database_url: str, tmp_path: Path) -> None:
    """One session was ended after the dump and is good again, one was never ended. The database cannot tell them apart:
    the command ends both, and a link of then opens nothing."""
    dump = tmp_path / "dump"
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    make = Factory(await store.now(), seed="browsers")
    ada = await store.users.add(new_user(make, "ada"))
    subject = SessionSubject(ada.user_id, None, ada.generation)
    for number in (1, 2):
        await store.browser_sessions.begin(new_browser_session(make, subject, number, digest=digest(number)))
    await store.browser_sessions.add_link(NewSessionLink(digest(3), subject, DAY))
    program(database_url, "pg_dump", "--format=custom", f"--file={dump}")
    assert 1 == len(await store.browser_sessions.end(digest=digest(1)))
    await store.close()
    await execute(database_url, "DROP SCHEMA tickwise CASCADE")
    program(database_url, "pg_restore", "--no-owner", "--dbname", urlsplit(database_url).path[1:], dump)
    ran = tickwise("db", "restored", "--database", database_url, "--json")
    assert 2 == ran.json["browser_sessions_ended"], ran.err
    assert "No browser was signed in." in tickwise("db", "restored", "--database", database_url).out
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    assert [None, None] == [await store.browser_sessions.find(digest(number), used=False) for number in (1, 2)]
    assert await store.browser_sessions.link(digest(3)) is None
    (row,) = await store.audit.find(AuditQuery(namespace=None, action=AuditAction.SIGNED_OUT))
    assert CallerKind.PROGRAM is row.source.kind
    await store.close()


def test_a_log_that_says_nothing_is_no_witness(database_url: str, tmp_path: Path) -> None:
    """A file for people, or one without events, is refused: an empty answer would read as a good one."""
    log = tmp_path / "api.log"
    log.write_text("2027-01-15 08:00:00 [info     ] key_revoked key_id=x\n")
    ran = tickwise("db", "restored", "--database", database_url, "--log", str(log))
    assert (6, True) == (ran.code, "JSON" in ran.err)
    assert 2 == tickwise("db", "restored", "--database", database_url, "--revoke").code


async def test_restored_says_what_runs_again(database_url: str) -> None:
    """Old occurrences are not all made up for: each job's `misfire` says how many are."""
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    make = Factory(await store.now() - DAY, seed="report")
    every_minute = {"schedule_type": "INTERVAL", "interval_seconds": 60.0, "task": {"kind": "shell", "command": "true"}}
    jobs = [
        make.recurring(make.now, definition=json.dumps({**every_minute, "misfire": misfire, "planned_at": make.now}))
        for misfire in ({"mode": "latest"}, {"mode": "skip"}, {"mode": "all", "max_catchup": CATCHUP})
    ]
    await store.jobs.add(jobs)
    await store.jobs.add([make.job(), make.job()])
    executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
    request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=1, ahead_seconds=0.0)
    [claimed] = await store.attempts.claim(request)
    ran = tickwise("db", "restored", "--database", database_url, "--json")
    assert 0 == ran.code, ran.err
    told = ran.json
    assert (1, 1, 1, 3, False) == tuple(told[name] for name in ("held", "queued", "executors", "jobs", "more"))
    [held] = told["holding"]
    assert (str(claimed.run_id), str(claimed.job_id), "default") == (held["run_id"], held["job_id"], held["namespace"])
    by_job = {each["job_id"]: (each["runs"], each["skipped"]) for each in told["overdue"]}
    made = [by_job[str(job.job_id)] for job in jobs]
    minutes = DAY / 60.0
    assert all(minutes - 5 <= runs + skipped <= minutes + 5 for runs, skipped in made)
    assert [True, True, True] == [runs <= most for (runs, _), most in zip(made, (3, 3, CATCHUP + 3), strict=True)]
    assert made[2][0] >= CATCHUP
    assert (sum(runs for runs, _ in made), told["runs"]) == (told["runs"], sum(runs for runs, _ in made))
    assert claimed.token < told["tokens_from"]
    text = tickwise("db", "restored", "--database", database_url).out
    assert f"A new epoch has begun: {told['epoch'] + 1}." in text
    assert "1 runs are held by 1 executors" in text
    assert f"  {held['name']} (default), run {claimed.run_id}, by {held['executor']}\n" in text
    [taken] = await claim(store, executor)
    assert told["epoch"] + 1 == epoch_of(taken.token)
    await store.close()


async def test_doctor_says_that_the_store_was_set_back(database_url: str) -> None:
    """When, why, and what it lost; a switchover that lost nothing is no trouble."""
    assert "nothing says that the database was ever set back" in tickwise("doctor", "--database", database_url).out
    await execute(database_url, "UPDATE tickwise.epochs SET timeline = timeline + 1")
    out = tickwise("doctor", "--database", database_url).out
    assert "a standby took over at " in out
    assert "epoch 1, timeline 1; no loss was noticed" in " ".join(out.split())
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    executor = await store.executors.join(factories.executor(lease_seconds=LEASE))
    await store.held.differed(3)
    await store.executors.beat(executor, LEASE, differs=2)
    await store.close()
    out = " ".join(tickwise("doctor", "--database", database_url).out.split())
    assert "acknowledged writes were lost, 3 runs differed" in out
    assert "2 runs are held otherwise than the database says" in out


async def test_history_is_not_valid_where_acknowledged_writes_were_lost(database_url: str) -> None:
    """It cannot know what is missing; that something is, it says."""
    clock = ShiftedClock()
    store = PostgresStore(database_url, clock=clock)
    await store.open()
    shifted = 0.0

    async def shift(seconds: float) -> None:
        nonlocal shifted
        shifted += seconds
        clock.shift(seconds)
        await store.shift(shifted, start_seconds=0.0)

    await Scene(store, shift).play()
    await store.epochs.begin()
    options = ("doctor", "history", "--database", database_url, "--json", "--to", "2099-01-01")
    ran = tickwise(*options)
    assert (0, "valid") == (ran.code, ran.json["status"])
    assert any("the database was set back at" in text for text in ran.json["unseen"])
    await store.held.differed(1)
    ran = tickwise(*options)
    assert (1, "invalid") == (ran.code, ran.json["status"])
    assert ["store-set-back"] == [found["kind"] for found in ran.json["findings"]]
    ran = tickwise(*options[:-1], "2020-01-01", "--from", "2019-01-01")
    assert "store-set-back" not in ran.out
    await store.close()
