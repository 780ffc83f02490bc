"""An executor with a database role of its own: it does all its work, and sees no key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Role
from tests.integration.processes.runtime import House, runtime
from tests.support.databases import with_role
from tests.support.local_up import environment, run_command
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import grant_executor, schema, upgrade
from tickwise.domain.errors import Misconfigured
from tickwise.ports.identity.namespaces import QUOTAS_FRESH_SECONDS

PEOPLE = (
    "key_secrets", "namespaces", "users", "members", "custom_roles", "user_links", "sessions", "session_tokens",
    "token_keys", "browser_sessions", "session_links", "device_sign_ins", "federations",
    "used_assertions",
    "token_keys", "browser_sessions", "session_links", "identities", "sign_ins", "provider_sessions", "logout_tokens",
    "factors", "recovery_codes", "factor_steps", "factor_resets",
)  # fmt: skip
NOTICES = (
    "channels", "channel_secrets", "notification_rules", "notices_version", "notices_watched", "notices_events",
    "notices_noted", "notices_successes", "alerts", "notices",
)  # fmt: skip
CLOSED = (
    "keys", "tasks", "receipts", "rules", "rules_version", "operations", "requests_applied", "letters", "timers",
    "audit", "audit_unsealed", "audit_seals", "audit_checkpoints", "quota_use", "quota_sizes",
    "namespaces_removed", "error_groups", "error_hours", "error_jobs", "error_letters", "failures_new", "feed",
    "feed_marks", "feed_watch", "saved_views", "objectives", "objective_starts", "objective_counts", "status_pages",
    "status_days", "status_announcements", "secrets", "secret_versions", "shard_arrivals", "shard_changes",
    *NOTICES, *PEOPLE,
)  # fmt: skip
"""What an executor has nothing to do with."""


@pytest_asyncio.fixture(scope="module")
async def role_url(database_url: str) -> AsyncIterator[str]:
    """The address for a role that has what an executor needs."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    name = f"executor_of_{urlsplit(database_url).path.removeprefix('/')}"
    await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    ran = run_command(["db", "grant-executor", name], environment(TICKWISE_DATABASE_URL=database_url))
    assert (0, "") == (ran.code, ran.err)
    yield with_role(database_url, name, "secret")
    for what in ("ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA", "SCHEMA"):
        await connection.execute(f"REVOKE ALL ON {what} tickwise FROM {name}")
    await connection.execute(f"DROP ROLE {name}")
    await connection.close()


@pytest_asyncio.fixture(scope="module")
async def here(
    database_url: str, role_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[House, Role]]:
    """API and scheduler as the owner; the one executor as the role."""
    async with runtime(database_url, tmp_path_factory.mktemp("runtime")) as made:
        yield made, await made.executor("default", TICKWISE_DATABASE_URL=role_url, TICKWISE_HEALTH_PORT="0")


@pytest.mark.parametrize("table", CLOSED)
async def test_what_an_executor_does_not_need_is_closed_to_it(role_url: str, table: str) -> None:
    """It can neither read nor write it, as the server says."""
    connection = await asyncpg.connect(role_url)
    try:
        for statement in (
            f"SELECT * FROM tickwise.{table}",
            f"DELETE FROM tickwise.{table}",
            f"INSERT INTO tickwise.{table} DEFAULT VALUES",
            f"TRUNCATE tickwise.{table}",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_the_rights_name_every_table_of_the_schema(database_url: str, role_url: str) -> None:
    """A table that is added is either given to executors or named here as closed to them; views and partitions too."""
    connection = await asyncpg.connect(database_url)
    name = role_url.partition("://")[2].partition(":")[0]
    rows = await connection.fetch(
        "SELECT relname, has_table_privilege($1, oid, 'SELECT') AS open FROM pg_class "
        "WHERE relnamespace = 'tickwise'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition",
        name,
    )
    await connection.close()
    closed = {row["relname"] for row in rows if not row["open"]}
    expected = {*CLOSED, "fires", "jobs_placed", "lanes_freed", "tallies"}
    assert expected == closed, sorted(expected ^ closed)


async def test_an_executor_does_all_its_work_with_that_role(here: tuple[House, Role], tmp_path: Path) -> None:
    """Ends well and badly, tries again, waits for limits, paces and overlap, goes on to others, is stopped, leaves."""
    runtime, executor = here
    true, false = ({"kind": "shell", "command": command} for command in ("true", "false"))
    after = await runtime.submit(task=true, schedule_type="ON_DEMAND")
    jobs = {
        "well": await runtime.submit(task=true, then=[after]),
        "result": await runtime.submit(task={"kind": "shell", "command": 'echo 1 > "$TICKWISE_RESULT_FILE"'}),
        "badly": await runtime.submit(task=false, max_retries=0, on_failure=[after]),
        "again": await runtime.submit(task=false, max_retries=1, retry={"base_seconds": 0.1}),
        "python": await runtime.submit(task={"kind": "python", "source": "print(1)"}),
        "held": await runtime.submit(task=false, max_retries=0, on_unknown="hold"),
        "limit": await runtime.submit(task=true, concurrency={"key": "key:k", "limit": 1}),
        "rate": await runtime.submit(task=true, rate={"key": "key:r", "limit": 5, "per_seconds": 1}),
    }
    for name, job_id in jobs.items():
        run = await runtime.ended(job_id)
        assert ("FAILED" if name in ("badly", "again", "held") else "SUCCESS") == run["status"], name
    stopped = await runtime.submit(task={"kind": "shell", "command": f"touch {tmp_path}/begun; sleep 600"})
    await eventually((tmp_path / "begun").exists, what="it begins")
    (run,) = (await runtime.client.get(f"/jobs/{stopped}/runs")).json()
    assert 202 == (await runtime.client.post(f"/runs/{run['run_id']}/cancel")).status_code
    assert "CANCELLED" == (await runtime.ended(stopped))["status"]
    assert [] == [line for line in executor.log.read_text().splitlines() if "permission denied" in line]


async def test_an_executor_with_that_role_gives_its_metrics_and_the_health_of_each_part(
    here: tuple[House, Role],
) -> None:
    """What it may read is shown. Of timers, which it may not read, it says nothing, rather than that there are none."""
    _, executor = here
    port = (await executor.event("up"))["health_url"]
    async with httpx2.AsyncClient(base_url=port, timeout=60) as client:
        metrics, health = await client.get("/metrics"), await client.get("/healthz")
    assert (200, 200) == (metrics.status_code, health.status_code), (metrics.text[-500:], health.text)
    shown = dict(line.rsplit(" ", 1) for line in metrics.text.splitlines() if not line.startswith("#"))
    assert ("1.0", "NaN", "NaN") == (
        shown["tickwise_executors"], shown["tickwise_timers"], shown["tickwise_timers_late_seconds"],
    )  # fmt: skip
    parts = health.json()["parts"]
    assert ("ok", "ok", None) == (parts["store"]["status"], parts["executors"]["status"], parts.get("timers"))
    assert [] == [line for line in executor.log.read_text().splitlines() if "permission denied" in line]


async def test_an_executor_with_that_role_keeps_the_quota_of_runs_at_once(
    here: tuple[House, Role], role_url: str, tmp_path: Path
) -> None:
    """It sees this quota of each namespace and no other; runs that wait go on as others end."""
    runtime, executor = here
    quotas = "/namespaces/default/quotas"
    assert 200 == (await runtime.client.put(quotas, json={"concurrent_runs": 2, "jobs": 500})).status_code
    await eventually(lambda: quota_seen(role_url), what="the quota is there for executors")
    try:
        await SystemClock().sleep(QUOTAS_FRESH_SECONDS + 0.5)
        mark = "import pathlib, time; begun = time.time(); time.sleep(0.3)"
        where = f"pathlib.Path({str(tmp_path)!r}, str(begun)).write_text(str(time.time()))"
        task = {"kind": "python", "source": f"{mark}; {where}"}
        jobs = [await runtime.submit(task=task) for _ in range(8)]
        assert ["SUCCESS"] * 8 == [(await runtime.ended(job_id))["status"] for job_id in jobs]
    finally:
        assert 200 == (await runtime.client.put(quotas, json={})).status_code
    spans = sorted((float(path.name), float(path.read_text())) for path in tmp_path.iterdir())
    assert [2] == [max(sum(begun <= at < ended for begun, ended in spans) for at, _ in spans)]
    assert [] == [line for line in executor.log.read_text().splitlines() if "permission denied" in line]


async def quota_seen(role_url: str) -> bool:
    """Check that the role reads the quota, and nothing else of the namespace."""
    connection = await asyncpg.connect(role_url)
    rows = await connection.fetch("SELECT * FROM tickwise.run_quotas")
    await connection.close()
    return [("default", 2)] == [tuple(row) for row in rows]


async def test_a_role_that_is_there_sees_the_quota_after_an_upgrade(empty_url: str) -> None:
    """An executor goes on with the rights that it was given before there was such a quota."""
    name = f"executor_before_{urlsplit(empty_url).path.removeprefix('/')}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", tuple(each for each in schema.MIGRATIONS if each.version < "0011"))
        patched.setattr(schema, "INDEXES", tuple(each for each in schema.INDEXES if each < "0011"))
        await upgrade(empty_url)
    owner = await asyncpg.connect(empty_url)
    await owner.execute(f"CREATE ROLE {name}")
    try:
        await owner.execute("SELECT tickwise.grant_executor($1)", name)
        await upgrade(empty_url)
        assert await owner.fetchval("SELECT has_table_privilege($1, 'tickwise.run_quotas', 'SELECT')", name)
        assert not await owner.fetchval("SELECT has_table_privilege($1, 'tickwise.namespaces', 'SELECT')", name)
    finally:
        for what in ("ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA", "SCHEMA"):
            await owner.execute(f"REVOKE ALL ON {what} tickwise FROM {name}")
        await owner.execute(f"DROP ROLE {name}")
        await owner.close()


async def test_an_upgrade_grants_the_role_too(database_url: str, role_url: str) -> None:
    """One command does both, as the migrations of a deployment need it; without such a role it says how to make it."""
    name = str(urlsplit(role_url).username)
    owner = await asyncpg.connect(database_url)
    await owner.execute(f"REVOKE ALL ON tickwise.runs FROM {name}")
    for role, code, answer in ((name, 0, f"The role {name} has"), ("no_such_role", 6, "createuser --pwprompt")):
        ran = run_command(["db", "upgrade", "--executor-role", role], environment(TICKWISE_DATABASE_URL=database_url))
        assert (code, True) == (ran.code, answer in ran.out + ran.err), ran
    assert await owner.fetchval("SELECT has_table_privilege($1, 'tickwise.runs', 'INSERT')", name)
    await owner.close()


async def test_a_role_that_is_not_there_is_told(database_url: str, role_url: str) -> None:
    """With the command that makes it; and rights that are not ours to give."""
    with pytest.raises(Misconfigured, match="createuser --pwprompt no_such_role"):
        await grant_executor(database_url, "no_such_role")
    with pytest.raises(Misconfigured, match="owner of the schema"):
        await grant_executor(role_url, "pg_monitor")
