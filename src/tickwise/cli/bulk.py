"""Bulk commands: the options of a filter, the question before the first change, and the progress.

options ──► filter ──► dry run: how many, and which ──► asked? ──► operation ──► its progress on stderr
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.failures import Exit, FieldSource
from tickwise.cli.lookup.completion import JOB, QUEUE
from tickwise.cli.lookup.names import names_of
from tickwise.cli.references import executor_id, job_id
from tickwise.cli.session import Decorated, Session
from tickwise.cli.terminal.progress import progress

LOOK_SECONDS: Final = 0.5
SHOWN_PROBLEMS: Final = 5
TRIGGERS: Final = ("schedule", "run_now", "retry", "missed", "backfill", "sequence")
"""The origins that a run may have."""
LETTERS: Final = ("open", "held", "expired", "redriven", "discarded", "decided")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """A bulk request, ready to be sent."""

    send: Callable[[Json], Json]
    noun: str
    """Its objects, in the plural."""
    verb: str
    """The action: `cancel`."""
    body: Json


def _applied(command: Decorated, options: Sequence[Any]) -> Decorated:
    for option in reversed(options):
        command = option(command)
    return command


def how_options(command: Decorated) -> Decorated:
    """`--all`, `--dry-run`, `--yes` and `--no-wait`, behind the options of a filter."""
    return _applied(
        command,
        [
            click.option("--all", "everything", is_flag=True, help="Everything there is, without a filter."),
            click.option("--dry-run", is_flag=True, help="Change nothing; show the items that would be concerned."),
            click.option("--yes", is_flag=True, help="Do not ask."),
            click.option("--no-wait", is_flag=True, help="Do not wait until it is done."),
        ],
    )


def run_filters(command: Decorated) -> Decorated:
    """The filter of runs."""
    return _applied(
        command,
        [
            click.option("--job", metavar="JOB", type=JOB, help="Runs of this job: its id, key or name."),
            click.option("--status", "statuses", multiple=True, help="In this state; repeat it for more."),
            click.option(
                "--trigger",
                "triggers",
                multiple=True,
                type=click.Choice(TRIGGERS),
                help="Started by this; repeat it for more.",
            ),
            click.option("--reason", help="Ended for this reason, such as timeout."),
            click.option("--name", "job_name", metavar="TEXT", help="Of jobs with this in their name."),
            click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of jobs with this label."),
            click.option("--queue", type=QUEUE, metavar="NAME", help="Of jobs of this queue."),
            click.option("--executor", metavar="ID", help="Those that this executor has, or had last."),
            click.option("--since", metavar="TIME", help="Due since then: '2026-11-21 08:00', or 2h (ago)."),
            click.option("--until", metavar="TIME", help="Due until then: a time, or 2h (ago)."),
        ],
    )


def run_filter(session: Session, said: Json) -> Json:
    """Read the options of `run_filters` and remove them from `options`."""
    found = {
        "job_id": _job(session, said.pop("job")),
        "status": [status.upper() for status in said.pop("statuses")] or None,
        "trigger": list(said.pop("triggers")) or None,
        "reason": said.pop("reason"),
        "job_name": said.pop("job_name"),
        "labels": _labels(said),
        "queue": said.pop("queue"),
        "executor_id": _executor(session, said.pop("executor")),
        "due_after": _past(session, "--since", "due_after", said.pop("since")),
        "due_before": _past(session, "--until", "due_before", said.pop("until")),
    }
    return _filter(session, found, said.pop("everything"))


def _labels(said: Json) -> dict[str, str] | None:
    """Read `--label` and remove it from `options`."""
    labels = {}
    for label in said.pop("labels"):
        name, sign, value = label.partition("=")
        if not sign or not name:
            raise click.UsageError(f"--label {label!r}: write NAME=VALUE")
        labels[name] = value
    return labels or None


def job_filters(command: Decorated) -> Decorated:
    """The filter of jobs."""
    return _applied(
        command,
        [
            click.option("--name", help="Jobs with this in their name."),
            click.option(
                "--label", "labels", multiple=True, metavar="NAME=VALUE", help="With this label; repeat it for more."
            ),
            click.option(
                "--status",
                "statuses",
                multiple=True,
                help="SCHEDULED, PAUSED, COMPLETED or FAILED; repeat it for more.",
            ),
            click.option("--type", "schedule_type", help="IMMEDIATE, FUTURE, CRON, INTERVAL or ON_DEMAND."),
            click.option("--kind", "task_kind", help="python, shell, http, function, …"),
            click.option("--owner", help="The owner of the job."),
        ],
    )


def job_filter(session: Session, said: Json) -> Json:
    """Read the options of `job_filters` and remove them from `options`."""
    statuses, kind = [status.upper() for status in said.pop("statuses")], said.pop("schedule_type")
    found = {
        "name": said.pop("name"),
        "labels": _labels(said),
        "status": (statuses[0] if len(statuses) == 1 else statuses) or None,
        "schedule_type": kind and kind.upper(),
        "task_kind": said.pop("task_kind"),
        "owner": said.pop("owner"),
    }
    work.blame(session, "/filter/schedule_type", "--type", kind or "")
    return _filter(session, found, said.pop("everything"))


def letter_filters(command: Decorated) -> Decorated:
    """The filter of dead letters."""
    return _applied(
        command,
        [
            click.option(
                "--status", "statuses", multiple=True, type=click.Choice(LETTERS), help="The status of the dead letter."
            ),
            click.option("--job", metavar="JOB", type=JOB, help="Of this job: its id, key or name."),
            click.option("--kind", "task_kind", help="python, shell, http, function, …"),
            click.option("--reason", help="Failed for this reason, such as timeout."),
            click.option("--error", "error_id", help="Of the group of errors with this id (`tickwise errors list`)."),
            click.option("--since", metavar="TIME", help="Ended since then: '2026-11-21 08:00', or 2h (ago)."),
            click.option("--until", metavar="TIME", help="Ended until then: a time, or 2h (ago)."),
        ],
    )


def letter_filter(session: Session, said: Json) -> Json:
    """Read the options of `letter_filters` and remove them from `options`."""
    found = {
        "status": list(said.pop("statuses")) or None,
        "job_id": _job(session, said.pop("job")),
        "task_kind": said.pop("task_kind"),
        "reason": said.pop("reason"),
        "error_id": said.pop("error_id"),
        "ended_after": _past(session, "--since", "ended_after", said.pop("since")),
        "ended_before": _past(session, "--until", "ended_before", said.pop("until")),
    }
    return _filter(session, found, said.pop("everything", False))


def _job(session: Session, reference: str | None) -> str | None:
    return None if reference is None else job_id(session, reference)


def _executor(session: Session, reference: str | None) -> str | None:
    return None if reference is None else executor_id(session, reference)


def _past(session: Session, option: str, field: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        found = moments.moment(text, session.zone, moments.now(), ago=True, tell=session.note).isoformat()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None
    work.blame(session, f"/filter/{field}", option, text)
    return found


def _filter(session: Session, found: Json, everything: bool) -> Json:
    given = {name: value for name, value in found.items() if value is not None}
    for name, value in given.items():
        session.blame.setdefault(f"/filter/{name}", FieldSource(f"--{name.replace('_', '-')}", str(value)))
    return {**given, "all": True} if everything else given


def one_or_many(one: str | None, said: Json, wanted: Json) -> None:
    """Refuse a line that names both one thing and many, or nothing."""
    if one is not None and (wanted or said["dry_run"]):
        raise click.UsageError("name one, or say which by options; not both.")
    if one is None and not wanted:
        raise click.UsageError("name one, or say which by options; --all means all of them.")


def carry_out(session: Session, bulk: Bulk, said: Json) -> Exit:
    """On trial, or asked for and watched."""
    if said["dry_run"]:
        return _show_matches(session, bulk, bulk.send({**bulk.body, "dry_run": True}))
    if not said["yes"]:
        if session.as_json or not sys.stdin.isatty():
            raise click.UsageError(
                "this changes many at once: add --yes to skip the question, or --dry-run to see what it would do."
            )
        found = bulk.send({**bulk.body, "dry_run": True})
        if not found["matches"] and not found["more"]:
            session.say(f"No {bulk.noun} match; nothing is done.")
            return Exit.OK
        if not click.confirm(f"{bulk.verb.capitalize()} {_how_many(found, bulk.noun)}?", err=True):
            session.say("Nothing is done.")
            return Exit.OK
    accepted = bulk.send(bulk.body)
    operation = str(accepted["operation_id"])
    if said["no_wait"]:
        if session.as_json:
            session.show_json(accepted)
        else:
            session.say(f"Operation {operation} is under way. Look at it with: tickwise operations show {operation}")
        return Exit.OK
    if accepted["matched"] == 0:
        session.note(f"No {bulk.noun} match.")
    ended = watch(session, operation)
    return show_result(session, bulk.noun, ended)


def _how_many(found: Json, noun: str) -> str:
    if not found["more"]:
        return _counted(found["matches"], noun)
    if not found["matches"]:
        return f"all {noun} that match, of which none is among the newest"
    return f"at least {_counted(found['matches'], noun)}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun.removesuffix('s') if number == 1 else noun}"


def _show_matches(session: Session, bulk: Bulk, found: Json) -> Exit:
    if session.as_json:
        session.show_json(found)
        return Exit.OK
    session.say(f"It would {bulk.verb} {_how_many(found, bulk.noun)}. Nothing is changed.")
    names = names_of(session, [each["job_id"] for each in found["sample"] if "name" not in each])
    rows = [
        (
            session.short(each.get("run_id") or each["job_id"]),
            str(each.get("name") or names.get(each["job_id"], "")),
            each["status"],
        )
        for each in found["sample"]
    ]
    if rows:
        output.table(session, ("ID", "NAME", "STATUS"), rows, empty="")
    if found["matches"] > len(rows):
        session.note(f"… and {found['matches'] - len(rows)} more." if not found["more"] else "… and many more.")
    return Exit.OK


def watch(session: Session, operation: str) -> Json:
    """Until it has ended; how far it has come is shown on a terminal."""
    with progress("carried out", quiet=session.as_json) as tell:
        while True:
            found = session.client.operation_get(operation)
            if found["status"] != "pending":  # accepted, and on record once it is over
                tell(found["done"] + found["refused"], found["matched"])
                if found["status"] != "running":
                    return found
            moments.pause(LOOK_SECONDS)


def show_result(session: Session, noun: str, found: Json) -> Exit:
    """The result of an operation."""
    code = Exit.REFUSED if found["refused"] else Exit.OK
    if session.as_json:
        session.show_json(found)
        return code
    session.say(f"{'Cancelled' if found['status'] == 'cancelled' else 'Done'}: {_counted(found['done'], noun)}.")
    if found["refused"]:
        session.note(f"{found['refused']} could not be:")
        for problem in found["problems"][:SHOWN_PROBLEMS]:
            session.note(f"  {problem['id']}  {output.safe(problem['detail'])}")
    return code
