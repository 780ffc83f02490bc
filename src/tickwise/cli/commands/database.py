"""`tickwise db …`: the schema of the database."""

from __future__ import annotations

from pathlib import Path

import click

from tickwise.cli import output
from tickwise.cli.arguments import secret_option
from tickwise.cli.session import Session, data_dir_option, json_option, keep_quiet
from tickwise.cli.terminal.progress import progress
from tickwise.domain.fencing import SHARD_STEP


@click.group()
def db() -> None:
    """Prepare the database, or look at its version.

    The database is that of TICKWISE_DATABASE_URL or the settings files; a local `tickwise up` looks after its own.
    """
    keep_quiet()


_database = click.option(
    "--database",
    "database_url",
    metavar="URL",
    callback=secret_option,
    help="The store.  [TICKWISE_DATABASE_URL or the settings files]",
)


@db.command()
@click.option("--executor-role", metavar="ROLE", help="Then do `db grant-executor ROLE` too.")
@click.option(
    "--service-role",
    "service_roles",
    metavar="ROLE",
    multiple=True,
    help="Then do `db grant-service ROLE` too. Repeat it for more.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, SHARD_STEP),
    metavar="N",
    help="On Cassandra: make the keyspace with N shards; the number stays.  [1]",
)
@_database
@json_option
@click.pass_obj
def upgrade(
    session: Session,
    executor_role: str | None,
    service_roles: tuple[str, ...],
    shards: int | None,
    database_url: str | None,
) -> None:
    """Upgrade the schema to the version of this program. Safe to run twice, or from several machines at once."""
    from tickwise import config
    from tickwise.wiring import processes

    settings = config.load(session.environ, {"database_url": database_url})
    with progress("steps", quiet=session.as_json) as tell:
        revision = processes.db_upgrade(
            settings, executor_role, service_roles, tell, shards=shards, advise=session.note
        )
    if session.as_json:
        session.show_json({"revision": revision, "executor_role": executor_role, "service_roles": service_roles})
        return
    session.say(f"The schema is at {revision}.")
    for role in service_roles:
        session.say(f"The role {role} has all rights that API, scheduler and recorder need.")
    if executor_role is not None:
        session.say(f"The role {executor_role} has all rights that an executor needs.")


@db.command()
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A log of the API since the backup, in JSON: find the keys that came back. Repeat it for more.",
)
@click.option("--revoke", is_flag=True, help="With --log: revoke the keys that came back.")
@_database
@data_dir_option
@json_option
@click.pass_obj
def restored(session: Session, database_url: str | None, logs: tuple[Path, ...], *, revoke: bool) -> None:
    """Say that the database was restored from a backup or set back, and show what runs again.

    \b
    Tickwise notices most of it by itself: another server, timeline, database or table. Run this after a restore
    that leaves all of them as they were (a snapshot of the disk, a dump of the data alone), before roles are
    started; or whenever you want the report. A new epoch begins: fencing tokens go on above those of the backup.

    \b
    On Cassandra run it after each restore of the keyspace, with its keepers started and no other role; of a file
    store after each restore of its folder, before it is used.

    \b
    The database forgot which keys were revoked or rotated since the backup. With --log it says which of these work
    again, and with --revoke it revokes them. All sessions of browsers end: some of them had ended since the backup.
    """
    if revoke and not logs:
        raise click.UsageError("--revoke goes with --log: only a log says which keys were taken away.")
    from tickwise import config
    from tickwise.wiring import processes

    settings = config.load(session.environ, {"data_dir": session.data_dir, "database_url": database_url})
    report = processes.db_restored(settings, logs, revoke=revoke)
    if session.as_json:
        session.show_json(report.as_dict())
    else:
        session.say(report.as_text())


@db.command()
@_database
@data_dir_option
@json_option
@click.pass_obj
def status(session: Session, database_url: str | None) -> None:
    """Show the schema's version, and the one that this program needs.

    Of a keyspace of Cassandra also its shards: the keeper of each, the number of its tenure, and when its lease ends.
    No keeper is asked, so this works while none runs. A file store has no schema: its files are read, and their state
    is shown.
    """
    from tickwise import config
    from tickwise.wiring import processes

    given = {"data_dir": session.data_dir, "database_url": database_url}
    found, needed, fits, shards, state = processes.db_status(config.load(session.environ, given))
    if session.as_json:
        told = {"found": found, "needed": needed, "current": found == needed, "fits": fits}
        extra = {"shards": shards, "state": state}
        session.show_json(told | {name: value for name, value in extra.items() if value is not None})
        return
    if state is not None:
        session.say(f"A file store, which has no schema and needs no upgrade: {state}.")
        return
    _say_version(session, found, needed, fits=fits)
    if shards:
        session.say(f"The keyspace has {len(shards)} shard{'s'[: len(shards) - 1]}.")
        rows = [[str(each[name]) or "-" for name in ("shard", "address", "epoch", "lease_told")] for each in shards]
        output.table(session, ("SHARD", "KEEPER", "EPOCH", "LEASE"), rows, empty="")


def _say_version(session: Session, found: str, needed: str, *, fits: bool) -> None:
    if found == needed:
        session.say(f"The schema is at {found}, and this program needs no other.")
    elif fits:
        session.say(f"The schema is at {found}; this program was written for {needed}, which it serves too.")
    elif found != "none" and found > needed:
        session.say(f"The schema is at {found} and serves newer programs alone. Install the newer Tickwise.")
    else:
        session.say(f"The schema is at {found}; this program needs {needed}. Run `tickwise db upgrade`.")


@db.command("rebuild-tables")
@_database
@json_option
@click.pass_obj
def rebuild_tables(session: Session, database_url: str | None) -> None:
    """Rebuild the readable tables of a Cassandra keyspace.

    Drops `jobs`, `runs`, `attempts` and the others that people and other programs read, and makes them empty. The
    keeper notices within seconds and writes every row again from what it knows. Nothing else depends on these tables.
    """
    from tickwise import config
    from tickwise.wiring import processes

    generation = processes.db_rebuild_tables(config.load(session.environ, {"database_url": database_url}))
    if session.as_json:
        session.show_json({"generation": generation})
    else:
        session.say(f"The readable tables are empty, generation {generation}: the keeper writes every row again.")


@db.command("grant-executor")
@click.argument("role", type=click.STRING)
@_database
@json_option
@click.pass_obj
def grant_executor(session: Session, role: str, database_url: str | None) -> None:
    """Grant ROLE of the database the rights of an executor, and no others.

    The role can then claim runs and report their outcomes. It reads no keys, stored tasks or answers, and loses
    its earlier rights in the schema. Run it as the role that owns the schema, and again after each
    upgrade.
    """
    from tickwise import config
    from tickwise.wiring import processes

    processes.db_grant_executor(config.load(session.environ, {"database_url": database_url}), role)
    if session.as_json:
        session.show_json({"role": role})
    else:
        session.say(f"The role {role} has all rights that an executor needs: start executors with its address.")


@db.command("grant-service")
@click.argument("role", type=click.STRING)
@_database
@json_option
@click.pass_obj
def grant_service(session: Session, role: str, database_url: str | None) -> None:
    """Grant ROLE of the database the rights of API, scheduler and recorder.

    The role does not own the schema: it can add entries to the audit log, and can neither change nor remove them. Run
    it as the role that owns the schema, and again after each upgrade.
    """
    from tickwise import config
    from tickwise.wiring import processes

    processes.db_grant_service(config.load(session.environ, {"database_url": database_url}), role)
    if session.as_json:
        session.show_json({"role": role})
    else:
        session.say(f"The role {role} has all rights that API, scheduler and recorder need.")
