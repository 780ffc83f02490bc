"""`tickwise calendars …` and `tickwise windows …`: times at which jobs may not run, or may only run."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import moments, output, times, work
from tickwise.cli.failures import Exit
from tickwise.cli.labels import read_labels
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Session, list_options, server_options, view_options


def _checked_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not name or "/" in name:
        raise click.BadParameter("a name stands in addresses: it is not empty, and has no slash.")
    return name


_name_argument = click.argument("name", callback=_checked_name)


@click.group()
def calendars() -> None:
    """Manage calendars: holidays, business hours, blackout days.

    A job names one: `--calendar holidays` never runs in it, `--calendar business-hours:include` only in it.
    """


@click.group()
def windows() -> None:
    """Manage maintenance windows.

    No scheduled run starts in a window if its job has all labels of the window. One without labels is for all jobs.
    """


# ---------------------------------------------------------------------------------------------------- put


@calendars.command("put")
@_name_argument
@click.argument("file", required=False)
@times.time_options
@click.option("--dry-run", is_flag=True, help="Store nothing; show the times that it would cover in the next 30 days.")
@server_options
@click.pass_obj
def put_calendar(session: Session, /, name: str, file: str | None, dry_run: bool, **options: Any) -> None:
    """Create a calendar, or replace it as a whole, from JSON in FILE (`-`: stdin) or from options.

    \b
    tickwise calendars put holidays --holidays DE-BY --timezone Europe/Berlin
    tickwise calendars put business-hours --weekly 'mon-fri 09:00-17:00' --timezone Europe/Berlin
    tickwise calendars put blackout --dates 2027-12-24..2027-12-26,2027-12-31
    """
    body = times.body(session, file, times.taken(options))
    if body is None:
        raise click.UsageError("say which times: a JSON FILE, or --dates, --weekly, --holidays, --ics, …")
    if dry_run:
        _show_covers(session, session.client.calendar_preview({"calendar": body}))
        return
    stored = session.client.calendar_put(name, body)
    _show_stored(session, stored, f"Calendar {output.safe(name)}")
    if not session.as_json and stored["version"] == 1:
        session.say(f"A job goes by it: tickwise jobs edit JOB --calendar {output.safe(name)}")


@windows.command("put")
@_name_argument
@click.argument("file", required=False)
@times.time_options
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Only jobs with this label; repeat it.")
@click.option("--action", type=click.Choice(["skip", "defer"]), help="The treatment of runs in it.  [skip]")
@click.option("--reason", help="Its purpose; shown with the runs that it skips.")
@server_options
@click.pass_obj
def put_window(
    session: Session, /, name: str, file: str | None, *, labels: tuple[str, ...], action: str | None,
    reason: str | None, **options: Any,
) -> None:  # fmt: skip
    """Create a maintenance window, or replace it as a whole, from JSON in FILE (`-`: stdin) or from options.

    \b
    tickwise windows put patching --cron '0 2 * * 0' --duration 3h --timezone Europe/Berlin --action defer
    tickwise windows put move --from '2027-03-01 18:00' --to '2027-03-02 06:00' --label site=berlin
    """
    said = times.body(session, file, times.taken(options), below="/when")
    if said is None:
        raise click.UsageError("say which times: a JSON FILE, or --cron and --duration, --from and --to, …")
    body: dict[str, Any] = said if file is not None and "when" in said else {"when": said}
    if labels:
        body["labels"] = read_labels(labels)
        work.blame(session, "/labels", "--label", labels[-1])
    for field, value in (("action", action), ("reason", reason)):
        if value is not None:
            body[field] = value
            work.blame(session, f"/{field}", f"--{field}", value)
    _show_stored(session, session.client.window_put(name, body), f"Maintenance window {output.safe(name)}")


def _show_stored(session: Session, stored: dict[str, Any], what: str) -> None:
    if session.as_json:
        session.show_json(stored)
        return
    session.say(f"{what} is {'stored' if stored['version'] == 1 else 'replaced'}.")
    for warning in stored["warnings"]:
        session.note(f"Warning: {output.safe(warning)}")


# ---------------------------------------------------------------------------------------------------- list and show


@calendars.command("list")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_calendars(session: Session, limit: int) -> None:
    """List calendars, by name."""
    found, more = first_of(session, "/calendars", {}, limit, page=100)
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (each["name"], each["timezone"], str(each["entries"]), _source(each), _changed(session, each)) for each in found
    ]
    output.table(
        session, ("CALENDAR", "TIMEZONE", "ENTRIES", "FROM", "CHANGED"), rows,
        empty="No calendars. The first one: tickwise calendars put weekend --weekly sat,sun",
        more=more,
    )  # fmt: skip


@windows.command("list")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_windows(session: Session, limit: int) -> None:
    """List maintenance windows, by name."""
    found, more = first_of(session, "/windows", {}, limit, page=100)
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (each["name"], each["timezone"], _labels(each), each["action"], each["reason"], _changed(session, each))
        for each in found
    ]
    output.table(
        session, ("WINDOW", "TIMEZONE", "JOBS WITH", "ACTION", "REASON", "CHANGED"), rows,
        empty="No maintenance windows. The first one: tickwise windows put NAME --cron '0 2 * * 0' --duration 3h",
        more=more,
    )  # fmt: skip


def _source(calendar: dict[str, Any]) -> str:
    holidays = calendar["holidays"] or {}
    country = "-".join(filter(None, (holidays.get("country"), holidays.get("subdivision"))))
    return ", ".join(filter(None, ("a file" if calendar["ics"] else "", country and f"holidays of {country}")))


def _labels(window: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in window["labels"].items()) or "any labels"


def _changed(session: Session, rule: dict[str, Any]) -> str:
    return session.time(rule["updated_at"])


@calendars.command("show")
@_name_argument
@view_options
@click.pass_obj
def show_calendar(session: Session, name: str) -> None:
    """Show a calendar."""
    found = session.client.calendar_get(name)
    _show(session, found, {"calendar": found["name"]}, found["calendar"])


@windows.command("show")
@_name_argument
@view_options
@click.pass_obj
def show_window(session: Session, name: str) -> None:
    """Show a maintenance window."""
    found = session.client.window_get(name)
    head = {"window": found["name"], "jobs with": _labels(found), "action": found["action"], "reason": found["reason"]}
    _show(session, found, head, found["when"])


def _show(session: Session, found: dict[str, Any], head: dict[str, Any], calendar: dict[str, Any]) -> None:
    if session.as_json:
        session.show_json(found)
        return
    fields = {**head, **times.shown(calendar)}
    if found["resolved"] is not None:
        resolved = found["resolved"]
        fields["comes to"] = f"{len(resolved.get('dates') or ())} days and {len(resolved.get('periods') or ())} periods"
    for field in ("created_at", "updated_at"):
        fields[field.replace("_", " ")] = session.time(found[field])
    fields |= {"created by": found["created_by"], "version": found["version"]}
    fields |= {f"warning {number}": warning for number, warning in enumerate(found["warnings"], 1)}
    output.record(session, fields)


# ---------------------------------------------------------------------------------------------------- covers, delete


@calendars.command("covers")
@_name_argument
@click.option("--from", "start", metavar="TIME", help="From this time on.  [now]")
@click.option("--to", "end", metavar="TIME", help="Until this time.  [30 days later]")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="The most rows to show.")
@view_options
@click.pass_obj
def calendar_covers(session: Session, name: str, *, start: str | None, end: str | None, limit: int) -> None:
    """Show which times a calendar covers."""
    _show_covers(session, session.client.calendar_covers(name, **_range(session, start, end), limit=limit))


@windows.command("covers")
@_name_argument
@click.option("--from", "start", metavar="TIME", help="From this time on.  [now]")
@click.option("--to", "end", metavar="TIME", help="Until this time.  [30 days later]")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="The most rows to show.")
@view_options
@click.pass_obj
def window_covers(session: Session, name: str, *, start: str | None, end: str | None, limit: int) -> None:
    """Show the times of a maintenance window."""
    _show_covers(session, session.client.window_covers(name, **_range(session, start, end), limit=limit))


def _range(session: Session, start: str | None, end: str | None) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, option, text in (("start", "--from", start), ("end", "--to", end)):
        try:
            found[name] = text and moments.moment(text, session.zone, moments.now(), tell=session.note).isoformat()
        except moments.UnreadableTime as error:
            raise click.UsageError(f"{option}: {error}") from None
        for place in ("?", "/"):
            work.blame(session, f"{place}{option.removeprefix('--')}", option, text or "")
    return found


def _show_covers(session: Session, found: dict[str, Any]) -> None:
    if session.as_json:
        session.show_json(found)
        return
    rows = []
    for each in found["covers"]:
        begin, end = moments.instant(each["from"]) or 0.0, moments.instant(each["to"])
        until = "no end in sight" if end is None else moments.absolute(end, session.zone)
        lasts = "" if end is None else moments.length(end - begin)
        rows.append((moments.absolute(begin, session.zone), until, lasts, each["what"]))
    first, last = (moments.absolute(moments.instant(found[name]) or 0.0, session.zone) for name in ("from", "to"))
    output.table(session, ("FROM", "TO", "LASTS", "WHAT"), rows, empty=f"It covers nothing from {first} to {last}.")
    if found["more"]:
        session.note("There is more: a larger --limit, or a later --from, shows it.")
    for warning in found["warnings"]:
        session.note(f"Warning: {output.safe(warning)}")


@calendars.command("delete")
@_name_argument
@server_options
@click.pass_obj
def delete_calendar(session: Session, name: str) -> int:
    """Delete a calendar that no job uses."""
    return _show_deleted(session, session.client.calendar_delete(name), f"Calendar {output.safe(name)}")


@windows.command("delete")
@_name_argument
@server_options
@click.pass_obj
def delete_window(session: Session, name: str) -> int:
    """Delete a maintenance window: jobs run again at these times."""
    return _show_deleted(session, session.client.window_delete(name), f"Maintenance window {output.safe(name)}")


def _show_deleted(session: Session, deleted: dict[str, Any], what: str) -> int:
    if session.as_json:
        session.show_json(deleted)
    else:
        session.say(f"{what} is deleted.")
    return Exit.OK
