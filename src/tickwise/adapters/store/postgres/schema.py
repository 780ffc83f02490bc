"""The database's schema: its version, and the upgrade to the version that this program needs.

Migrations only add, and take away one release later: so programs of two releases work on one database while one takes
the place of the other (docs/decisions/0021). Invariant: a program works on its own schema, and on a newer one that says
that it serves programs as old as this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg

from tickwise.adapters.store.postgres.connection.dialer import Dialer
from tickwise.adapters.store.postgres.connection.link import translated
from tickwise.adapters.store.postgres.statements import statement

Then = Callable[[asyncpg.Connection], Awaitable[None]]
"""Work that belongs to the upgrade, such as the rights of roles; called in a transaction."""
Tell = Callable[[int, int], None]
"""Hears how many steps of how many are done."""


def _unheard(_done: int, _of: int) -> None:
    """Nobody listens."""


FOLDER: Final = Path(__file__).with_name("migrations") / "sql"
INDEXES_FOLDER: Final = FOLDER / "indexes"


class Migration(NamedTuple):
    """One step of the schema."""

    version: str
    files: tuple[str, ...]
    """The names of its files in `FOLDER`, in the order in which they run."""


MIGRATIONS: Final = (
    Migration("0001", ("0001_tables.sql", "0001_moves.sql", "0001_views.sql", "0001_free.sql", "0001_upkeep.sql")),
    Migration("0002", ("0002_apart_and_board.sql",)),
    Migration(
        "0003",
        (
            "0003_keys_and_pauses.sql",
            "0003_lanes.sql",
            "0003_continuity.sql",
            "0003_lists.sql",
            "0003_roles.sql",
            "0003_wakes.sql",
        ),
    ),
    Migration("0004", ("0004_people.sql",)),
    Migration("0005", ("0005_key_owners.sql",)),
    Migration("0006", ("0006_quotas.sql",)),
    Migration("0007", ("0007_selectors.sql",)),
    Migration("0008", ("0008_rotation.sql",)),
    Migration("0009", ("0009_namespaces.sql", "0009_moved_jobs.sql")),
    Migration("0010", ("0010_audit.sql", "0010_services.sql")),
    Migration("0011", ("0011_run_quotas.sql",)),
    Migration("0012", ("0012_audit.sql",)),
    Migration("0013", ("0013_names.sql",)),
    Migration("0014", ("0014_letters.sql",)),
    Migration("0015", ("0015_quota_sizes.sql",)),
    Migration("0016", ("0016_browser_sessions.sql",)),
    Migration("0017", ("0017_feed.sql", "0017_free.sql", "0017_ends.sql")),
    Migration("0018", ("0018_error_groups.sql",)),
    Migration("0022", ("0022_stops.sql",)),
    Migration("0023", ("0023_notices.sql",)),
    Migration("0024", ("0024_notices_events.sql",)),
    Migration("0028", ("0028_saved_views.sql",)),
    Migration("0030", ("0030_status_pages.sql",)),
    Migration("0031", ("0031_usage.sql",)),
    Migration("0032", ("0032_notices.sql",)),
    Migration("0034", ("0034_objectives.sql",)),
    Migration("0036", ("0036_changes_and_causes.sql",)),
    Migration("0037", ("0037_notices.sql",)),
    Migration("0038", ("0038_environments.sql",)),
    Migration("0039", ("0039_feed.sql",)),
    Migration("0041", ("0041_runs_seen.sql",)),
    Migration("0042", ("0042_confinement.sql",)),
    Migration("0043", ("0043_secrets.sql",)),
    Migration("0044", ("0044_identity_keys.sql",)),
    Migration("0045", ("0045_identities.sql",)),
    Migration("0046", ("0046_machines.sql",)),
    Migration("0047", ("0047_second_factors.sql",)),
    Migration("0048", ("0048_containers.sql",)),
    Migration("0050", ("0050_tokens.sql",)),
    Migration("0051", ("0051_shards.sql", "0051_shard_rows.sql")),
    Migration("0052", ("0052_images.sql",)),
    Migration("0058", ("0058_runs_seen_beside_snapshots.sql",)),
    Migration("0059", ("0059_notices.sql",)),
    Migration("0060", ("0060_secret_uses.sql",)),
    Migration("0062", ("0062_successes.sql",)),
)
"""All of them, the oldest first. A migration that was released never changes (docs/decisions/0021)."""

WANTED: Final = MIGRATIONS[-1].version

INDEXES: Final = (
    "0003_lines_runs_line.sql", "0003_lines_runs_waits.sql", "0004_runs_of_job.sql", "0004_runs_job_dropped.sql",
    "0010_audit_seals_until.sql",
    "0012_audit_seals_of_namespace.sql",
    "0026_jobs_objectives.sql",
    "0032_alerts_stand.sql",
    "0032_keys_ending.sql",
    "0032_notices_tests.sql",
    "0033_error_jobs_job.sql",
    "0034_jobs_objectives_of.sql",
    "0035_jobs_repeating.sql", "0035_jobs_owners.sql", "0035_jobs_task_kinds.sql",
    "0060_jobs_secrets.sql", "0060_jobs_secrets_once.sql", "0060_tasks_secrets.sql",
)  # fmt: skip
"""Made beside the work of others, which cannot be done inside of a migration's transaction."""

NO_TRIGRAMS: Final = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.UndefinedFileError,
    asyncpg.InvalidSchemaNameError,
)
"""The answers of a server on which the extension for the index of names cannot be made."""

MIGRATION_SECONDS_MAX: Final = 600.0


class SchemaVersion(NamedTuple):
    """Of a database."""

    version: str
    """The newest migration that it has."""
    serves: str
    """The oldest migration whose programs can work with it."""

    @property
    def is_newer(self) -> bool:
        """True if this program is older than the database."""
        return self.version > WANTED

    @property
    def fits(self) -> bool:
        """True if this program can work with the database."""
        return self.version == WANTED or (self.is_newer and self.serves <= WANTED)


async def upgrade(dsn: str, then: Then | None = None, tell: Tell = _unheard) -> str:
    """Bring the schema to `WANTED`, or leave a newer one as it is; the version that it has then. Any number of starters
    may call it: one works, the others wait. `then` runs in the transaction of the migrations: no one sees the schema
    without its effect. It runs on a newer schema too. `tell` hears after
    each step how many of how many are done."""
    with translated(writes=False):
        await Dialer().check(dsn)
    with translated(writes=True):
        connection = await asyncpg.connect(dsn)
        try:
            while not await connection.fetchval(statement("upgrade_lock")):
                pass  # it took a moment to say so
            found = await current(connection)
            if found is not None and found.is_newer:
                async with connection.transaction():
                    await _after(connection, then)
                return found.version
            done = await _migrate(connection, found, then, tell)
            await _index(connection, done, tell)
        finally:
            await connection.close()
    return WANTED


async def _index(connection: asyncpg.Connection, done: int, tell: Tell) -> None:
    """Make the indexes that are missing. Until they are there, what asks for them works, and takes longer."""
    await connection.execute(statement("indexes_invalid"))
    for number, name in enumerate(INDEXES, done + 1):
        await connection.execute((INDEXES_FOLDER / name).read_text(encoding="utf-8"))
        tell(number, done + len(INDEXES))
    try:
        await connection.execute(statement("trigrams_make"))
    except NO_TRIGRAMS:
        return  # searches for a part of a name look at the newest jobs alone; `findings` says so
    if (index := await connection.fetchval(statement("names_index"))) is not None:
        await connection.execute(index)


async def schema_status(dsn: str) -> tuple[SchemaVersion | None, str]:
    """(what the database has, or None; the migration that this program was written for)."""
    with translated(writes=False):
        connection = await asyncpg.connect(dsn)
        try:
            return await current(connection), WANTED
        finally:
            await connection.close()


async def current(connection: asyncpg.Connection) -> SchemaVersion | None:
    """The version of this database, or None."""
    for name in ("schema_version", "schema_version_first"):
        try:
            row = await connection.fetchrow(statement(name))
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            continue
        return None if row is None else SchemaVersion(*row)
    return None


async def _migrate(
    connection: asyncpg.Connection,
    found: SchemaVersion | None,
    then: Then | None,
    tell: Tell,
) -> int:
    """Run the migrations that are missing: all of them in one transaction, or none. The number of steps that were
    done."""
    missing = [each for each in MIGRATIONS if found is None or each.version > found.version]
    async with asyncio.timeout(MIGRATION_SECONDS_MAX), connection.transaction():
        await connection.execute(statement("upgrade_schema"))
        for step, migration in enumerate(missing, 1):
            for name in migration.files:
                await connection.execute(statement("migration_limits"))
                await connection.execute((FOLDER / name).read_text(encoding="utf-8"))
            await connection.execute(statement("schema_version_set"), migration.version)
            tell(step, len(missing) + len(INDEXES))
        await _after(connection, then)
    return len(missing)


async def _after(connection: asyncpg.Connection, then: Then | None) -> None:
    if then is not None:
        await then(connection)
