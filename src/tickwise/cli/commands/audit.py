"""`tickwise audit …`: who did what, and whether the log is as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tickwise.cli import moments, output
from tickwise.cli.arguments import secret_option
from tickwise.cli.commands.up import running_up
from tickwise.cli.failures import Exit
from tickwise.cli.session import Session, data_dir_option, json_option, view_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from tickwise.control.audit.verification import AuditReport

Json = dict[str, Any]


@click.group()
def audit() -> None:
    """Search, export and verify the audit log."""


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--target", metavar="NAME", help="Entries about this thing: its id or its name."),
        click.option("--action", metavar="ACTION", help="Such as `job.changed` or `auth.signed_in`."),
        click.option("--actor", metavar="NAME", help="Entries of this caller."),
        click.option("--until", metavar="TIME", help="Entries before then: a time, or 2h (ago)."),
        click.option("--since", metavar="TIME", help="Entries from then on: a time, or 2h (ago)."),
    ):
        command = option(command)
    return command


@audit.command("list")
@_filters
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="The most entries to show.")
@view_options
@click.pass_obj
def list_entries(session: Session, /, *, limit: int, **said: str | None) -> None:
    """List entries, the newest first.

    An administrator of the installation sees those of all namespaces, unless --namespace names one.
    """
    found = session.client.request("GET", "/audit", query={**_query(session, said), "limit": limit}).body
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            session.time(each["at"]),
            each["namespace"],
            each["action"],
            _who(each),
            _thing(each),
            each["caller"]["address"],
        )
        for each in found
    ]
    output.table(session, ("AT", "NAMESPACE", "ACTION", "BY", "ABOUT", "FROM"), rows, empty="No entries.")


@audit.command()
@_filters
@click.option("--output", "path", type=click.Path(dir_okay=False, path_type=Path), help="A file.  [stdout]")
@view_options
@click.pass_obj
def export(session: Session, /, *, path: Path | None, **said: str | None) -> None:
    """Write all entries that match as lines of JSON, the oldest first."""
    written = 0
    with click.open_file("-" if path is None else str(path), "wb", lazy=False) as file:
        for piece in session.client.stream("/audit/export", query=_query(session, said)):
            file.write(piece)
            written += piece.count(b"\n")
    session.note(f"{written} entries were written.")


@audit.command()
@click.option(
    "--anchors",
    "anchors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Heads that were noted outside: the file of `audit_anchor_file`, or a log of a scheduler. May be repeated.",
)
@click.option(
    "--database",
    "database_url",
    metavar="URL",
    callback=secret_option,
    help="The store.  [TICKWISE_DATABASE_URL or the settings files]",
)
@data_dir_option
@json_option
@click.pass_obj
def verify(session: Session, *, anchors: tuple[Path, ...], database_url: str | None) -> int:
    """Check that no entry was edited, removed, moved or put in.

    Reads the database itself and changes nothing. Only with --anchors can it tell that the end of a chain was cut off,
    or that a whole chain was written anew.

    The exit code is 1 if something is wrong.
    """
    from tickwise import config
    from tickwise.wiring.audit import verify_database
    from tickwise.wiring.doctor import Running, database_of

    settings = config.load(session.environ, {"data_dir": session.data_dir, "database_url": database_url})
    local = running_up(settings.data_dir)
    running = None if local is None else Running(local.url, local.pid, local.database_url)
    address = database_of(settings, running, given=database_url is not None)
    report = verify_database(address, anchors, kept_seconds=settings.audit_days * 86_400.0)
    if session.as_json:
        session.show_json(_as_dict(report))
    else:
        _show(session, report, anchored=bool(anchors))
    return Exit.JOB_FAILED if report.found else Exit.OK


def _show(session: Session, report: AuditReport, *, anchored: bool) -> None:
    for each in report.findings:
        place = " ".join(
            f"{what} {number}" for what, number in (("seal", each.seq), ("entry", each.entry)) if number is not None
        )
        session.say(f"{each.kind}: {each.namespace}, {place}: {each.detail}")
    for begin in report.dropped:
        day = moments.absolute(begin.dropped_before, session.zone)
        session.say(
            f"The chain of {begin.namespace} begins after seal {begin.seq}: retention dropped what is before {day}."
        )
    counted = f"{report.entries} entries in {report.seals} seals of {report.namespaces} namespaces"
    if report.found:
        session.say(f"{report.found} violations in {counted}.")
        return
    session.say(f"{counted} are as they were written; {report.anchors} anchors agree.")
    if not anchored:
        session.note(
            "Without --anchors, a chain that was cut off or rewritten as a whole cannot be told from a good one."
        )


def _as_dict(report: AuditReport) -> Json:
    return {
        "valid": not report.found,
        "namespaces": report.namespaces,
        "seals": report.seals,
        "entries": report.entries,
        "anchors": report.anchors,
        "found": report.found,
        "findings": [{**each._asdict(), "kind": each.kind.value} for each in report.findings],
        "dropped": [{**each._asdict(), "hash": each.hash.hex()} for each in report.dropped],
    }


def _query(session: Session, said: dict[str, str | None]) -> Json:
    query: Json = {name: value for name, value in said.items() if value is not None}
    for name in ("since", "until"):
        if name in query:
            query[name] = _instant(session, f"--{name}", query[name])
    return query


def _instant(session: Session, option: str, text: str) -> str:
    try:
        return moments.moment(text, session.zone, moments.now(), ago=True).isoformat()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None


def _who(each: Json) -> str:
    caller = each["caller"]
    return caller["name"] or str(caller["kind"])


def _thing(each: Json) -> str:
    if each["target"] is not None:
        return f"{each['target_kind']} {each['target']}"
    return f"{len(each['targets'])} of {each['target_kind']}" if each["targets"] else str(each["target_kind"])
