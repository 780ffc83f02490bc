"""`tickwise stops …`: stop jobs, labels, a queue or the whole namespace for a time; lift a stop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.labels import read_labels
from tickwise.cli.references import job_id
from tickwise.cli.session import Session, view_options

Json = dict[str, Any]
SHOWN_PARTS: Final = 10


@click.group()
def stops() -> None:
    """Stop jobs, labels, a queue or the whole namespace for a time; see and lift stops."""


@stops.command("add")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Jobs with this label; repeat it for more."
)
@click.option("--queue", help="Jobs of this queue.")
@click.option("--job", metavar="JOB", help="This job: its id, key or name.")
@click.option("--all", "everything", is_flag=True, help="All jobs of the namespace.")
@click.option("--reason", required=True, help="Why; shown wherever the stop holds something back.")
@click.option("--for", "length", metavar="TIME", help="For so long: 90m, 2h.  [1h]")
@click.option("--until", metavar="TIME", help="Until then: 'tomorrow 04:00'.")
@click.option("--until-lifted", is_flag=True, help="Without an end.")
@click.option("--from", "start", metavar="TIME", help="From this time on: 'tomorrow 02:00', 2h.  [now]")
@click.option(
    "--skip", is_flag=True, help="Skip what is due meanwhile, on record; else each job starts once afterwards."
)
@click.option("--cancel-running", is_flag=True, help="Cancel what runs already; else it goes on.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would be held back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@view_options
@click.pass_obj
def add(session: Session, /, **said: Any) -> Exit:
    """Stop something: nothing of it starts until the stop ends. It ends by itself.

    tickwise stops add --label customer=acme --for 1h --reason "their database moves"
    """
    body = _body(session, said)
    if said["dry_run"]:
        _show_impact(session, session.client.stop_preview(body))
        return Exit.OK
    if not said["yes"]:
        if session.as_json or not sys.stdin.isatty():
            raise click.UsageError(
                "this stops many at once: add --yes to skip the question, or --dry-run to see what it would hold back."
            )
        _show_impact(session, session.client.stop_preview(body))
        if not click.confirm("Stop it?", err=True):
            session.say("Nothing is done.")
            return Exit.OK
    made = session.client.stop_add(body)
    if session.as_json:
        session.show_json(made)
        return Exit.OK
    session.say(f"{output.safe(_standing(session, made['stop']))}")
    session.say(f"Lift it with: tickwise stops lift {made['stop']['stop_id']}")
    if made["cancel_operation"]:
        session.say(f"What runs is cancelled by the operation {made['cancel_operation']}.")
    return Exit.OK


@stops.command("list")
@click.option("--over", is_flag=True, help="Stops that are over too.")
@view_options
@click.pass_obj
def list_stops(session: Session, *, over: bool) -> None:
    """List stops, the newest first."""
    found: list[Json] = session.client.stops_list(standing=not over)
    if session.as_json:
        session.show_json(found)
        return
    rows = [(each["stop_id"], each["scope"], _state(session, each), each["by"], each["reason"]) for each in found]
    output.table(session, ("ID", "SCOPE", "STATE", "BY", "REASON"), rows, empty="Nothing is stopped.")


@stops.command()
@click.argument("stop")
@view_options
@click.pass_obj
def show(session: Session, stop: str) -> None:
    """Show a stop."""
    _show(session, session.client.stop_get(stop))


@stops.command()
@click.argument("stop", required=False)
@click.option("--all", "everything", is_flag=True, help="All stops of the namespace.")
@view_options
@click.pass_obj
def lift(session: Session, stop: str | None, *, everything: bool) -> None:
    """End a stop now. Without an id, the only one that there is."""
    for each in _meant(session, stop, everything=everything):
        _show(session, session.client.stop_lift(each))


def _meant(session: Session, stop: str | None, *, everything: bool) -> Sequence[str]:
    if stop is not None:
        if everything:
            raise click.UsageError("name one STOP, or --all; not both.")
        return [stop]
    found = session.client.stops_list()
    if not found:
        raise CommandFailure(
            "nothing is stopped.", Exit.NOT_FOUND, advice="`tickwise stops list --over` shows the past."
        )
    if len(found) > 1 and not everything:
        shown = [f"  {each['stop_id']}  {each['scope']}" for each in found[:SHOWN_PARTS]]
        raise CommandFailure("there are several stops; name one, or --all.", Exit.USAGE, advice="\n".join(shown))
    return [str(each["stop_id"]) for each in found]


def _body(session: Session, said: Json) -> Json:
    """The body of a stop. Raises `click.UsageError`."""
    scopes = [name for name in ("labels", "queue", "job", "everything") if said[name]]
    if len(scopes) != 1:
        raise click.UsageError("say what is to stop by one of --label, --queue, --job, or --all for the namespace.")
    ends = [name for name in ("length", "until", "until_lifted") if said[name]]
    if len(ends) > 1:
        raise click.UsageError("give one of --for, --until and --until-lifted.")
    scope: Json = {"all": True}
    if said["labels"]:
        scope = {"labels": read_labels(said["labels"])}
    elif said["queue"]:
        scope = {"queue": said["queue"]}
        work.blame(session, "/queue", "--queue", said["queue"])
    elif said["job"]:
        scope = {"job_id": job_id(session, said["job"])}
    body: Json = {**scope, "reason": said["reason"]}
    work.blame(session, "/reason", "--reason", said["reason"])
    if said["start"]:
        body["from"] = instant(session, "--from", said["start"])
    if said["until_lifted"]:
        body["until"] = None
    elif said["until"]:
        body["until"] = instant(session, "--until", said["until"])
    elif said["length"]:
        begin = datetime.fromisoformat(body["from"]) if "from" in body else datetime.fromtimestamp(moments.now(), UTC)
        body["until"] = (begin + timedelta(seconds=work.duration_seconds("--for", said["length"]))).isoformat()
        work.blame(session, "/until", "--for", said["length"])
    if said["skip"]:
        body["meanwhile"] = "skip"
    if said["cancel_running"]:
        body["cancel_running"] = True
    return body


def _show_impact(session: Session, found: Json) -> None:
    if session.as_json:
        session.show_json(found)
        return
    stop, more = found["stop"], "more than " if found["more"] else ""
    session.say(f"It would stop {output.safe(stop['scope'])}, {_time(session, stop)}. Nothing is changed yet.")
    fate = "each job starts once afterwards" if stop["meanwhile"] == "hold" else "they are skipped, on record"
    session.say(f"  {more}{found['fires']} fires of {more}{found['jobs']} jobs fall into it: {fate}.")
    session.say(f"  {found['waiting']} runs wait now, and stay. {found['running']} are handed out or run.")
    rows = [(each["name"], session.time(each["first_fire"]), str(each["fires"])) for each in found["sample"]]
    if rows:
        output.table(session, ("JOB", "FIRST FIRE", "FIRES"), rows, empty="")


def _show(session: Session, stop: Json) -> None:
    if session.as_json:
        session.show_json(stop)
    else:
        session.say(output.safe(_standing(session, stop)))


def _standing(session: Session, stop: Json) -> str:
    scope = stop["scope"][:1].upper() + stop["scope"][1:]
    return f"{scope}: {_state(session, stop)}, by {stop['by']}: {stop['reason']}"


def _state(session: Session, stop: Json) -> str:
    if stop["lifted_by"]:
        return f"lifted by {stop['lifted_by']} at {session.time(stop['until'])}"
    if stop["over"]:
        return f"over since {session.time(stop['until'])}"
    return f"stopped {_time(session, stop)}" if stop["in_force"] else f"will be stopped {_time(session, stop)}"


def _time(session: Session, stop: Json) -> str:
    until = f"until {session.time(stop['until'])}" if stop["until"] else "until it is lifted"
    return until if stop["in_force"] else f"from {session.time(stop['from'])} {until}"
