"""`tickwise errors …`: failures grouped by cause, and what is decided about a group."""

from __future__ import annotations

from typing import Any, Final

import click

from tickwise.cli import bulk, moments, output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.lookup.endings import listed_id
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.references import job_id
from tickwise.cli.session import Session, list_options, view_options

STATUSES: Final = ("open", "resolved", "ignored")
UNDECIDED: Final = ("decision", "decided_at", "decided_by", "ignored_until", "ignored_until_failures")
JOBS_SHOWN: Final = 10


@click.group()
def errors() -> None:
    """Look at failures grouped by cause, and resolve, ignore or redrive a group.

    ERROR is the id of a group.
    """


@errors.command("list")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(STATUSES), help="The status; repeat it for more.  [any]"
)
@click.option("--job", metavar="JOB", help="Of this job, perhaps among others: its id, key or name.")
@click.option("--kind", "task_kind", help="python, shell, http, function, …")
@click.option("--reason", help="Failed for this reason, such as timeout.")
@click.option("--text", help="With this in the exception, the message or the task.")
@click.option("--since", metavar="TIME", help="Failed since then: '2026-11-21 08:00', or 2h (ago).")
@click.option("--new-since", metavar="TIME", help="Failed for the first time since then.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_errors(session: Session, /, limit: int, **said: Any) -> None:
    """List groups of errors, the one that failed last first."""
    query: dict[str, Any] = {"status": list(said["statuses"]) or None}
    query |= {name: said[name] for name in ("task_kind", "reason", "text")}
    query["job_id"] = None if said["job"] is None else job_id(session, said["job"])
    query["seen_after"] = _past(session, "--since", said["since"])
    query["first_seen_after"] = _past(session, "--new-since", said["new_since"])
    given = {name: value for name, value in query.items() if value is not None}
    found, more = first_of(session, "/errors", given, limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (session.short(each["error_id"]), each["status"], str(each["failures"]), str(each["jobs"]),
         session.age(each["last_seen"], seen_at=seen_at), what(each))
        for each in found
    ]  # fmt: skip
    output.table(session, ("ERROR", "STATUS", "FAILURES", "JOBS", "LAST", "WHAT"), rows, empty="No errors.", more=more)


def what(found: dict[str, Any]) -> str:
    """One line that names the cause."""
    cause = ": ".join(part for part in (found["kind"], found["message"]) if part) or found["reason"]
    return f"{cause} ({found['task']})" if found["task"] else cause


def _past(session: Session, option: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return moments.moment(text, session.zone, moments.now(), ago=True, tell=session.note).isoformat()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None


@errors.command()
@click.argument("error")
@view_options
@click.pass_obj
def show(session: Session, error: str) -> None:
    """Show a group: how often, since when, of which jobs, and what its newest failure said."""
    _show(session, session.client.error_get(_error_id(session, error)))


@errors.command()
@click.argument("error")
@click.option("--note", help="A note for later readers.")
@view_options
@click.pass_obj
def resolve(session: Session, error: str, note: str | None) -> None:
    """Resolve a group; it is open again when it fails again."""
    _decided(session, session.client.error_resolve(_error_id(session, error), {"note": note} if note else {}))


@errors.command()
@click.argument("error")
@click.option("--until", metavar="TIME", help="Until this time: 'tomorrow 08:00', 2h.")
@click.option("--failures", type=click.IntRange(1), help="Until it has failed this many more times.")
@click.option("--note", help="A note for later readers.")
@view_options
@click.pass_obj
def ignore(session: Session, error: str, *, until: str | None, failures: int | None, note: str | None) -> None:
    """Ignore a group until a time, or for a number of failures."""
    if until is None and failures is None:
        raise click.UsageError("give --until or --failures: no group is ignored permanently")
    body: dict[str, Any] = {"note": note} if note else {}
    if until is not None:
        body["until"] = instant(session, "--until", until)
    if failures is not None:
        body["failures"] = failures
    _decided(session, session.client.error_ignore(_error_id(session, error), body))


@errors.command()
@click.argument("error")
@view_options
@click.pass_obj
def reopen(session: Session, error: str) -> None:
    """Open a group again: undo the decision about it."""
    _decided(session, session.client.error_reopen(_error_id(session, error)))


@errors.command()
@click.argument("error")
@click.option("--dry-run", is_flag=True, help="Change nothing; show the items that would be concerned.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@work.payload_options
@click.option("--note", help="A note for later readers.")
@view_options
@click.pass_obj
def redrive(session: Session, /, error: str, **said: Any) -> int:
    """Run the dead letters of a group again as new runs: those that are open."""
    given = work.payload(session, said["params"], said["payload"])
    body: dict[str, Any] = {"filter": {"error_id": error}} | ({} if given is None else {"payload": given})
    body |= {"note": said["note"]} if said["note"] else {}
    many = bulk.Bulk(send=session.client.letters_redrive, noun="dead letters", verb="redrive", body=body)
    return bulk.carry_out(session, many, said)


def _error_id(session: Session, text: str) -> str:
    return listed_id(session, "/errors", "error_id", text)


def _show(session: Session, found: dict[str, Any]) -> None:
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    fields: dict[str, Any] = {}
    for name, value in found.items():
        if name in ("top_jobs", "hours") or (name in UNDECIDED and value is None):
            continue
        if name in ("first_seen", "last_seen", "decided_at", "ignored_until") and isinstance(value, str):
            value = session.time(value, seen_at=seen_at)
        fields[name.replace("_", " ")] = value if isinstance(value, str) else str(value) if value is not None else None
    output.record(session, fields)
    rows = [
        (each["job_id"], str(each["failures"]), session.time(each["last_seen"], seen_at=seen_at))
        for each in found["top_jobs"][:JOBS_SHOWN]
    ]
    output.table(session, ("JOB", "FAILURES", "LAST"), rows, empty="No job of it is known any more.")


def _decided(session: Session, found: dict[str, Any]) -> None:
    if session.as_json:
        session.show_json(found)
        return
    until = ""
    if found["status"] == "ignored":
        ends = [f"until {session.time(found['ignored_until'])}"] if found["ignored_until"] else []
        ends += [f"up to {found['ignored_until_failures']} failures"] if found["ignored_until_failures"] else []
        until = " " + " or ".join(ends)
    session.say(f"Error {found['error_id']} ({output.safe(what(found))}) is {found['status']}{until}.")
