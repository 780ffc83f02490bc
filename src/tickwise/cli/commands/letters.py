"""`tickwise dead-letters …`: runs that failed for good, and what is done about them."""

from __future__ import annotations

from typing import Any, Final

import click

from tickwise.cli import bulk, moments, output, work
from tickwise.cli.commands.runs import show_or_watch
from tickwise.cli.failures import Exit
from tickwise.cli.lookup.completion import RUN
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.references import run_id
from tickwise.cli.session import Session, list_options, view_options
from tickwise.cli.terminal.columns import TableColumn
from tickwise.cli.views.runs import attempts_table
from tickwise.domain.excerpts import cause_line

LETTERS: Final = (
    TableColumn("RUN", 0),
    TableColumn("NAME", 1, 10),
    TableColumn("STATUS", 2),
    TableColumn("ENDED", 3, 40),
    TableColumn("REASON", 5),
    TableColumn("ERROR", 9, 10),
)


@click.group("dead-letters")
def dead_letters() -> None:
    """Look at runs that failed for good, and redrive, discard or decide them.

    LETTER is the run: its id, the end of it, or its job for the latest run.
    """


@dead_letters.command("list")
@bulk.letter_filters
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_letters(session: Session, /, limit: int, **said: Any) -> None:
    """List dead letters, newest first; those that wait for a person: --status open --status held."""
    found, more = first_of(session, "/dead-letters", bulk.letter_filter(session, said), limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (session.short(each["run_id"]), each["job_name"], each["status"],
          session.age(each["end_time"], seen_at=seen_at),
          str(each["reason"] or ""), cause_line(each["error_message"]))
        for each in found
    ]  # fmt: skip
    output.table(session, LETTERS, rows, empty="No dead letters.", more=more)


@dead_letters.command()
@click.argument("letter", type=RUN)
@list_options
@click.pass_obj
def show(session: Session, letter: str) -> None:
    """Show a dead letter: how it failed, all attempts, and what it was or became."""
    found = session.client.letter_get(run_id(session, letter))
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    fields: dict[str, Any] = {}
    for name, value in found.items():
        if name in ("attempts", "run"):
            continue
        if name.endswith("_time") and isinstance(value, str):
            value = session.time(value, seen_at=seen_at)
        fields[name.replace("_", " ")] = value if isinstance(value, str) else work.compact(value) if value else None
    output.record(session, fields)
    attempts_table(session, found["attempts"], seen_at)


@dead_letters.command()
@click.argument("letter", required=False, type=RUN)
@bulk.letter_filters
@bulk.how_options
@work.payload_options
@click.option("--note", help="A note for later readers.")
@click.option("--follow", "-f", is_flag=True, help="With one run: show the new run's log until it ends.")
@click.option(
    "--wait", is_flag=True, help="With one run: wait until the new run ends; the exit code tells the outcome."
)
@view_options
@click.pass_obj
def redrive(session: Session, /, letter: str | None, **said: Any) -> int:
    """Run a dead letter again as a new run, or all that the options match, with the same payload or another."""
    wanted = bulk.letter_filter(session, said)
    bulk.one_or_many(letter, said, wanted)
    given = work.payload(session, said["params"], said["payload"])
    body: dict[str, Any] = {} if given is None else {"payload": given}
    body |= {"note": said["note"]} if said["note"] else {}
    if letter is not None:
        asked = session.client.letter_redrive(run_id(session, letter), body)
        return show_or_watch(session, asked, follow=said["follow"], wait=said["wait"])
    many = bulk.Bulk(
        send=session.client.letters_redrive, noun="dead letters", verb="redrive", body={"filter": wanted, **body}
    )
    return bulk.carry_out(session, many, said)


@dead_letters.command()
@click.argument("letter", required=False, type=RUN)
@bulk.letter_filters
@bulk.how_options
@click.option("--note", help="A note with the reason, for later readers.")
@view_options
@click.pass_obj
def discard(session: Session, /, letter: str | None, **said: Any) -> int:
    """Discard a dead letter, or all that the options match; the runs stay on record."""
    wanted = bulk.letter_filter(session, said)
    bulk.one_or_many(letter, said, wanted)
    body = {"note": said["note"]} if said["note"] else {}
    if letter is not None:
        return _settled(session, session.client.letter_discard(run_id(session, letter), body), "is discarded")
    many = bulk.Bulk(
        send=session.client.letters_discard, noun="dead letters", verb="discard", body={"filter": wanted, **body}
    )
    return bulk.carry_out(session, many, said)


@dead_letters.command()
@click.argument("letter", type=RUN)
@click.argument("outcome", type=click.Choice(["succeeded", "failed"]))
@click.option("--note", help="A note with the evidence, for later readers.")
@view_options
@click.pass_obj
def decide(session: Session, letter: str, outcome: str, note: str | None) -> int:
    """Decide a run whose outcome is unknown; a sequence goes on from there."""
    body = {"outcome": outcome, **({"note": note} if note else {})}
    return _settled(session, session.client.letter_decide(run_id(session, letter), body), f"is decided as {outcome}")


def _settled(session: Session, found: dict[str, Any], what: str) -> Exit:
    if session.as_json:
        session.show_json(found)
    else:
        session.say(f"Dead letter {found['run_id']} ({output.safe(found['job_name'])}) {what}.")
    return Exit.OK
