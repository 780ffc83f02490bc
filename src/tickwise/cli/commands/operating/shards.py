"""`tickwise shards …`: several databases of one installation, and moves of namespaces between them."""

from __future__ import annotations

import asyncio

import click

from tickwise.cli import output
from tickwise.cli.arguments import secret_option
from tickwise.cli.session import Session, json_option, keep_quiet
from tickwise.cli.terminal.progress import progress

SHARDS = {
    "shard": "SHARD", "state": "STATE", "namespaces": "NAMESPACES", "arriving": "ARRIVING", "address": "ADDRESS",
    "cluster_id": "DATABASE",
}  # fmt: skip
OF_KEYSPACES = {
    "shard": "SHARD", "state": "STATE", "namespaces": "NAMESPACES", "address": "KEEPER", "epoch": "EPOCH",
    "lease_told": "LEASE", "cluster_id": "CLUSTER ID",
}  # fmt: skip
MOVES = ("NAMESPACE", "FROM", "TO", "STATE", "CHANGES")


@click.group()
def shards() -> None:
    """Add databases to an installation, and move namespaces between them.

    The databases are those of TICKWISE_DATABASE_URL, separated by spaces; the first one keeps the map. A keyspace of
    Cassandra has all its shards in itself: `list` shows their keepers, and `drain` works.
    """
    keep_quiet()


_database = click.option(
    "--database",
    "database_url",
    metavar="URLS",
    callback=secret_option,
    help="The databases, separated by spaces.  [TICKWISE_DATABASE_URL or the settings files]",
)


def _urls(session: Session, database_url: str | None) -> list[str]:
    from tickwise import config

    if database_url is not None:
        return database_url.split()
    return (config.load(session.environ, {}).database_url or "").split()


@shards.command(name="list")
@_database
@json_option
@click.pass_obj
def list_(session: Session, database_url: str | None) -> None:
    """Show the shards, with the number of namespaces in each; of a keyspace of Cassandra also who has each."""
    from tickwise.wiring.installation.shards import list_shards

    rows = asyncio.run(list_shards(_urls(session, database_url)))
    if session.as_json:
        session.show_json({"shards": rows})
        return
    columns = OF_KEYSPACES if rows and "epoch" in rows[0] else SHARDS
    cells = [[str(row[name]) or "-" for name in columns] for row in rows]
    output.table(session, tuple(columns.values()), cells, empty="One database alone.")


@shards.command()
@_database
@json_option
@click.pass_obj
def add(session: Session, database_url: str | None) -> None:
    """Add each named database that is not a shard yet. Safe to run twice.

    The first time, all namespaces of the first database get their place there.
    """
    from tickwise.wiring.installation.shards import add_shards

    added = asyncio.run(add_shards(_urls(session, database_url)))
    if session.as_json:
        session.show_json({"added": [shard.number for shard in added]})
        return
    for shard in added:
        session.say(f"Shard {shard.number} is database {shard.cluster_id}.")
    if not added:
        session.say("Each of these databases is a shard already.")


@shards.command()
@click.argument("number", type=click.IntRange(min=1), metavar="SHARD")
@click.option("--undo", is_flag=True, help="Place new namespaces there again.")
@_database
@json_option
@click.pass_obj
def drain(session: Session, number: int, database_url: str | None, *, undo: bool) -> None:
    """Place no new namespaces in a shard. Its namespaces stay until they are moved."""
    from tickwise.ports.shards import ShardState
    from tickwise.wiring.installation.shards import set_shard_state

    state = ShardState.OPEN if undo else ShardState.DRAINING
    asyncio.run(set_shard_state(_urls(session, database_url), number, state))
    if session.as_json:
        session.show_json({"shard": number, "state": str(state)})
        return
    session.say(f"Shard {number} is {state}.")


@shards.command()
@click.argument("number", type=click.IntRange(min=1), metavar="SHARD")
@_database
@json_option
@click.pass_obj
def remove(session: Session, number: int, database_url: str | None) -> None:
    """Remove an empty shard. Its number is not used again."""
    from tickwise.wiring.installation.shards import remove_shard

    asyncio.run(remove_shard(_urls(session, database_url), number))
    if session.as_json:
        session.show_json({"removed": number})
        return
    session.say(f"Shard {number} is removed. Take its address out of TICKWISE_DATABASE_URL.")


@shards.command()
@click.argument("namespace")
@click.option("--to", "goal", type=click.IntRange(min=1), required=True, metavar="SHARD", help="The shard to move to.")
@_database
@json_option
@click.pass_obj
def move(session: Session, namespace: str, goal: int, database_url: str | None) -> None:
    """Move a namespace to another shard while its jobs run on.

    Its rows are copied while it works; then it takes no writes for a second or two. Run the same command again after
    any interruption: it goes on. To undo a move that has not ended, name the shard where the namespace is now.
    """
    from tickwise.wiring.installation.shards import move_in_steps

    with progress(f"move {namespace}", quiet=session.as_json) as tell:
        pause = asyncio.run(move_in_steps(_urls(session, database_url), namespace, goal, tell))
    seconds = None if pause is None else pause.seconds
    if session.as_json:
        session.show_json({"namespace": namespace, "shard": goal, "moved": pause is not None, "pause_seconds": seconds})
    elif pause is None:
        session.say(f"{namespace} is in shard {goal}; no move of it is under way.")
    else:
        paused = "" if seconds is None else f" It took no writes for {seconds:.2f} s."
        session.say(f"{namespace} is in shard {goal}.{paused}")


@shards.command()
@_database
@json_option
@click.pass_obj
def status(session: Session, database_url: str | None) -> None:
    """Show the moves that are half done."""
    from tickwise.wiring.installation.shards import move_status

    rows = asyncio.run(move_status(_urls(session, database_url)))
    if session.as_json:
        session.show_json({"moves": rows})
        return
    fields = ("namespace", "from", "to", "state", "changes")
    output.table(session, MOVES, [[str(row[name]) for name in fields] for row in rows], empty="No move is half done.")
