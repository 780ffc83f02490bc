"""Queues and stops: `tickwise queues …` holds, resumes and drains queues; `tickwise stops …` stops jobs, labels, a
queue or a namespace for a time, and lifts stops."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.labels import read_labels
from tickwise.cli.lookup.completion import QUEUE
from tickwise.cli.lookup.endings import listed_id
from tickwise.cli.lookup.names import nearest
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.references import job_id
from tickwise.cli.session import Session, list_options, view_options

LOOK_SECONDS: Final = 0.5


@click.group()
def queues() -> None:
    """Look at queues, hold and resume them."""


@queues.command("list")
@list_options
@click.pass_obj
def list_queues(session: Session) -> None:
    """List queues by name."""
    found: list[dict[str, Any]] = session.client.queues_list()
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (each["queue"], _standing(session, each), str(each["queued"]), str(each["dispatched"]), str(each["running"]))
        for each in found
    ]
    output.table(
        session, ("QUEUE", "STANDS", "QUEUED", "DISPATCHED", "RUNNING"), rows, empty="No job has used a queue yet."
    )


def _standing(session: Session, found: dict[str, Any]) -> str:
    hold = found["hold"]
    if hold is None:
        return "open"
    until = f" until {session.time(hold['until'])}" if hold["until"] else ""
    if not found["held"]:
        return f"on hold from {session.time(hold['from'])}{until}"
    return f"on hold{until} by {hold['by']}" + (f": {hold['reason']}" if hold["reason"] else "")


@queues.command()
@click.argument("queue", type=QUEUE)
@view_options
@click.pass_obj
def show(session: Session, queue: str) -> None:
    """Show a queue."""
    with _nearest_told(session, queue):
        found = session.client.queue_get(queue)
    _show_queue(session, found)


@contextmanager
def _nearest_told(session: Session, queue: str) -> Iterator[None]:
    """If there is no such queue, tell which may have been meant."""
    from tickwise.sdk.client import ProblemError

    try:
        yield
    except ProblemError as error:
        near = nearest(queue, (each["queue"] for each in session.client.queues_list())) if error.status == 404 else ""
        if near:
            raise CommandFailure(error.detail, Exit.NOT_FOUND, advice=f"  {near}") from None
        raise


@queues.command()
@click.argument("queue", type=QUEUE)
@click.option("--reason", help="The reason of the hold; shown with the queue.")
@click.option("--from", "start", metavar="TIME", help="From this time on: 'tomorrow 02:00', 2h.  [now]")
@click.option("--until", metavar="TIME", help="Resume automatically then: 'tomorrow 04:00', 2h.")
@view_options
@click.pass_obj
def hold(session: Session, queue: str, *, reason: str | None, start: str | None, until: str | None) -> None:
    """Start no more runs of a queue; running ones go on, and waiting ones keep their places."""
    body = _body(session, reason, until)
    if start:
        body["from"] = instant(session, "--from", start)
    known = [each["queue"] for each in session.client.queues_list()]
    _show_queue(session, session.client.queue_hold(queue, body))
    if queue not in known and (near := nearest(queue, known)):
        session.note(f"No job has used the queue {output.safe(queue)} yet. {near}")


@queues.command()
@click.argument("queue", type=QUEUE)
@view_options
@click.pass_obj
def resume(session: Session, queue: str) -> None:
    """Resume a queue."""
    with _nearest_told(session, queue):
        found = session.client.queue_resume(queue)
    _show_queue(session, found)


@queues.command()
@click.argument("queue", type=QUEUE)
@click.option("--reason", help="The reason of the hold; shown with the queue.")
@click.option("--until", metavar="TIME", help="Resume automatically then: 'tomorrow 04:00', 2h.")
@click.option("--wait", is_flag=True, help="Wait until nothing of it runs any more.")
@view_options
@click.pass_obj
def drain(session: Session, queue: str, *, reason: str | None, until: str | None, wait: bool) -> None:
    """Hold a queue, and show which of its runs still go on."""
    found = session.client.queue_drain(queue, _body(session, reason, until))
    while wait and (found["dispatched"] or found["running"]):
        moments.pause(LOOK_SECONDS)
        found = session.client.queue_get(queue)
    _show_queue(session, found)


def _body(session: Session, reason: str | None, until: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if reason:
        body["reason"] = reason
        work.blame(session, "/reason", "--reason", reason)
    if until:
        body["until"] = instant(session, "--until", until)
    return body


def _show_queue(session: Session, found: dict[str, Any]) -> None:
    if session.as_json:
        session.show_json(found)
        return
    waits = f"{found['queued']} wait, {found['dispatched']} are handed out, {found['running']} run"
    session.say(f"Queue {output.safe(found['queue'])}: {output.safe(_standing(session, found))}; {waits}.")


# ------------------------------------------------------------------------------------------ stops

Json = dict[str, Any]
SHOWN_PARTS: Final = 10


@click.group()
def stops() -> None:
    """Stop jobs, labels, a queue or a namespace for a time."""


@stops.command("add")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Jobs with this label; repeat it for more."
)
@click.option("--queue", help="Jobs of this queue.")
@click.option("--job", metavar="JOB", help="This job: its id, key or name.")
@click.option("--all", "everything", is_flag=True, help="All jobs of the namespace.")
@click.option("--reason", required=True, help="The reason; shown wherever the stop holds something back.")
@click.option("--for", "length", metavar="TIME", help="For this long: 90m, 2h.  [1h]")
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
    body = _stop_body(session, said)
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
    session.say(f"{output.safe(_stop_words(session, made['stop']))}")
    session.say(f"Lift it with: tickwise stops lift {made['stop']['stop_id']}")
    if made["cancel_operation"]:
        session.say(f"What runs is cancelled by the operation {made['cancel_operation']}.")
    return Exit.OK


@stops.command("list")
@click.option("--over", is_flag=True, help="Stops that are over too.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_stops(session: Session, *, over: bool, limit: int) -> None:
    """List stops, the newest first."""
    found, more = first_of(session, "/stops", {"standing": "false" if over else "true"}, limit)
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (session.short(each["stop_id"]), each["scope"], _stop_state(session, each), each["by"], each["reason"])
        for each in found
    ]
    output.table(session, ("ID", "SCOPE", "STATE", "BY", "REASON"), rows, empty="Nothing is stopped.", more=more)


@stops.command("show")
@click.argument("stop")
@view_options
@click.pass_obj
def show_stop(session: Session, stop: str) -> None:
    """Show a stop."""
    _show_stop(session, session.client.stop_get(_stop_id(session, stop)))


@stops.command()
@click.argument("stop", required=False)
@click.option("--all", "everything", is_flag=True, help="All stops of the namespace.")
@view_options
@click.pass_obj
def lift(session: Session, stop: str | None, *, everything: bool) -> None:
    """End a stop now. Without an id, the only one that there is."""
    for each in _meant(session, stop, everything=everything):
        _show_stop(session, session.client.stop_lift(each))


def _meant(session: Session, stop: str | None, *, everything: bool) -> Sequence[str]:
    if stop is not None:
        if everything:
            raise click.UsageError("name one STOP, or --all; not both.")
        return [_stop_id(session, stop)]
    found = session.client.stops_list()
    if not found:
        raise CommandFailure(
            "nothing is stopped.", Exit.NOT_FOUND, advice="`tickwise stops list --over` shows the past."
        )
    if len(found) > 1 and not everything:
        shown = [f"  {each['stop_id']}  {each['scope']}" for each in found[:SHOWN_PARTS]]
        raise CommandFailure("there are several stops; name one, or --all.", Exit.USAGE, advice="\n".join(shown))
    return [str(each["stop_id"]) for each in found]


def _stop_id(session: Session, text: str) -> str:
    return listed_id(session, "/stops", "stop_id", text)


def _stop_body(session: Session, said: Json) -> Json:
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
    session.say(f"It would stop {output.safe(stop['scope'])}, {_stop_time(session, stop)}. Nothing is changed yet.")
    fate = "each job starts once afterwards" if stop["meanwhile"] == "hold" else "they are skipped, on record"
    session.say(f"  {more}{found['fires']} fires of {more}{found['jobs']} jobs fall into it: {fate}.")
    session.say(f"  {found['waiting']} runs wait now, and stay. {found['running']} are handed out or run.")
    rows = [(each["name"], session.time(each["first_fire"]), str(each["fires"])) for each in found["sample"]]
    if rows:
        output.table(session, ("JOB", "FIRST FIRE", "FIRES"), rows, empty="")


def _show_stop(session: Session, stop: Json) -> None:
    if session.as_json:
        session.show_json(stop)
    else:
        session.say(output.safe(_stop_words(session, stop)))


def _stop_words(session: Session, stop: Json) -> str:
    scope = stop["scope"][:1].upper() + stop["scope"][1:]
    made = f"made by {stop['by']}" if stop["lifted_by"] else f"by {stop['by']}"
    return f"{scope}: {_stop_state(session, stop)}; {made}: {stop['reason']}"


def _stop_state(session: Session, stop: Json) -> str:
    if stop["lifted_by"]:
        return f"lifted by {stop['lifted_by']} at {session.time(stop['until'])}"
    if stop["over"]:
        return f"over since {session.time(stop['until'])}"
    return (
        f"stopped {_stop_time(session, stop)}" if stop["in_force"] else f"will be stopped {_stop_time(session, stop)}"
    )


def _stop_time(session: Session, stop: Json) -> str:
    until = f"until {session.time(stop['until'])}" if stop["until"] else "until it is lifted"
    return until if stop["in_force"] else f"from {session.time(stop['from'])} {until}"
