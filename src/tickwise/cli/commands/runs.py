"""`tickwise runs …`: look at runs, read their logs, stop or repeat them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from tickwise.cli import bulk, moments, output, work
from tickwise.cli.failures import Exit
from tickwise.cli.following import Follower, describe_end, exit_code, write_bytes
from tickwise.cli.lookup.completion import JOB, QUEUE, RUN
from tickwise.cli.lookup.names import names_of
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.references import executor_id, job_id, run_id
from tickwise.cli.session import Session, list_options, server_options, view_options
from tickwise.cli.views.log_origins import write_origins
from tickwise.cli.views.runs import attempts_table, fields, run_table

MAX_OTHERS: Final = 20
"""Other runs of a job that are counted after a cancel."""


@click.group()
def runs() -> None:
    """Look at runs, read their logs, stop or repeat them.

    RUN is a run's id; or the end of the id, as lists show it, of an unfinished run or one of the last day; or a job,
    which means its latest run.
    """


@runs.command("list")
@click.option("--job", metavar="JOB", type=JOB, help="Runs of this job: its id, key or name.")
@click.option("--status", "statuses", multiple=True, help="QUEUED, RUNNING, SUCCESS, FAILED, …; repeat it for more.")
@click.option(
    "--trigger",
    "triggers",
    multiple=True,
    type=click.Choice(bulk.TRIGGERS),
    help="The trigger of the run; repeat it for more.",
)
@click.option("--backfill", metavar="ID", help="Runs of this backfill.")
@click.option("--reason", help="Ended for this reason, such as timeout.")
@click.option("--name", "job_name", metavar="TEXT", help="Runs of jobs with this in their name.")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of jobs with this label; repeat it for more."
)
@click.option("--queue", type=QUEUE, metavar="NAME", help="Runs of jobs of this queue.")
@click.option("--executor", metavar="ID", help="Runs that this executor has, or had last.")
@click.option("--since", metavar="TIME", help="Due since then: '2026-11-21 08:00', or 2h (ago).")
@click.option("--until", metavar="TIME", help="Due until then: a time, or 2h (ago).")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_runs(
    session: Session, *, job: str | None, statuses: tuple[str, ...], triggers: tuple[str, ...], backfill: str | None,
    reason: str | None, job_name: str | None, labels: tuple[str, ...], queue: str | None, executor: str | None,
    since: str | None, until: str | None, limit: int,
) -> None:  # fmt: skip
    """List runs, newest first."""
    query: dict[str, Any] = {
        "job_id": job_id(session, job) if job else None,
        "status": [status.upper() for status in statuses] or None,
        "trigger": list(triggers) or None,
        "origin": backfill,
        "reason": reason,
        "job_name": job_name,
        "label": list(labels) or None,
        "queue": queue,
        "executor_id": executor and executor_id(session, executor),
        "due_after": past(session, "--since", since),
        "due_before": past(session, "--until", until),
    }
    for status in statuses:
        work.blame(session, "?status", "--status", status)
    work.blame(session, "?origin", "--backfill", backfill or "")
    work.blame(session, "?executor_id", "--executor", executor or "")
    for label in labels:
        work.blame(session, "?label", "--label", label)
    found, more = first_of(session, "/runs", query, limit)
    if session.as_json:
        session.show_json(found)
        return
    run_table(session, found, with_job=job is None, more=more)


def past(session: Session, option: str, text: str | None) -> str | None:
    """A time; a duration is one that long ago."""
    if text is None:
        return None
    try:
        return moments.moment(text, session.zone, moments.now(), ago=True, tell=session.note).isoformat()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None


@runs.command()
@click.argument("run", type=RUN)
@list_options
@click.pass_obj
def show(session: Session, run: str) -> None:
    """Show a run: its times, its attempts, its result. Defaults are left out; -o wide shows them."""
    found = session.client.run_get(run_id(session, run))
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    output.record(session, fields(session, found, seen_at))
    attempts_table(session, found.get("attempts") or [], seen_at)


@runs.command()
@click.argument("run", type=RUN)
@view_options
@click.pass_obj
def explain(session: Session, run: str) -> None:
    """Say why a run was late, was skipped, waits, or ran as it did."""
    show_explanation(session, session.client.run_explain(run_id(session, run)))


def show_explanation(session: Session, found: dict[str, Any]) -> None:
    """An explanation: the sentence, and what else had to do with it."""
    if session.as_json:
        session.show_json(found)
        return
    causes = [cause["sentence"] for cause in found["causes"]]
    if found["data"].get("asked_by"):
        causes.append(f"asked for by {found['data']['asked_by']}")
    if found["data"].get("schedule"):
        causes.append(f"by its schedule: {found['data']['schedule']}")
    for line in output.wrapped(session, output.safe(found["sentence"])):
        session.say(line)
    for cause in causes:
        for number, line in enumerate(output.wrapped(session, output.safe(cause), less=4)):
            session.say(f"{'    ' if number else '  - '}{line}")
    conditions = found["conditions"]
    if conditions:
        for line in output.wrapped(session, f"Conditions, looked at {session.time(conditions[0]['looked_at'])}:"):
            session.say(line)
        rows = [
            (
                "yes" if each["met"] else "NO",
                each["condition"].replace("_", " "),
                each["evidence"],
                each["change"] or "",
            )
            for each in conditions
        ]
        titles = ("MET", "CONDITION", "EVIDENCE", "WHAT WOULD CHANGE IT")
        output.entries(session, titles, rows, lead=2, empty="")


def _words(name: str) -> str:
    return name.replace("_", " ")


@runs.command()
@click.option("--job", metavar="JOB", help="Runs of this job: its id, key or name.")
@click.option("--status", "statuses", multiple=True, help="QUEUED, RUNNING, SUCCESS, FAILED, …; repeat it for more.")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of jobs with this label; repeat it for more."
)
@view_options
@click.pass_obj
def watch(session: Session, job: str | None, statuses: tuple[str, ...], labels: tuple[str, ...]) -> None:
    """Show what happens to runs, as it happens, until Ctrl-C. With --json, one object a line."""
    import json

    from tickwise_sdk.events import COALESCED, GAP, RUN, follow

    pairs = {name: value for name, _, value in (label.partition("=") for label in labels)}
    events = follow(
        session.client,
        job_id=job_id(session, job) if job else (),
        status=[status.upper() for status in statuses],
        label=pairs,
    )
    names: dict[str, str] = {}
    for event in events:
        data = event.data
        if session.as_json:
            session.say(json.dumps({"event": event.name, **data}))
        elif event.name == RUN:
            attempt = f"  attempt {data['attempt']}" if data["attempt"] > 1 else ""
            if data["job_id"] not in names:
                names |= {data["job_id"]: data["job_id"], **names_of(session, [data["job_id"]])}
            at = moments.absolute(moments.instant(data["time"]) or 0.0, session.zone)
            said = f"{at}  {session.short(data['run_id'])}  {data['status']}  {names[data['job_id']]}{attempt}"
            session.say(output.safe(said))
        elif event.name == COALESCED:
            session.note(f"{data['skipped']} more changes came than are shown.")
        elif event.name == GAP:
            session.note("Some changes were missed: look at `tickwise runs list`.")


@runs.command()
@click.argument("run", type=RUN)
@click.option("--follow", "-f", is_flag=True, help="Follow until the run ends; the exit code tells the outcome.")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt.  [the latest]")
@click.option("--origin", is_flag=True, help="Say before each line who wrote it: the task, or Tickwise itself.")
@view_options
@click.pass_obj
def logs(session: Session, run: str, follow: bool, attempt: int | None, origin: bool) -> int:
    """Print what a run wrote: its log goes to stdout, remarks about it to stderr.

    The log is printed byte for byte. With --origin control characters of the task are shown and not obeyed, so that no
    task can print the mark of a line that it did not write.
    """
    identifier = run_id(session, run)
    if origin and (follow or session.as_json):
        raise click.UsageError("--origin goes neither with --follow nor with --json.")
    if follow:
        if attempt is not None:
            raise click.UsageError("--follow shows all attempts; leave --attempt out.")
        if session.as_json:
            raise click.UsageError("--follow writes the log as it comes, which is no JSON; leave --json out.")
        ended = Follower(session, identifier, with_log=True).follow()
        session.note(describe_end(ended, with_log=True))
        return exit_code(ended)
    found = session.client.run_get(identifier)
    latest = attempt or int(found.get("attempt_number") or 0)
    if origin:
        write_origins(session, identifier, latest)
        return Exit.OK
    content = b"".join(_whole_log(session, identifier, latest)) if latest else b""
    if session.as_json:
        text = content.decode(errors="replace")
        session.show_json({"run_id": identifier, "attempt_number": latest, "status": found["status"], "log": text})
        return Exit.OK
    write_bytes(content)
    if not content:
        session.note(f"Nothing was written; the run is {found['status']}.")
    return Exit.OK


def _whole_log(session: Session, identifier: str, attempt: int) -> list[bytes]:
    parts: list[bytes] = []
    offset = 0
    while True:
        part = session.client.run_log(identifier, attempt=attempt, offset=offset)
        if not part.content:
            return parts
        parts.append(part.content)
        offset = part.next_offset


@runs.command()
@click.argument("run", type=RUN)
@click.argument("name", required=False)
@click.option("--output", "-o", "file", metavar="FILE", help="Write the artefact there.  [standard output]")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt.  [the latest]")
@view_options
@click.pass_obj
def artefacts(session: Session, run: str, name: str | None, file: str | None, attempt: int | None) -> None:
    """List the files that a run left in its work folder, or download the one named NAME."""
    identifier = run_id(session, run)
    if name is None:
        if file is not None:
            raise click.UsageError("-o needs the NAME of an artefact.")
        found = session.client.run_artefacts(identifier, attempt)
        if session.as_json:
            session.show_json(found)
            return
        rows = [(each["name"], str(each["size_bytes"]), each["sha256"][:12]) for each in found]
        output.table(session, ("NAME", "BYTES", "SHA-256"), rows, empty="The run left no files in its work folder.")
        return
    content = session.client.artefact_get(identifier, name, attempt)
    if file is None:
        write_bytes(content)
        return
    Path(file).write_bytes(content)
    session.say(f"{name} is in {file}.")


@runs.command()
@click.argument("run", required=False, type=RUN)
@bulk.run_filters
@bulk.how_options
@server_options
@click.pass_obj
def cancel(session: Session, /, run: str | None, **said: Any) -> int:
    """Ask a run to stop, or all that the options match and that have not ended."""
    wanted = bulk.run_filter(session, said)
    bulk.one_or_many(run, said, wanted)
    if run is None:
        many = bulk.Bulk(send=session.client.runs_cancel, noun="runs", verb="cancel", body={"filter": wanted})
        return bulk.carry_out(session, many, said)
    identifier = run_id(session, run)
    answer = session.client.run_cancel(identifier)
    if session.as_json:
        session.show_json(answer)
        return Exit.OK
    what = f"is {answer['status']}" if answer["status"] == "CANCELLED" else "will stop"
    session.say(f"Run {session.short(identifier)} {what}.")
    if not identifier.endswith(run.lower()):  # a job was named
        _tell_others_that_go_on(session, identifier)
    return Exit.OK


def _tell_others_that_go_on(session: Session, cancelled: str) -> None:
    """Of a job whose runs may overlap, its name means one of several."""
    from tickwise.sdk.client import ProblemError

    query = {"status": ["RUNNING", "DISPATCHED"], "limit": MAX_OTHERS + 1}
    try:
        job = session.client.run_get(cancelled)["job_id"]
        runs = session.client.request("GET", f"/jobs/{job}/runs", query=query).body
    except ProblemError as error:
        if error.status not in (403, 404):
            raise
        return
    others = [each for each in runs if each["run_id"] != cancelled][:MAX_OTHERS]
    if others:
        count = f"{len(others)} or more" if len(others) == MAX_OTHERS else str(len(others))
        verb = "runs" if len(others) == 1 else "run"
        session.note(
            f"Of its job, {count} more still {verb}. All of them: tickwise runs cancel --job {session.short(job)}"
        )


@runs.command()
@click.argument("run", required=False, type=RUN)
@bulk.run_filters
@bulk.how_options
@work.payload_options
@click.option("--follow", "-f", is_flag=True, help="With one run: show the new run's log until it ends.")
@click.option(
    "--wait", is_flag=True, help="With one run: wait until the new run ends; the exit code tells the outcome."
)
@view_options
@click.pass_obj
def retry(session: Session, /, run: str | None, **said: Any) -> int:
    """Repeat a run as a new run, or all that the options match: failed ones, unless --status says otherwise.

    Of a failed run this is the same as `tickwise dead-letters redrive`: a letter is redriven once, so one that is
    redriven, discarded or decided is not run again.
    """
    wanted = bulk.run_filter(session, said)
    bulk.one_or_many(run, said, wanted)
    given = work.payload(session, said["params"], said["payload"])
    body = {} if given is None else {"payload": given}
    if run is None:
        many = bulk.Bulk(send=session.client.runs_retry, noun="runs", verb="retry", body={"filter": wanted, **body})
        return bulk.carry_out(session, many, said)
    asked = session.client.run_retry(run_id(session, run), body or None)
    return show_or_watch(session, asked, follow=said["follow"], wait=said["wait"])


def show_or_watch(session: Session, asked: dict[str, Any], *, follow: bool, wait: bool) -> Exit:
    """Name the run that was asked for, or watch it to its end."""
    identifier = str(asked["run_id"])
    if not (follow or wait):
        if session.as_json:
            session.show_json(asked)
        else:
            shown = session.short(identifier)
            session.say(f"Run {shown} is asked for. Its log: tickwise runs logs -f {shown}")
        return Exit.OK
    session.note(f"Run {session.short(identifier)}")
    with_log = follow and not session.as_json
    ended = Follower(session, identifier, with_log=with_log).follow()
    session.note(describe_end(ended, with_log=with_log))
    if session.as_json:
        session.show_json(ended)
    return exit_code(ended)
