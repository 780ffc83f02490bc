"""`tickwise api`, `scheduler`, `executor`, `recorder`, `keeper`: one role in this process, any number, anywhere."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli.arguments import secret_option
from tickwise.cli.session import Decorated, Session


def _database_option(command: Decorated) -> Decorated:
    return click.option(
        "--database",
        "database_url",
        metavar="URL",
        callback=secret_option,
        help="The store.  [TICKWISE_DATABASE_URL or the settings files]",
    )(command)


def _health_option(command: Decorated) -> Decorated:
    return click.option(
        "--health-port",
        type=click.IntRange(0, 65535),
        help="Serve /livez, /readyz, /healthz and /metrics there.  [no port]",
    )(command)


def _run(session: Session, role: str, flags: dict[str, Any]) -> int:
    from tickwise import config
    from tickwise.wiring import processes

    start = {
        "api": processes.run_api,
        "scheduler": processes.run_scheduler,
        "executor": processes.run_executor,
        "recorder": processes.run_recorder,
        "keeper": processes.run_keeper,
    }[role]
    return start(config.load(session.environ, flags))


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Its port; 0 takes a free one.  [8470]")
@click.option("--host", help="Address that it listens on.  [127.0.0.1]")
@click.option(
    "--serve",
    "api_serve",
    metavar="PARTS",
    help="The parts that it serves: jobs (requests that change something), search, users, auth.  [all]",
)
@_health_option
@_database_option
@click.pass_obj
def api(session: Session, /, **flags: Any) -> int:
    """Serve the REST API, or a part of it.

    Until SIGTERM or Ctrl-C. Any number may run, behind a load balancer. `users` is all below /users and /namespaces,
    `auth` all below /auth and /.well-known; of the rest, `search` is every GET and what ends in `:preview`, and `jobs`
    what is left. A request for a part that is not served gets a 421.
    """
    return _run(session, "api", flags)


@click.command()
@_health_option
@_database_option
@click.pass_obj
def scheduler(session: Session, /, **flags: Any) -> int:
    """Turn due schedules into runs.

    Until SIGTERM or Ctrl-C. Any number may run at once; none leads.
    """
    return _run(session, "scheduler", flags)


@click.command()
@_health_option
@_database_option
@click.option("--queues", metavar="NAMES", help="The queues that it serves, with commas between.  [default]")
@click.option(
    "--labels", metavar="LABELS", help="The labels that it offers to jobs that require them, such as gpu,zone=a."
)
@click.option(
    "--resources", metavar="NAME=N", help="Its counted capacities, with commas between, such as gpu=2,license=1."
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="The memory that runs can reserve by their memory limits.  [what this process may use]",
)
@click.option(
    "--namespaces",
    "executor_namespaces",
    metavar="NAMES",
    help="The namespaces whose runs it claims, with commas between.  [each one]",
)
@click.option("--slots", type=click.IntRange(1), help="Number of task processes that run at once.  [16]")
@click.pass_obj
def executor(session: Session, /, **flags: Any) -> int:
    """Run due jobs.

    Until SIGTERM or Ctrl-C; then running tasks are waited for. Any number may run, on any machine.
    """
    return _run(session, "executor", flags)


@click.command()
@click.option(
    "--serve",
    "recorder_serve",
    metavar="PARTS",
    help="The messages that it applies: requests, results.  [requests,results]",
)
@_health_option
@_database_option
@click.pass_obj
def recorder(session: Session, /, **flags: Any) -> int:
    """Write the broker's messages to the database: buffered requests, ends of runs.

    Until SIGTERM or Ctrl-C. Any number may run at once; they share the work. Needs TICKWISE_BROKER_URL.
    """
    return _run(session, "recorder", flags)


@click.command()
@click.option("--host", "keeper_host", help="Address that roles reach it at.  [that which leads to Cassandra]")
@click.option("--port", "keeper_port", type=click.IntRange(0, 65535), help="Its port.  [a free one]")
@_health_option
@_database_option
@click.pass_obj
def keeper(session: Session, /, **flags: Any) -> int:
    """Own shards of a Cassandra keyspace, and serve them to all roles.

    Until SIGTERM or Ctrl-C; then other keepers take over at once. All keepers of a keyspace share its shards evenly;
    further ones wait. Needs no option but the database: it publishes its address in the keyspace. PostgreSQL needs no
    keeper.
    """
    return _run(session, "keeper", flags)
