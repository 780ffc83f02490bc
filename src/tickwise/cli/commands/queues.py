"""`tickwise queues …`: what waits and runs in each; hold, resume and drain them."""

from __future__ import annotations

from typing import Any, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.session import Session, view_options

LOOK_SECONDS: Final = 0.5


@click.group()
def queues() -> None:
    """Look at queues, hold them still, let them go on."""


@queues.command("list")
@view_options
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
@click.argument("queue")
@view_options
@click.pass_obj
def show(session: Session, queue: str) -> None:
    """Show a queue."""
    _show_queue(session, session.client.queue_get(queue))


@queues.command()
@click.argument("queue")
@click.option("--reason", help="The reason of the hold; shown with the queue.")
@click.option("--from", "start", metavar="TIME", help="From this time on: 'tomorrow 02:00', 2h.  [now]")
@click.option("--until", metavar="TIME", help="Go on by itself then: 'tomorrow 04:00', 2h.")
@view_options
@click.pass_obj
def hold(session: Session, queue: str, *, reason: str | None, start: str | None, until: str | None) -> None:
    """Let nothing more of a queue begin; what runs goes on, and what waits keeps its place."""
    body = _body(session, reason, until)
    if start:
        body["from"] = instant(session, "--from", start)
    _show_queue(session, session.client.queue_hold(queue, body))


@queues.command()
@click.argument("queue")
@view_options
@click.pass_obj
def resume(session: Session, queue: str) -> None:
    """Let a queue go on."""
    _show_queue(session, session.client.queue_resume(queue))


@queues.command()
@click.argument("queue")
@click.option("--reason", help="The reason of the hold; shown with the queue.")
@click.option("--until", metavar="TIME", help="Go on by itself then: 'tomorrow 04:00', 2h.")
@click.option("--wait", is_flag=True, help="Wait until nothing of it runs any more.")
@view_options
@click.pass_obj
def drain(session: Session, queue: str, *, reason: str | None, until: str | None, wait: bool) -> None:
    """Hold a queue, and say what of it still runs."""
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
