"""`tickwise doctor`: looks over the set-up and says what to do; `doctor history`: over what is on record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickwise.cli import moments, output
from tickwise.cli.arguments import secret_option
from tickwise.cli.commands.up import running_up
from tickwise.cli.connection import CLIENT_FILE, read_local
from tickwise.cli.failures import Exit
from tickwise.cli.session import Session, data_dir_option, json_option, keep_quiet

if TYPE_CHECKING:
    from tickwise.wiring.doctor import Left, Running
    from tickwise.wiring.findings import DoctorFinding

_database = click.option(
    "--database",
    "database_url",
    metavar="URL",
    callback=secret_option,
    help="The store.  [TICKWISE_DATABASE_URL or the settings files]",
)


@click.group(invoke_without_command=True)
@_database
@data_dir_option
@json_option
@click.pass_context
def doctor(context: click.Context, database_url: str | None) -> int | None:
    """Check this set-up and give advice.

    It checks the port and the database of a running `up`, unless --database names another database, and says so if the
    last `up` was killed.

    The exit code is 1 if something is broken.
    """
    keep_quiet()
    session: Session = context.obj
    if context.invoked_subcommand is not None:
        if database_url is not None:
            raise click.UsageError(f"write --database after `{context.invoked_subcommand}`")
        return None
    from tickwise import config
    from tickwise.wiring.doctor import doctor as examine

    settings = config.load(session.environ, {"data_dir": session.data_dir, "database_url": database_url})
    findings = examine(
        settings,
        _running(settings.data_dir),
        left=_left(settings.data_dir),
        database_given=database_url is not None,
    )
    return _show(session, findings)


@doctor.command()
@click.option(
    "--from", "begin", metavar="TIME", default="1d", show_default=True, help="Runs since then: a time, or 2h (ago)."
)
@click.option("--to", "end", metavar="TIME", help="Runs until then: a time, or 2h (ago).  [now]")
@click.option("--namespace", metavar="NAME", default="default", show_default=True, help="The namespace to look at.")
@_database
@data_dir_option
@json_option
@click.pass_obj
def history(session: Session, *, begin: str, end: str | None, namespace: str, database_url: str | None) -> int:
    """Judge what is on record: was anything lost, ended twice, or taken from an executor that had no right to it?

    Reads the database itself, page by page, and changes nothing; what only a witness outside could tell is said at the
    end. --from and --to are nominal times, as far back as runs are kept.

    The exit code is 1 if something is wrong, and also if nothing is on record: that shows nothing.
    """
    from tickwise import config
    from tickwise.wiring.doctor import database_of
    from tickwise.wiring.history import HistoryPeriod, judge_database

    since, until = _instant(session, "--from", begin), moments.now() if end is None else _instant(session, "--to", end)
    if since >= until:
        raise click.UsageError("--from must be before --to")
    settings = config.load(session.environ, {"data_dir": session.data_dir, "database_url": database_url})
    address = database_of(settings, _running(settings.data_dir), given=database_url is not None)
    verdict = judge_database(address, HistoryPeriod(begin=since, end=until, namespace=namespace))
    if session.as_json:
        session.show_json(verdict.as_dict())
    else:
        session.say(verdict.as_text())
    return Exit.OK if verdict.valid else Exit.JOB_FAILED


@doctor.command()
@_database
@data_dir_option
@json_option
@click.pass_obj
def sso(session: Session, *, database_url: str | None) -> int:
    """Check the provider that signs people in: discovery, clock, keys, our address there, the roles of oidc_roles.

    Nothing is changed, and nobody is signed in.

    The exit code is 1 if something is broken.
    """
    from tickwise import config
    from tickwise.wiring.doctor import database_of
    from tickwise.wiring.outgoing.provider_findings import examine_provider

    settings = config.load(session.environ, {"data_dir": session.data_dir, "database_url": database_url})
    address = database_of(settings, _running(settings.data_dir), given=database_url is not None)
    return _show(session, examine_provider(settings, address))


def _show(session: Session, found: list[DoctorFinding]) -> int:
    """Print findings; the exit code."""
    if session.as_json:
        session.show_json([each._asdict() for each in found])
    else:
        rows = [(each.level, each.name, each.detail, each.advice) for each in found]
        titles = ("LEVEL", "CHECK", "FOUND", "ADVICE")
        output.entries(session, titles, rows, lead=2, empty="Nothing was checked.")
    return Exit.JOB_FAILED if any(each.level == "error" for each in found) else Exit.OK


def _running(data_dir: Path) -> Running | None:
    from tickwise.wiring.doctor import Running

    local = running_up(data_dir)
    return None if local is None else Running(local.url, local.pid, local.database_url)


def _left(data_dir: Path) -> Left | None:
    from tickwise.wiring.doctor import Left

    local = read_local(data_dir)
    return None if local is None else Left(local.url, local.pid, data_dir / CLIENT_FILE)


def _instant(session: Session, option: str, text: str) -> float:
    try:
        return moments.moment(text, session.zone, moments.now(), ago=True, tell=session.note).timestamp()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None
