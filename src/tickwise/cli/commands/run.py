"""`tickwise run`: from a script on this machine to a job on the server, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tickwise.cli import job_fields, labels, output, rules, surroundings, work
from tickwise.cli.arguments import job_key_option
from tickwise.cli.calls import http_tasks
from tickwise.cli.failures import Exit
from tickwise.cli.following import Follower, describe_end, exit_code, only_run_id
from tickwise.cli.lookup.channels import tell_doubtful
from tickwise.cli.lookup.completion import QUEUE
from tickwise.cli.lookup.standstill import when_it_runs
from tickwise.cli.options import confinement, policies
from tickwise.cli.pending import is_pending, taken_in
from tickwise.cli.session import OLD_KEY, Session, server_options, utc_option
from tickwise.domain.job_fields import JOB_FIELDS


@dataclass(frozen=True, kw_only=True)
class What:
    """The options that say what to run; exactly one of the first four."""

    file: str | None
    shell: str | None
    http: str | None
    function: str | None
    extra: http_tasks.Http
    around: surroundings.Surroundings
    packages: Mapping[str, Any]
    """The fields of a script that declare its packages."""

    def given(self) -> list[str]:
        options = {"FILE": self.file, "--shell": self.shell, "--http": self.http, "--function": self.function}
        return [option for option, value in options.items() if value is not None]


@click.command()
@click.argument("file", required=False)
@click.option("--shell", metavar="TEXT", help="Run a shell command instead of a file.")
@click.option("--http", metavar="URL", help="Send an HTTP request instead.")
@click.option("--function", metavar="NAME", help="Call a registered function instead.")
@work.when_options
@click.option("--name", help="The name of the job.  [from the file, command, address or function]")
@click.option(
    "--key", "job_key", metavar="KEY", callback=job_key_option,
    help="Keep one job with this key: if it is there, it is changed, and runs again.",
)  # fmt: skip
@click.option(
    "--replace", is_flag=True, help="Keep one job with this name: if it is there, it is changed, and runs again."
)
@work.payload_options
@work.environment_options
@surroundings.options()
@http_tasks.http_options
@click.option("--queue", type=QUEUE, metavar="NAME", help="The queue whose executors run it.  [default]")
@click.option("--priority", type=click.IntRange(0, 9), help="9 first, 0 last.  [5]")
@labels.job_label_options()
@job_fields.options(JOB_FIELDS)
@rules.rule_options
@policies.policy_options
@confinement.confinement_options
@click.option(
    "--follow", "-f", is_flag=True, help="Of a run now: show its log until it ends; the exit code tells the outcome."
)
@click.option("--wait", is_flag=True, help="Of a run now: wait until it ends; the exit code tells the outcome.")
@utc_option
@server_options
@click.pass_obj
def run(session: Session, /, **options: Any) -> int:
    """Run a script, command, request or function: now, later or by schedule.

    \b
    tickwise run report.py --now --follow
    tickwise run report.py --python .venv --dir reports --env REGION=eu --file helpers.py
    tickwise run backup.py --cron '0 3 * * *' --timezone Europe/Berlin --param db=/srv/app.db
    tickwise run backup.py --cron '0 3 * * *' --now --follow
    tickwise run report.py --requirements requirements.txt --cron @daily
    tickwise run --shell 'df -h' --every 10m
    tickwise run --http https://example.org/health --in 5m
    tickwise run report.py --key report --follow
    """
    packages = work.environment_fields(session, options["requirements"], options["lock"])
    named = {name: options[name] for name in ("file", "shell", "http", "function")}
    what = What(**named, extra=http_tasks.taken(options), around=surroundings.taken(options), packages=packages)
    said = work.When(**{name: options[name] for name in work.WHEN})
    when = said.without_now()
    _check(what, when, watched=(options["follow"] or options["wait"]) and when == said)
    if options["replace"] and options["job_key"] is not None:
        raise click.UsageError("--replace and --key exclude each other: the one is by name, the other by key.")
    # Without a schedule, now: what a person who types `run` expects.
    if not when.given() and not (options["follow"] or options["wait"]):
        session.note("No schedule is given, so it runs now, once. Give one with --cron, --every or --at.")
    body = _body(session, what, work.When(now=True, timezone=when.timezone) if not when.given() else when, options)
    if options["job_key"] is not None or options["replace"]:
        return _keep(session, body, options, runs_now=when != said)
    created = session.client.job_create(body)
    if when != said:
        return _also_now(session, created, body, options)
    if not (options["follow"] or options["wait"]):
        _show_created(session, created, body)
        return Exit.OK
    return _watch(session, created, body, with_log=options["follow"] and not session.as_json)


run.params = [parameter for parameter in run.params if parameter.name != OLD_KEY]


def _keep(session: Session, body: dict[str, Any], options: dict[str, Any], *, runs_now: bool) -> int:
    """Store the one job with this key, or of this name. A job that shall run now is stored on demand and then
    requested, so it runs each time. `runs_now`: it has a schedule, and runs now as well."""
    is_on_demand = body["schedule_type"] == "IMMEDIATE"
    if is_on_demand:
        body["schedule_type"] = "ON_DEMAND"
    kept = _replaced(session, body) if options["job_key"] is None else _put(session, body, options["job_key"])
    if runs_now:
        return _also_now(session, kept, body, options)
    if is_on_demand:
        return _run_now(session, kept, options)
    _show_created(session, kept, body)
    return Exit.OK


def _also_now(session: Session, stored: dict[str, Any], body: dict[str, Any], options: dict[str, Any]) -> int:
    """Ask for a run of a job that has a schedule: who writes one wants to see the job run. The job stays if the
    request fails."""
    if not session.as_json:
        _show_created(session, stored, body)
    return _run_now(session, stored, options)


def _run_now(session: Session, stored: dict[str, Any], options: dict[str, Any]) -> int:
    from tickwise.cli.commands.runs import show_or_watch

    asked = session.client.job_run_now(str(stored["job_id"]))
    return show_or_watch(session, asked, follow=options["follow"], wait=options["wait"])


def _put(session: Session, body: dict[str, Any], key: str) -> dict[str, Any]:
    work.blame(session, "/key", "--key", key)
    return session.client.job_put(key, body)


def _replaced(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """The job of this name that will run again, changed to what is said; a new one if there is none."""
    from tickwise.cli.references import the_job_named

    found = the_job_named(session, body["name"])
    if found is None:
        return session.client.job_create(body)
    changed: dict[str, Any] = session.client.job_change(found["job_id"], body, version=found["version"])
    session.note(f"The job {output.safe(body['name'])} is changed; its runs so far stay with it.")
    return changed


def _check(what: What, when: work.When, *, watched: bool) -> None:
    given = what.given()
    if not given:
        raise click.UsageError("name the task to run: a FILE, --shell, --http or --function.")
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other: a job runs one thing.")
    if what.file is not None and what.file.startswith(("http://", "https://")):
        raise click.UsageError(f"an address is requested with --http {what.file}")
    stray = what.extra.given()
    if stray and what.http is None:
        raise click.UsageError(f"{' and '.join(stray)} belong to --http.")
    if what.packages and what.file is None:
        raise click.UsageError(f"--{next(iter(what.packages))} belongs to a Python script.")
    if watched and when.given() not in ([], ["--now"]):
        raise click.UsageError(
            "--follow and --wait watch a run that begins now: add --now, and it runs by its schedule and once now. A "
            "later run is watched by `tickwise runs logs -f RUN`."
        )


def _body(session: Session, what: What, when: work.When, options: dict[str, Any]) -> dict[str, Any]:
    body = {"name": options["name"], **work.schedule(session, when)}
    body |= rules.fields(session, rules.taken(options), timezone=when.timezone)
    body |= policies.fields(session, options) | confinement.fields(session, options)
    body |= job_fields.taken(session, options, JOB_FIELDS) | labels.job_label_fields(session, options)
    name, task = _task(session, what)
    body["name"] = body["name"] or name
    body |= task
    work.blame(session, "/name", "--name", body["name"])
    payload = work.payload(session, options["params"], options["payload"])
    if payload is not None:
        body["payload"] = payload
    for option, field in (("queue", "queue"), ("priority", "priority")):
        if options[option] is not None:
            body[field] = options[option]
            work.blame(session, f"/{field}", f"--{option}", options[option])
    return body


def _task(session: Session, what: What) -> tuple[str, dict[str, Any]]:
    """A name for the job, and its `task` or `taskId`."""
    if what.shell is not None:
        task = surroundings.of_task(session, what.around, {"kind": "shell", "command": what.shell})
        work.blame(session, "/task", "--shell", what.shell)
        return work.short_name(what.shell), {"task": task}
    if what.http is not None:
        task = surroundings.of_task(session, what.around, http_tasks.http_task(session, what.http, what.extra))
        work.blame(session, "/task", "--http", what.http)
        return work.name_of_url(what.http), {"task": task}
    if what.function is not None:
        task = surroundings.of_task(session, what.around, {"kind": "function", "name": what.function})
        work.blame(session, "/task", "--function", what.function)
        return work.short_name(what.function), {"task": task}
    script = work.read_script(Path(str(what.file)))
    declared = {**work.script_task(script), **what.packages}
    task = surroundings.of_task(session, what.around, declared, script=script)
    return work.short_name(script.path.stem), work.inline_or_stored(session, script, task)


def _show_created(session: Session, created: dict[str, Any], body: dict[str, Any]) -> None:
    if session.as_json:
        session.show_json(created)
        return
    job_id = created["job_id"]
    session.say(f"Job {session.short(job_id)} ({body['name']}) {taken_in(created)}.")
    if is_pending(created):
        session.say(f"Look at its result with: tickwise operations show {session.short(created['operation_id'])}")
    else:
        session.say(when_it_runs(session, body, str(job_id), created.get("warnings") or ()))
        isolated = confinement.isolation_words(session, str(job_id))
        if isolated is not None:
            session.say(isolated)
    for warning in created.get("warnings") or []:
        session.note(f"Warning: {warning}")
    tell_doubtful(session, body.get("notify"))
    session.say(f"Look at it with: tickwise jobs show {session.short(job_id)}")


def _watch(session: Session, created: dict[str, Any], body: dict[str, Any], *, with_log: bool) -> Exit:
    """Follow the job's only run to its end."""
    run_id = only_run_id(session, str(created["job_id"]))
    session.note(f"Job {session.short(created['job_id'])} ({body['name']}), run {session.short(run_id)}")
    isolated = confinement.isolation_words(session, str(created["job_id"]))
    if isolated is not None:
        session.note(isolated)
    for warning in created.get("warnings") or []:
        session.note(f"Warning: {warning}")
    ended = Follower(session, run_id, with_log=with_log).follow()
    session.note(describe_end(ended, with_log=with_log))
    if session.as_json:
        session.show_json(ended)
    return exit_code(ended)
