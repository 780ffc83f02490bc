"""`tickwise jobs …`: create, look at and change jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from tickwise.cli import bulk, job_fields, labels, moments, output, rules, surroundings, work
from tickwise.cli.calls import http_tasks
from tickwise.cli.commands.fires import COMMANDS, instant
from tickwise.cli.failures import Exit
from tickwise.cli.lookup.channels import tell_doubtful
from tickwise.cli.lookup.completion import JOB
from tickwise.cli.lookup.next_runs import next_run_of
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.lookup.standstill import next_words, wait_words, when_it_runs
from tickwise.cli.options import confinement, policies
from tickwise.cli.pending import is_pending, taken_in
from tickwise.cli.references import job_id as resolve
from tickwise.cli.session import Session, list_options, server_options, utc_option, view_options
from tickwise.cli.terminal.differences import changed_fields, difference_lines
from tickwise.cli.views.jobs import fields, job_table, says_something
from tickwise.cli.views.runs import run_table
from tickwise.domain.job_fields import JOB_FIELDS

_NOT_TO_EDIT = frozenset(
    {
        "job_id", "namespace", "task_version", "status", "pause_reason", "pause_until", "created_at", "updated_at",
        "created_by", "version", "next_run_at", "warnings", "planned_at", "paused_at", "paused_by",
    }
)  # fmt: skip
"""Fields of an answered job that no request can set."""
_OF_SCHEDULE = frozenset({"schedule_type", "schedule_time", "cron_expression", "interval_seconds"})
"""Each of these fields makes a new schedule …"""
_WITH_SCHEDULE = ("timezone", "start_at", "end_at", "max_runs", "dst")
"""… which has none of these unless they are sent with it."""
_SHOWN_OF_MANY = 20
TASK_FILE: Final = "--task-file"
"""In an edit `--file` holds the changed fields."""


@click.group()
def jobs() -> None:
    """Create, look at and change jobs.

    JOB is a job's id, its key, its name if only one job has it, or the end of its id, as lists show it.
    """


@jobs.command()
@click.argument("file", default="-")
@click.option("--atomic", is_flag=True, help="With a list: store all jobs or none.")
@labels.job_label_options()
@job_fields.options(JOB_FIELDS)
@rules.rule_options
@policies.policy_options
@confinement.confinement_options
@surroundings.options()
@server_options
@click.pass_obj
def create(session: Session, /, file: str, atomic: bool, **options: Any) -> int:
    """Create a job, or a list of jobs, from JSON in FILE (default: stdin).

    Options apply to all of them and override the file. --label is added to the labels of the file.
    """
    body = work.read_json(file, "", "FILE")
    said = rules.fields(session, rules.taken(options)) | policies.fields(session, options)
    said |= confinement.fields(session, options)
    said |= job_fields.taken(session, options, JOB_FIELDS) | labels.job_label_fields(session, options)
    around = surroundings.taken(options)
    for each in body if isinstance(body, list) else [body]:
        if isinstance(each, dict):
            if around.given:
                each["task"] = surroundings.of_task(session, around, _task_of(each))
            own = each.get("labels")
            each.update(said)
            if "labels" in said and isinstance(own, dict):
                each["labels"] = own | said["labels"]
    if isinstance(body, list):
        return _create_many(session, body, atomic=atomic)
    if not isinstance(body, dict):
        raise click.UsageError("a job is a JSON object, several are a list of objects.")
    created = session.client.job_create(body)
    if session.as_json:
        session.show_json(created)
        return Exit.OK
    session.say(f"Job {session.short(created['job_id'])} {taken_in(created)}.")
    if not is_pending(created):
        _say_when(session, str(created["job_id"]), created.get("warnings") or ())
    for warning in created.get("warnings") or []:
        session.note(f"Warning: {warning}")
    return Exit.OK


def _say_when(session: Session, job_id: str, warnings: Sequence[str]) -> None:
    """Say when the job runs, to a caller that may look at it."""
    from tickwise.sdk.client import ProblemError

    try:
        session.say(when_it_runs(session, session.client.job_get(job_id), job_id, warnings))
    except ProblemError as error:
        if error.status not in (403, 404):
            raise


def _task_of(job: dict[str, Any]) -> dict[str, Any]:
    """The task of a job body; a stored one, which the body only names, is none."""
    task = job.get("task")
    return task if isinstance(task, dict) else {}


def _create_many(session: Session, bodies: list[Any], *, atomic: bool) -> int:
    answer = session.client.jobs_create(bodies, atomic=atomic)
    if session.as_json:
        session.show_json(answer)
    else:
        count, what = (
            (answer["accepted"], "accepted (pending)") if is_pending(answer) else (answer["created"], "stored")
        )
        session.say(f"{count} of {len(bodies)} jobs are {what}.")
    refused = [(place, each["problem"]) for place, each in enumerate(answer["results"]) if each.get("problem")]
    for place, problem in refused[:_SHOWN_OF_MANY]:
        where = f" (at {problem['pointer']})" if problem.get("pointer") else ""
        session.note(f"Job {place + 1} of the list: {output.safe(problem['detail'])}{where}")
    if len(refused) > _SHOWN_OF_MANY:
        session.note(f"… and {len(refused) - _SHOWN_OF_MANY} more.")
    return Exit.REFUSED if refused else Exit.OK


@jobs.command("list")
@click.option("--name", help="Jobs of this name.")
@click.option(
    "--label", "wanted_labels", multiple=True, metavar="NAME=VALUE", help="With this label; repeat it for more."
)
@click.option(
    "--status", "statuses", multiple=True, help="SCHEDULED, PAUSED, COMPLETED, FAILED or CANCELLED; repeat it for more."
)
@click.option("--type", "schedule_type", help="IMMEDIATE, FUTURE, CRON, INTERVAL or ON_DEMAND.")
@click.option("--kind", "task_kind", help="python, shell, http, function, …")
@click.option("--owner", help="The owner of the job.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most items to list.")
@click.option("--all", "everything", is_flag=True, help="List all of them, without a limit.")
@list_options
@click.pass_obj
def list_jobs(
    session: Session,
    /,
    limit: int,
    everything: bool,
    wanted_labels: tuple[str, ...],
    statuses: tuple[str, ...],
    **filters: Any,
) -> None:
    """List jobs, newest first."""
    query = {**filters, "label": list(wanted_labels) or None}
    query["status"] = [status.upper() for status in statuses] or None
    for status in statuses:
        work.blame(session, "?status", "--status", status.upper())
    query["schedule_type"] = query["schedule_type"] and query["schedule_type"].upper()
    work.blame(session, "?schedule_type", "--type", query["schedule_type"])
    if not session.as_json:
        query["next_allowed"] = "true"  # as people mean it: JSON has the job as the API tells it
    if everything:
        found, more = list(chain.from_iterable(session.client.pages("/jobs", {**query, "limit": 500}))), None
    else:
        found, more = first_of(session, "/jobs", query, limit)
    if session.as_json:
        session.show_json(found)
        return
    narrowed = wanted_labels or statuses or any(value is not None for value in filters.values())
    empty = (
        "No jobs match." if narrowed else "No jobs. The first one: tickwise run examples/hello.py --cron '*/5 * * * *'"
    )
    job_table(session, found, empty=empty, more=more and f"{more} --all shows all.")


@jobs.command()
@click.argument("job", type=JOB)
@click.option(
    "--runs", "count", type=click.IntRange(0, 500), default=5, show_default=True, help="Number of latest runs to show."
)
@list_options
@click.pass_obj
def show(session: Session, job: str, count: int) -> None:
    """Show a job, its task and its latest runs. Defaults are left out; -o wide shows them."""
    identifier = resolve(session, job)
    found = session.client.job_get(identifier)
    latest = session.client.job_runs(identifier, limit=count) if count else []
    if session.as_json:
        session.show_json({**found, "runs": latest})
        return
    coming = next_run_of(session, found)
    shown = fields(session, {**found, "next_run_at": coming})
    if coming is not None and (moments.instant(coming) or 0.0) <= moments.now():
        shown["next run"] += wait_words(session, found, identifier, coming)
    output.record(session, shown)
    if latest:
        click.echo()
        run_table(session, latest, with_job=False)


@jobs.command()
@click.argument("job", type=JOB)
@click.argument("script", required=False, type=click.Path(path_type=Path))
@work.when_options
@click.option("--name", help="A new name.")
@work.payload_options
@click.option("--queue", help="Another queue.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 first, 0 last.")
@labels.job_label_options(editing=True)
@job_fields.options(JOB_FIELDS, editing=True)
@rules.rule_options
@policies.policy_options
@confinement.confinement_options
@surroundings.options(editing=True, file_option=TASK_FILE)
@click.option("--http", metavar="URL", help="Send the request to this address.")
@http_tasks.http_options
@click.option("--file", metavar="FILE", help="The changed fields as JSON (`-`: stdin).")
@click.option("--dry-run", is_flag=True, help="Change nothing; show the difference in the next fires.")
@utc_option
@server_options
@click.pass_obj
def edit(session: Session, /, job: str, script: Path | None, **options: Any) -> int:
    """Change a job: by options, by JSON, by a new SCRIPT for it, or, without any, in your editor.

    A SCRIPT takes the place of what the job runs; its Python, packages, folder, variables and files stay. --http gives
    a request another address; of its method, headers, body and the rest, what no option names stays.

    A new schedule counts from now and never fires anything in the past. `none` as --start-at, --end-at or the only
    --calendar takes away what the job has; so it does as --then, --on-failure, --concurrency and --rate.
    """
    identifier = resolve(session, job)
    answer = session.client.request("GET", f"/jobs/{identifier}")
    changes = _changes(session, options, answer.body, script)
    if not changes:
        changes = _edited(answer.body)
    if not changes:
        session.say("Nothing was changed.")
        return Exit.OK
    # By version, not by ETag: an editor may be open for long, and the job's runs go on meanwhile.
    version = answer.body["version"]
    changed = session.client.job_change(identifier, changes, version=version, dry_run=options["dry_run"])
    if session.as_json:
        session.show_json(changed)
        return Exit.OK
    if options["dry_run"]:
        _show_changes(session, answer.body, changes)
        _show_difference(session, changed)
        return Exit.OK
    session.say(f"Job {session.short(identifier)} is changed.")
    if names := changed_fields(answer.body, changes):
        session.say(f"Changed: {output.safe(', '.join(names))}")
    _say_next(session, changed)
    tell_doubtful(session, changes.get("notify"))
    for warning in changed.get("warnings") or []:
        session.note(f"Warning: {warning}")
    return Exit.OK


def _show_changes(session: Session, before: dict[str, Any], changes: dict[str, Any]) -> None:
    """Show the difference that the change makes to the job itself."""
    colour = session.colour(sys.stdout)
    for sign, text in difference_lines(before, changes):
        shown = f"{sign} {output.safe(text)}".rstrip() if sign else output.safe(text)
        click.echo(output.styled(shown, {"-": "red", "+": "green", "": "bold"}.get(sign), colour))


def _show_difference(session: Session, difference: dict[str, Any]) -> None:
    """The effect of a change on the next fires."""
    gone, new = set(difference["removed"]), set(difference["added"])
    signs = {at: "-" if at in gone else "+" if at in new else " " for at in difference["before"] + difference["after"]}
    seen_at = moments.now()
    colour = session.colour(sys.stdout)
    for at in sorted(signs, key=lambda text: moments.instant(text) or 0.0) if gone or new else ():
        style = {"-": "red", "+": "green"}.get(signs[at])
        click.echo(output.styled(f"{signs[at]} {session.time(at, seen_at=seen_at)}", style, colour))
    for warning in difference["warnings"]:
        session.note(f"Warning: {warning}")
    session.note(
        f"Of the next fires {len(gone)} would go, {len(new)} would come and {len(difference['kept'])} would stay; none "
        "in the past. Nothing is changed."
    )


def _changes(
    session: Session, options: dict[str, Any], job: dict[str, Any], script: Path | None
) -> dict[str, Any]:  # fmt: skip
    """Apply the options to the job as it is."""
    changes: dict[str, Any] = {}
    if options["file"]:
        advice = f" (--file takes changed fields; a file that travels with the script is {TASK_FILE})"
        read = work.read_json(options["file"], "", "--file", advice=advice)
        if not isinstance(read, dict):
            raise click.UsageError("--file must hold a JSON object with the fields to change.")
        changes |= read
    when_given = work.When(**{name: options[name] for name in work.WHEN})
    changes |= work.schedule(session, when_given, zone=job.get("timezone"))
    is_new = bool(_OF_SCHEDULE & changes.keys())
    has_zone = job.get("timezone") not in (None, "UTC")
    if has_zone and "cron_expression" in changes and "timezone" not in changes:
        # To the server a new schedule replaces the zone too; a person who edits a cron line means the same clock.
        changes["timezone"] = job["timezone"]
        session.note(f"The schedule goes on in {job['timezone']}; --timezone names another zone.")
    # A new schedule takes nothing else over from the old one, such as its rules for clock changes.
    before = {**job, "dst": None} if is_new else job
    zone = changes.get("timezone") or ("UTC" if is_new else job.get("timezone"))
    changes |= rules.fields(session, rules.taken(options), timezone=zone, before=before)
    changes |= policies.fields(session, options, before=job) | confinement.fields(session, options)
    changes |= job_fields.taken(session, options, JOB_FIELDS, editing=True)
    changes |= labels.job_label_fields(session, options, before=job)
    around = surroundings.taken(options, file_option=TASK_FILE)
    extra = http_tasks.taken(options)
    if script is not None and (options["http"] is not None or extra.given()):
        raise click.UsageError(f"{script} and --http exclude each other: a job runs one thing.")
    if options["http"] is not None or extra.given():
        changes["task"] = http_tasks.changed_task(session, _task_of(job), options["http"], extra)
    if script is not None:
        changes |= _new_script(session, around, script, _task_of(job))
    elif around.given:
        changes["task"] = surroundings.of_task(session, around, _task_of(changes if "task" in changes else job))
    payload = work.payload(session, options["params"], options["payload"])
    if payload is not None:
        changes["payload"] = payload
    for option, field in (("name", "name"), ("queue", "queue"), ("priority", "priority")):
        if options[option] is not None:
            changes[field] = options[option]
            work.blame(session, f"/{field}", f"--{option}", options[option])
    return changes


def _new_script(
    session: Session, around: surroundings.Surroundings, path: Path, before: dict[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """The task of a new script, in the surroundings of the job's task: its Python and its packages among them, unless
    the script, or an option, says others."""
    script = work.read_script(path)
    stays = ["directory", "env", "files"]
    if script.kind == "python" and before.get("kind") == "python":
        has_header = surroundings.MARK in script.source
        stays += ["start", "lock"] if has_header else ["start", *surroundings.DECLARING, "python"]
    kept = {name: before[name] for name in stays if before.get(name)}
    if around.python is not None:
        kept = {name: value for name, value in kept.items() if name not in surroundings.DECLARING}
    task = surroundings.of_task(session, around, {**work.script_task(script), **kept}, script=script)
    return work.inline_or_stored(session, script, task)


def _edited(job: dict[str, Any]) -> dict[str, Any]:
    """The changes made in the editor."""
    before = {name: value for name, value in job.items() if name not in _NOT_TO_EDIT}
    text = click.edit(json.dumps(before, ensure_ascii=False, indent=2) + "\n", extension=".json")
    if text is None:
        return {}
    after = work.read_json(None, text, "the edited text")
    if not isinstance(after, dict):
        raise click.UsageError("a job is a JSON object.")
    changes = {name: value for name, value in after.items() if name not in before or before[name] != value}
    if _OF_SCHEDULE & changes.keys():
        # A new schedule without a zone would be one in UTC, and the text says another; so with the rest.
        changes |= {name: after[name] for name in _WITH_SCHEDULE if says_something(after.get(name))}
    return changes | {name: None for name in before if name not in after and before[name] is not None}


@jobs.command()
@click.argument("job", required=False, type=JOB)
@bulk.job_filters
@bulk.how_options
@click.option("--reason", help="The reason of the pause; shown with the job.")
@click.option("--until", metavar="TIME", help="Resume automatically then: '2027-01-31 10:00', 2h.")
@view_options
@click.pass_obj
def pause(session: Session, /, job: str | None, **said: Any) -> int:
    """Stop a job's schedule, or those of all jobs that the options match; running runs go on."""
    wanted = bulk.job_filter(session, said)
    bulk.one_or_many(job, said, wanted)
    body: dict[str, Any] = {"reason": said["reason"]} if said["reason"] else {}
    if said["until"]:
        body["until"] = instant(session, "--until", said["until"])
    if job is None:
        many = bulk.Bulk(send=session.client.jobs_pause, noun="jobs", verb="pause", body={"filter": wanted, **body})
        return bulk.carry_out(session, many, said)
    return _moved(session, session.client.job_pause(resolve(session, job), body), "is paused")


@jobs.command()
@click.argument("job", required=False, type=JOB)
@bulk.job_filters
@bulk.how_options
@click.option(
    "--missed", type=click.Choice(["skip", "run_latest", "run_all"]), default="skip", show_default=True,
    help="The treatment of the times that fell into the pause.",
)  # fmt: skip
@view_options
@click.pass_obj
def resume(session: Session, /, job: str | None, **said: Any) -> int:
    """Resume a paused job's schedule, or those of all paused jobs that the options match."""
    wanted = bulk.job_filter(session, said)
    bulk.one_or_many(job, said, wanted)
    body = {"missed": said["missed"]}
    if job is None:
        many = bulk.Bulk(send=session.client.jobs_resume, noun="jobs", verb="resume", body={"filter": wanted, **body})
        return bulk.carry_out(session, many, said)
    return _moved(session, session.client.job_resume(resolve(session, job), body), "goes on")


@jobs.command()
@click.argument("job", type=JOB)
@click.option("--to", required=True, metavar="NAMESPACE", help="The namespace that it goes to.")
@view_options
@click.pass_obj
def move(session: Session, job: str, to: str) -> int:
    """Move a job to another namespace. Its ended runs stay where they ran."""
    work.blame(session, "/namespace", "--to", to)
    return _moved(session, session.client.job_move(resolve(session, job), to), f"is in {to} now")


@jobs.command()
@click.argument("job", required=False, type=JOB)
@bulk.job_filters
@bulk.how_options
@view_options
@click.pass_obj
def cancel(session: Session, /, job: str | None, **said: Any) -> int:
    """End a job for good, or all that the options match, and ask their running attempts to stop."""
    wanted = bulk.job_filter(session, said)
    bulk.one_or_many(job, said, wanted)
    if job is None:
        many = bulk.Bulk(send=session.client.jobs_cancel, noun="jobs", verb="cancel", body={"filter": wanted})
        return bulk.carry_out(session, many, said)
    return _moved(session, session.client.job_cancel(resolve(session, job)), "is cancelled")


def _moved(session: Session, job: dict[str, Any], what: str) -> Exit:
    if session.as_json:
        session.show_json(job)
        return Exit.OK
    if is_pending(job):
        session.say(f"That job {session.short(job['job_id'])} {what} is accepted (pending).")
        session.say(f"Look at its result with: tickwise operations show {session.short(job['operation_id'])}")
        return Exit.OK
    named = f" ({job['name']})" if "name" in job else ""  # a key that may not read jobs is told no name
    session.say(f"Job {session.short(job['job_id'])}{named} {what}.")
    # Of one that stands still, what an executor is just giving back is no next run.
    if job["status"] == "SCHEDULED":
        _say_next(session, job)
    return Exit.OK


def _say_next(session: Session, job: dict[str, Any]) -> None:
    """The next run of a job, if it has one, and what holds it back then."""
    if not job.get("next_run_at"):
        return
    coming = next_run_of(session, job)
    if coming is None:
        session.say("Nothing lets it run in the near future.")
    else:
        session.say(next_words(session, job, coming) + wait_words(session, job, str(job["job_id"]), coming))


@jobs.command("run-now")
@click.argument("job", type=JOB)
@work.payload_options
@click.option(
    "--overlap",
    type=click.Choice(["queue_all", "queue_one", "skip", "cancel_running", "allow"]),
    help="The treatment of it while an earlier run goes on. If not given, it waits its turn; it runs beside the others "
    "if the job's fires may overlap.",
)
@click.option("--follow", "-f", is_flag=True, help="Show its log until it ends; the exit code tells the outcome.")
@click.option("--wait", is_flag=True, help="Wait until it ends; the exit code tells the outcome.")
@view_options
@click.pass_obj
def run_now(
    session: Session,
    job: str,
    *,
    params: tuple[str, ...],
    payload: str | None,
    overlap: str | None,
    follow: bool,
    wait: bool,
) -> int:
    """Run a job once, now, besides its schedule."""
    given = work.payload(session, params, payload)
    body = {name: value for name, value in (("payload", given), ("overlap", overlap)) if value is not None}
    identifier = resolve(session, job)
    asked = session.client.job_run_now(identifier, body or None)
    from tickwise.cli.commands.runs import show_or_watch

    code = show_or_watch(session, asked, follow=follow, wait=wait)
    if not (follow or wait or session.as_json):
        _say_waiting(session, identifier)
    return code


def _say_waiting(session: Session, job_id: str) -> None:
    """The reason why a run that was asked for does not begin, to a caller that may look at its job."""
    from tickwise.sdk.client import ProblemError

    try:
        words = wait_words(session, session.client.job_get(job_id), job_id)
    except ProblemError as error:
        if error.status not in (403, 404):
            raise
        return
    if words:
        session.say(words.removeprefix(". "))


for _command in COMMANDS:
    jobs.add_command(_command)
