"""`tickwise alerts …` and `tickwise notices …`: what is not well now, and which messages were sent."""

from __future__ import annotations

from typing import Any, Final

import click

from tickwise.cli import output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.commands.notices.things import Json, ask, channel_path, flag, rule_path
from tickwise.cli.lookup.endings import listed_id
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Decorated, Session, list_options, view_options

OPEN: Final = ("open", "acknowledged", "snoozed")


@click.group()
def alerts() -> None:
    """Look at alerts, and acknowledge, snooze, close or reopen them."""


@click.group()
def notices() -> None:
    """Look at notices, and send one again."""


_of_installation = click.option(
    "--installation", is_flag=True, help="Of the installation, not of the namespace: for its administrators."
)
_note = click.option("--note", help="A note for later readers.")


@alerts.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice([*OPEN, "closed"]), help="In this state.  [not closed]"
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@_of_installation
@list_options
@click.pass_obj
def list_alerts(session: Session, states: tuple[str, ...], limit: int, *, installation: bool) -> None:
    """List alerts, the newest event first."""
    query: dict[str, Any] = {"installation": flag(installation)}
    if states:
        query["state"] = list(states)
    found, more = first_of(session, "/alerts", query, limit)
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            session.short(each["alert_id"]),
            _state(session, each),
            each["severity"],
            each["event"],
            each["subject_name"],
            str(each["events"]),
            session.age(each["last_at"]),
        )
        for each in found
    ]
    titles = ("ID", "STATE", "SEVERITY", "EVENT", "ABOUT", "EVENTS", "NEWEST")
    output.table(session, titles, rows, empty="No alerts.", more=more)


@alerts.command("show")
@click.argument("alert")
@view_options
@click.pass_obj
def show_alert(session: Session, alert: str) -> None:
    """Show an alert."""
    _show_alert(session, ask(session, "GET", f"/alerts/{_alert_id(session, alert)}"))


@alerts.command()
@click.argument("alert")
@_note
@view_options
@click.pass_obj
def ack(session: Session, alert: str, note: str | None) -> None:
    """Acknowledge an alert: you have it in hand, so it is not repeated and not escalated."""
    _show_alert(session, ask(session, "POST", f"/alerts/{_alert_id(session, alert)}/acknowledge", _note_of(note)))


@alerts.command()
@click.argument("alert")
@click.option("--for", "length", metavar="DURATION", help="For this long: 30m, 2h.  [1h]")
@click.option("--until", metavar="TIME", help="Until then: 'tomorrow 09:00'.")
@_note
@view_options
@click.pass_obj
def snooze(session: Session, alert: str, length: str | None, until: str | None, note: str | None) -> None:
    """Snooze an alert: nothing is sent about it for a time."""
    body = _note_of(note)
    if length and until:
        raise click.UsageError("give one of --for and --until.")
    if length:
        body["for"] = length
        work.blame(session, "/for", "--for", length)
    if until:
        body["until"] = instant(session, "--until", until)
        work.blame(session, "/until", "--until", until)
    _show_alert(session, ask(session, "POST", f"/alerts/{_alert_id(session, alert)}/snooze", body))


@alerts.command()
@click.argument("alert")
@_note
@view_options
@click.pass_obj
def close(session: Session, alert: str, note: str | None) -> None:
    """Close an alert: the next event opens another one."""
    _show_alert(session, ask(session, "POST", f"/alerts/{_alert_id(session, alert)}/close", _note_of(note)))


@alerts.command()
@click.argument("alert")
@_note
@view_options
@click.pass_obj
def reopen(session: Session, alert: str, note: str | None) -> None:
    """Undo the decision about an alert."""
    _show_alert(session, ask(session, "POST", f"/alerts/{_alert_id(session, alert)}/reopen", _note_of(note)))


def _all_options(command: Decorated) -> Decorated:
    """The options that name alerts by what they have in common."""
    options = [
        click.option("--state", "states", multiple=True, type=click.Choice(OPEN), help="In this state.  [each]"),
        click.option("--rule", metavar="RULE", help="Of this rule: its name or id."),
        click.option("--subject", metavar="ID", help="About this job, by its id, or this executor, by its name."),
        click.option("--event", metavar="EVENT", help="Of this event: failure."),
        click.option("--dry-run", is_flag=True, help="Only count them."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@alerts.command("ack-all")
@_all_options
@_of_installation
@_note
@view_options
@click.pass_obj
def ack_all(session: Session, /, **said: Any) -> None:
    """Acknowledge all alerts that match: you have them in hand.

    tickwise alerts ack-all --rule broken --dry-run
    """
    _decide_all(session, "acknowledge", "acknowledged", said)


@alerts.command("close-all")
@_all_options
@_of_installation
@_note
@view_options
@click.pass_obj
def close_all(session: Session, /, **said: Any) -> None:
    """Close all alerts that match: the next event of each opens another one."""
    _decide_all(session, "close", "closed", said)


def _decide_all(session: Session, verb: str, done: str, said: Json) -> None:
    body = _note_of(said["note"]) | {"dry_run": said["dry_run"]}
    if said["installation"]:
        body["installation"] = True
    if said["states"]:
        body["state"] = list(said["states"])
    if said["rule"]:
        body["rule_id"] = rule_path(session, said["rule"], installation=said["installation"]).rpartition("/")[2]
    for field in ("subject", "event"):
        if said[field]:
            body[field] = said[field]
            work.blame(session, f"/{field}", f"--{field}", said[field])
    found = ask(session, "POST", f"/alerts:{verb}", body)
    if session.as_json:
        session.show_json(found)
        return
    alerts_ = "1 alert matches" if found["matched"] == 1 else f"{found['matched']:,} alerts match"
    more = ", and there are more" if found["more"] else ""
    if said["dry_run"]:
        session.say(f"{alerts_}{more}. Nothing was changed.")
        return
    session.say(f"{alerts_}{more}; {found['changed']:,} {done}.{' Repeat it for the others.' if more else ''}")


@notices.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(["waiting", "delivered", "dead", "dropped"]),
    help="In this state.",
)  # fmt: skip
@click.option("--channel", help="Of this channel: its name or id.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@_of_installation
@list_options
@click.pass_obj
def list_notices(
    session: Session, states: tuple[str, ...], channel: str | None, limit: int, *, installation: bool
) -> None:
    """List notices, the newest first."""
    query: dict[str, Any] = {"installation": flag(installation)}
    if states:
        query["state"] = list(states)
    if channel:
        query["channel_id"] = channel_path(session, channel, installation=installation).rpartition("/")[2]
    found, more = first_of(session, "/notices", query, limit)
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            session.short(each["notice_id"]),
            each["state"],
            each["channel"] or "gone",
            each["rule"] or ("test" if each["test"] else "notify"),
            str(each["events"]),
            session.age(each["last_at"]),
            each["error"] or "",
        )
        for each in found
    ]
    titles = ("ID", "STATE", "CHANNEL", "RULE", "EVENTS", "NEWEST", "ERROR")
    output.table(session, titles, rows, empty="No notices.", more=more)


@notices.command("show")
@click.argument("notice")
@view_options
@click.pass_obj
def show_notice(session: Session, notice: str) -> None:
    """Show a notice."""
    _show_notice(session, ask(session, "GET", f"/notices/{_notice_id(session, notice)}"))


@notices.command("send-again")
@click.argument("notice")
@view_options
@click.pass_obj
def send_again(session: Session, notice: str) -> None:
    """Send a notice again that could not be delivered."""
    _show_notice(session, ask(session, "POST", f"/notices/{_notice_id(session, notice)}/send-again"))


def _alert_id(session: Session, text: str) -> str:
    return listed_id(session, "/alerts", "alert_id", text, state=[*OPEN, "closed"])


def _notice_id(session: Session, text: str) -> str:
    return listed_id(session, "/notices", "notice_id", text)


def _note_of(note: str | None) -> Json:
    return {} if note is None else {"note": note}


def _state(session: Session, alert: Json) -> str:
    if alert["state"] == "acknowledged":
        return f"acknowledged by {alert['acknowledged_by']}"
    if alert["state"] == "snoozed":
        return f"snoozed until {session.time(alert['snoozed_until'])}"
    return str(alert["state"])


def _show_alert(session: Session, alert: Json) -> None:
    if session.as_json:
        session.show_json(alert)
        return
    fields = {
        "about": alert["subject_name"],
        "is": _state(session, alert),
        "event": alert["event"],
        "severity": alert["severity"],
        "events": str(alert["events"]),
        "since": session.time(alert["first_at"]),
        "newest": session.time(alert["last_at"]),
        "says": alert["sentence"],
        "run": alert["run_id"],
        "rule": alert["rule_id"] or "the job's own notify",
        "note": alert["note"],
        "id": alert["alert_id"],
    }
    output.record(session, fields)


def _show_notice(session: Session, notice: Json) -> None:
    if session.as_json:
        session.show_json(notice)
        return
    fields = {
        "is": notice["state"],
        "channel": notice["channel"] or "gone",
        "rule": notice["rule"],
        "events": str(notice["events"]),
        "tries": str(notice["tries"]),
        "error": notice["error"],
        "due": session.time(notice["due"]) if notice["state"] == "waiting" else None,
        "ended": session.time(notice["ended_at"]) if notice["ended_at"] else None,
        "id": notice["notice_id"],
    }
    output.record(session, fields)
    for line in notice["lines"]:
        session.say(f"  {session.time(line['at'])}  {output.safe(line['sentence'])}")
