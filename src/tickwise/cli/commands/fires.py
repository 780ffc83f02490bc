"""The occurrences of a job, one by one: what is to come and why, and `skip-next`, `snooze` and `backfill`.

These are commands of `tickwise jobs`, which lists them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, Final

import click

from tickwise.cli import job_fields, moments, output, rules, work
from tickwise.cli.failures import Exit
from tickwise.cli.following import FINAL
from tickwise.cli.labels import read_labels
from tickwise.cli.lookup.completion import JOB
from tickwise.cli.lookup.endings import is_id
from tickwise.cli.references import job_id as resolve
from tickwise.cli.session import Session, list_options, server_options, utc_option, view_options
from tickwise.cli.terminal.progress import progress
from tickwise.domain.job_fields import SCHEDULE_FIELDS

MAX_COUNTED: Final = 1_000
"""The most occurrences that the server counts, and runs at once."""
WAIT_SECONDS: Final = 1.0


@click.command()
@click.argument("job", required=False, type=JOB)
@work.when_options
@rules.rule_options
@job_fields.options(SCHEDULE_FIELDS)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="Apply the maintenance windows of jobs with this label; repeat it for more.",
)
@click.option("--from", "start", metavar="TIME", help="Fires strictly after this time; 2h: from now.  [now]")
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="Number of times to show.")
@utc_option
@server_options
@click.pass_obj
def preview(session: Session, /, job: str | None, start: str | None, count: int, **options: Any) -> None:
    """Show when a job will run, or when a schedule would, without saving anything.

    Calendars and maintenance windows are applied. Without a server: `tickwise schedule preview`.
    """
    said = rules.taken(options)
    given = job_fields.taken(session, options, SCHEDULE_FIELDS)
    if labels := read_labels(options.pop("labels")):
        given["labels"] = labels
    when = work.When(**options)
    if (job is None) == (not when.given()):
        raise click.UsageError("name a JOB, or give a schedule such as --cron '*/5 * * * *'.")
    given |= rules.fields(session, said, timezone=when.timezone)
    if job is not None and (given or when.timezone):
        raise click.UsageError("a JOB has its own schedule; `tickwise jobs edit JOB … --dry-run` shows it changed.")
    after = None if start is None else instant(session, "--from", start)
    if job is not None:
        found = session.client.job_preview(resolve(session, job), count=count, after=after)
    else:
        body = {**work.schedule(session, when), **given, "count": count}
        found = session.client.schedule_preview(body if after is None else {**body, "from": after})
    if session.as_json:
        session.show_json(found)
        return
    show_preview(session, found)


def show_preview(session: Session, found: dict[str, Any]) -> None:
    """The fires, with what is worth knowing about them."""
    for line in output.wrapped(session, output.safe(found["explanation"])):
        session.say(line)
    seen_at = moments.now()
    rows = [_fire(session, fire, seen_at) for fire in found["fires"]]
    titles = ("RUNS AT", "AWAY", f"IN {found['timezone']}", "REMARK")
    output.entries(session, titles, rows, lead=3, empty="It will never run again.")
    for warning in found["warnings"]:
        session.note(f"Warning: {output.safe(warning)}")


def _fire(session: Session, fire: dict[str, Any], seen_at: float) -> tuple[str, str, str, str]:
    local = datetime.fromisoformat(fire["nominal"])
    remark = fire["note"] or ("the clock is changed on this day" if fire["clock_change"] else "")
    due = moments.instant(fire["due"])
    if due is None:
        return "–", "–", f"{local:%a %Y-%m-%d %H:%M:%S}", f"skipped: {remark}"
    return moments.absolute(due, session.zone), moments.relative(due, seen_at), f"{local:%a %Y-%m-%d %H:%M:%S}", remark


@click.command()
@click.argument("job", type=JOB)
@click.option("--from", "start", metavar="TIME", help="From this time on: 'yesterday 03:00', 2h (ago).  [a day ago]")
@click.option("--to", "end", metavar="TIME", help="Until this time: 'tomorrow 10:00', 2h (from now).  [in a day]")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def occurrences(session: Session, job: str, *, start: str | None, end: str | None, limit: int) -> None:
    """Show a job's time line: what ran, what was skipped and why, what is held back, and what comes."""
    query, identifier = {}, resolve(session, job)
    if start:
        query["from"] = instant(session, "--from", start, ago=True, job=identifier)
    if end:
        query["to"] = instant(session, "--to", end, job=identifier)
    pages = session.client.pages(f"/jobs/{identifier}/occurrences", {**query, "limit": min(limit, MAX_COUNTED)})
    found = list(islice((each for page in pages for each in page), limit + 1))
    if len(found) > limit:
        found.pop()
        last = found[-1]["until"] or found[-1]["nominal_time"]
        session.note(f"There are more than these {limit}. --limit shows more, --from {last} the rest.")
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [_occurrence(session, each, seen_at) for each in found]
    output.table(
        session, ("TIME", "OUTCOME", "TIMES", "RUN", "NOTE"), rows, empty="Its schedule names no time in this range."
    )


@click.command()
@click.argument("job", type=JOB)
@click.option("--at", metavar="TIME", help="At this time, past or to come: 'yesterday 03:00', 2h (ago).  [now]")
@view_options
@click.pass_obj
def explain(session: Session, job: str, at: str | None) -> None:
    """Say why a job did, or did not, run at a time; or why it does not run now."""
    from tickwise.cli.commands.runs import show_explanation

    identifier = resolve(session, job)
    asked = None if at is None else instant(session, "--at", at, ago=True, job=identifier)
    found = session.client.job_explain(identifier, at=asked)
    show_explanation(session, found)
    if found["run_id"] is not None:
        session.note(f"More of it: tickwise runs show {found['run_id']}")


def _occurrence(session: Session, each: dict[str, Any], seen_at: float) -> tuple[str, str, str, str, str]:
    notes = [each["reason"] if each["note"] is None else each["note"]]
    if each["due_time"] not in (None, each["nominal_time"]):
        notes.insert(0, f"due {moments.absolute(moments.instant(each['due_time']) or 0.0, session.zone)}")
    count = "1"
    if each["occurrences"] > 1:
        count = f"{each['occurrences']} to {moments.absolute(moments.instant(each['until']) or 0.0, session.zone)}"
    return (
        session.time(each["nominal_time"], seen_at=seen_at), each["outcome"], count,
        session.short(each["run_id"] or "–"), "; ".join(filter(None, notes)),
    )  # fmt: skip


def instant(session: Session, option: str, text: str, *, ago: bool = False, job: str | None = None) -> str:
    """A time that a person wrote, as the API takes it; without an offset it is on the viewer's clock, or, about a job
    that has a zone of its own, on that. A duration counts from now, with `ago` into the past. `job`: its id."""
    try:
        zone = session.zone if job is None else _zone_of(session, job, text)
        found = moments.moment(text, zone, moments.now(), ago=ago, tell=session.note).isoformat()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None
    work.blame(session, f"/{option.removeprefix('--').replace('-', '_')}", option, text)
    work.blame(session, f"?{option.removeprefix('--').replace('-', '_')}", option, text)
    return found


def _zone_of(session: Session, job: str, text: str) -> tzinfo | None:
    """The clock on which a time about a job is meant: the job's, unless it is UTC or the person named one."""
    if session.zone is not None or not moments.is_wall_time(text):
        return session.zone
    name = session.client.job_get(job).get("timezone") or "UTC"
    if name == "UTC":
        return session.zone
    session.note(f"{text} is read in {name}, the zone of the job; --timezone and --utc name another.")
    return moments.zone_named(name)


# ---------------------------------------------------------------------------------------------------- one of them


@click.command("skip-next")
@click.argument("job", type=JOB)
@click.option("--reason", help="The reason of the skip; kept on record.")
@view_options
@click.pass_obj
def skip_next(session: Session, job: str, reason: str | None) -> None:
    """Skip a job's next scheduled run; the schedule does not change."""
    work.blame(session, "/reason", "--reason", reason or "")
    body = {"reason": reason} if reason else {}
    _show_moved(session, session.client.job_skip_next(resolve(session, job), body))


@click.command()
@click.argument("job", type=JOB)
@click.option("--until", required=True, metavar="TIME", help="The new time: 'tomorrow 10:00', 2h.")
@view_options
@click.pass_obj
def snooze(session: Session, job: str, until: str) -> None:
    """Delay a job's next scheduled run; the schedule does not change."""
    identifier = resolve(session, job)
    body = {"until": instant(session, "--until", until, job=identifier)}
    _show_moved(session, session.client.job_snooze(identifier, body))


def _show_moved(session: Session, moved: dict[str, Any]) -> None:
    if session.as_json:
        session.show_json(moved)
        return
    which = f"The run of {session.time(moved['nominal_time'])}"
    if moved["status"] == "SKIPPED":
        session.say(f"{which} is skipped.")
    elif moved["due_time"] is None:
        session.say(f"An executor holds {which[0].lower()}{which[1:]} already, and was asked to give it up.")
    else:
        session.say(f"{which} starts at {session.time(moved['due_time'])}.")


# ---------------------------------------------------------------------------------------------------- many of them


@click.command()
@click.argument("job", type=JOB)
@click.option("--from", "start", required=True, metavar="TIME", help="The first time that is run: a time, or 2d (ago).")
@click.option("--to", "end", required=True, metavar="TIME", help="The last one: a time, or 2h (ago).")
@click.option(
    "--overlap",
    type=click.Choice(rules.OVERLAPS),
    help="The treatment of a run while an earlier one runs.  [queue_all]",
)
@click.option("--limit", type=click.IntRange(1, MAX_COUNTED), metavar="N", help="Run only the first N.")
@work.payload_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Wait until its runs have ended; the exit code tells the outcome.")
@view_options
@click.pass_obj
def backfill(
    session: Session,
    /,
    job: str,
    *,
    start: str,
    end: str,
    overlap: str | None,
    limit: int | None,
    yes: bool,
    wait: bool,
    **said: Any,
) -> int:
    """Run a job for past times of its schedule, the earliest first.

    \b
    tickwise jobs backfill report --from 2027-03-01 --to 2027-03-07
    """
    identifier = resolve(session, job)
    body: dict[str, Any] = {
        "from": instant(session, "--from", start, ago=True, job=identifier),
        "to": instant(session, "--to", end, ago=True, job=identifier),
    }
    payload = work.payload(session, said["params"], said["payload"])
    for name, value in (("overlap", overlap), ("limit", limit), ("payload", payload)):
        if value is not None:
            body[name] = value
            work.blame(session, f"/{name}", f"--{name}", value)
    if not yes and not _is_wanted(session, identifier, body):
        session.say("Nothing is run.")
        return Exit.OK
    asked = session.client.job_backfill(identifier, body)
    if session.as_json:
        ended = _await_backfill(session, asked) if wait else {}
        session.show_json({**asked, "ended": ended} if wait else asked)
        return _backfill_code(ended)
    first, last = (moments.absolute(moments.instant(asked[name]) or 0.0, session.zone) for name in ("first", "last"))
    session.say(f"{_runs(asked['count'])} asked for, from {first} to {last}.")
    if asked["closed"]:
        session.note(f"{asked['closed']} more times are left out: calendars close them.")
    if asked["more"]:
        session.note(f"There are more; go on with --from after {last}.")
    if wait:
        ended = _await_backfill(session, asked)
        session.say(f"They have ended: {', '.join(f'{runs} {state}' for state, runs in ended.items())}.")
        return _backfill_code(ended)
    session.say(f"Its runs: tickwise runs list --job {identifier} --backfill {asked['backfill_id']}")
    session.say(f"To stop it: tickwise jobs backfill-cancel {identifier} {asked['backfill_id']}")
    return Exit.OK


def _await_backfill(session: Session, asked: dict[str, Any]) -> dict[str, int]:
    """Wait until the runs of a backfill have ended; how many ended in which state."""
    query = {"origin": asked["backfill_id"], "status": sorted(FINAL), "limit": 500}
    with progress("runs", asked["count"], quiet=session.as_json) as tell:
        while True:
            states = Counter(run["status"] for page in session.client.pages("/runs", query) for run in page)
            tell(states.total())
            if states.total() >= asked["count"]:
                return dict(states)
            moments.pause(WAIT_SECONDS)


def _backfill_code(ended: Mapping[str, int]) -> Exit:
    return Exit.JOB_FAILED if set(ended) - {"SUCCESS"} else Exit.OK


def _is_wanted(session: Session, identifier: str, body: dict[str, Any]) -> bool:
    """Say how many runs it would be, and ask. Raises `click.UsageError` where there is nobody to ask."""
    if session.as_json or not sys.stdin.isatty():
        raise click.UsageError("this runs jobs for times in the past: add --yes to skip the question.")
    begin, end = (datetime.fromisoformat(body[name]).astimezone(UTC) for name in ("from", "to"))
    # The server tells what comes after a time, and the first time counts.
    after = (begin - timedelta(microseconds=1)).isoformat()
    found = session.client.job_preview(identifier, count=MAX_COUNTED, after=after)
    count = sum(datetime.fromisoformat(fire["utc"]) <= end for fire in found["fires"])
    most = min(count, body.get("limit", MAX_COUNTED))
    times = f"up to {most} times" if most else "its times"
    asked = f"Run it now for {times} from {begin.isoformat()} to {end.isoformat()}?"
    return click.confirm(asked, err=True)


def _runs(count: int) -> str:
    return "1 run is" if count == 1 else f"{count} runs are"


@click.command("backfill-cancel")
@click.argument("job", type=JOB)
@click.argument("backfill")
@view_options
@click.pass_obj
def backfill_cancel(session: Session, job: str, backfill: str) -> None:
    """Cancel the unfinished runs of a backfill; running attempts are asked to stop."""
    if not is_id(backfill):
        raise click.UsageError(f"{backfill!r} is not the id of a backfill; `tickwise jobs backfill` shows it.")
    done = session.client.job_backfill_cancel(resolve(session, job), backfill)
    if session.as_json:
        session.show_json(done)
    else:
        session.say(f"{_runs(done['cancelled'])} cancelled, or asked to stop.")


COMMANDS: Final = (preview, occurrences, explain, skip_next, snooze, backfill, backfill_cancel)
