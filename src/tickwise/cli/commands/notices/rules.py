"""`tickwise notify …`: the rules that say which events are told to which channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tickwise.cli import output, work
from tickwise.cli.commands.notices.channels import WAIT_SECONDS, told
from tickwise.cli.commands.notices.things import Json, ask, flag, named, rule_path
from tickwise.cli.failures import Exit
from tickwise.cli.labels import labels_text, read_labels
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Decorated, Session, list_options, view_options

NONE = "none"
"""As the value of an option: take away what the rule has."""


@click.group()
def notify() -> None:
    """Manage rules: which events are sent to which channels."""


_of_installation = click.option(
    "--installation", is_flag=True, help="Of the installation, not of the namespace: for its administrators."
)


def _rule_options(command: Decorated) -> Decorated:
    options = [
        click.option("--on", "on", multiple=True, metavar="EVENT",
                     help="failure, first_failure, recovery, did_not_run, late, long, retries, dead_letter, fuse, "
                     "objective, anomaly, expiring; success, of each --job; with --installation executor_lost, "
                     "expiring. Repeat it for more."),
        click.option("--channel", "channels", multiple=True, metavar="CHANNEL", help="By name; repeat it for more."),
        click.option("--job", "jobs", multiple=True, metavar="JOB", help="This job: its id, key or name."),
        click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Jobs with this label."),
        click.option("--severity", type=click.Choice(["info", "warning", "critical"]), help="critical: at once."),
        click.option(
            "--after", metavar="DURATION",
            help="With late and long: tell after this time, such as 10m.",
        ),
        click.option("--in-a-row", metavar="N", help="With failure: only when this many runs in a row failed."),
        click.option(
            "--failures-of", metavar="N/RUNS",
            help="With failure: only when N of the newest RUNS failed: 3/5.",
        ),
        click.option("--attempts", metavar="N", help="With retries: when N attempts of a run failed.  [3]"),
        click.option("--group", metavar="DURATION", help="Gather what follows the first notice for this long.  [5m]"),
        click.option("--repeat", metavar="DURATION", help="Send an open alert again after this time: 4h."),
        click.option("--quiet", metavar="FROM-TO[@ZONE]", help="Hold notices back: 22:00-07:00@Europe/Berlin."),
        click.option(
            "--escalate", metavar="DURATION:CHANNEL,…",
            help="Tell further channels of an alert that nobody acknowledged: "
            "30m:boss; a minute at least."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@notify.command("add")
@click.argument("name")
@_rule_options
@click.option("--dry-run", is_flag=True, help="Store nothing; show the events of the last day that it would have told.")
@_of_installation
@view_options
@click.pass_obj
def add(session: Session, /, name: str, **said: Any) -> None:
    """Make a rule. Without --job and --label it concerns the whole namespace.

    tickwise notify add broken --on failure --on recovery --channel on-call
    """
    body = {"name": name, **_body(session, said)}
    work.blame(session, "/name", "NAME", name)
    for field, option in (("on", "--on"), ("channels", "--channel")):
        if field not in body:
            raise click.UsageError(f"give {option} at least once.")
    if said["installation"]:
        body["installation"] = True
    if said["dry_run"]:
        _show_preview(session, ask(session, "POST", "/notification-rules:preview", body))
        return
    made = ask(session, "POST", "/notification-rules", body)
    if session.as_json:
        session.show_json(made)
        return
    session.say(f"Rule {output.safe(made['name'])} is made. Try it: tickwise notify test {named(made)}")


@notify.command("list")
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="The most rows to show.")
@_of_installation
@list_options
@click.pass_obj
def list_rules(session: Session, limit: int, *, installation: bool) -> None:
    """List rules by name."""
    found, more = first_of(session, "/notification-rules", {"installation": flag(installation)}, limit)
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            session.short(each["rule_id"]),
            each["name"] if each["enabled"] else f"{each['name']} (off)",
            " ".join(each["on"]),
            _scope(each),
            " ".join(each["channels"]) or "nobody",
            each["severity"],
        )
        for each in found
    ]
    titles = ("ID", "NAME", "ON", "OF", "TELLS", "SEVERITY")
    output.table(session, titles, rows, empty="No notification rules.", more=more)


@notify.command("show")
@click.argument("rule")
@_of_installation
@view_options
@click.pass_obj
def show(session: Session, rule: str, *, installation: bool) -> None:
    """Show a rule, by its name or id."""
    _show(session, ask(session, "GET", rule_path(session, rule, installation=installation)))


@notify.command("edit")
@click.argument("rule")
@click.option("--name", help="Another name.")
@_rule_options
@click.option("--enabled/--disabled", default=None, help="Enable or disable the rule.")
@_of_installation
@view_options
@click.pass_obj
def edit(session: Session, /, rule: str, **said: Any) -> None:
    """Change a rule; options that are not given stay, and `none` removes one."""
    body = _body(session, said)
    if said["name"]:
        body["name"] = said["name"]
        work.blame(session, "/name", "--name", said["name"])
    if said["enabled"] is not None:
        body["enabled"] = said["enabled"]
    if not body:
        raise click.UsageError("say what to change.")
    _show(session, ask(session, "PATCH", rule_path(session, rule, installation=said["installation"]), body))


@notify.command("remove")
@click.argument("rule")
@_of_installation
@view_options
@click.pass_obj
def remove(session: Session, rule: str, *, installation: bool) -> None:
    """Remove a rule: its alerts are closed, its waiting notices are dropped."""
    gone = ask(session, "DELETE", rule_path(session, rule, installation=installation))
    if session.as_json:
        session.show_json(gone)
    else:
        session.say(f"Rule {output.safe(gone['name'])} is removed.")


@notify.command("test")
@click.argument("rule")
@click.option("--escalation", is_flag=True, help="Test the channels of its escalation.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the outcome.")
@_of_installation
@view_options
@click.pass_obj
def test(session: Session, rule: str, *, escalation: bool, no_wait: bool, installation: bool) -> Exit:
    """Send a test notice to each channel of a rule."""
    path = rule_path(session, rule, installation=installation)
    wait = 0 if no_wait else WAIT_SECONDS
    return told(session, ask(session, "POST", f"{path}/test", wait=wait, escalation=flag(escalation)))


def _body(session: Session, said: Json) -> Json:
    """The fields that the options say. Raises `click.UsageError`."""
    body: Json = {}
    for field, option in (("on", "--on"), ("channels", "--channel"), ("jobs", "--job")):
        if said[field]:
            body[field] = [] if tuple(said[field]) == (NONE,) else list(said[field])
            work.blame(session, f"/{field}", option, said[field][-1])
            for place, each in enumerate(said[field]):
                work.blame(session, f"/{field}/{place}", option, each)
    if said["labels"]:
        body["labels"] = {} if tuple(said["labels"]) == (NONE,) else read_labels(said["labels"])
        work.blame(session, "/labels", "--label", said["labels"][-1])
    for field, read in (
        ("severity", str), ("after", str), ("in_a_row", _number), ("failures_of", _failures_of), ("attempts", _number),
        ("group", str), ("repeat", str), ("quiet", _quiet), ("escalate", _escalate),
    ):  # fmt: skip
        if said[field] is not None:
            body[field] = None if said[field] == NONE else read(said[field])
            work.blame(session, f"/{field}", f"--{field.replace('_', '-')}", said[field])
    return body


def _number(text: str) -> int:
    if not text.isdecimal():
        raise click.UsageError(f"{text!r} is no number; write one, or none.")
    return int(text)


def _failures_of(text: str) -> Json:
    failures, sign, runs = text.partition("/")
    if not sign or not failures.isdecimal() or not runs.isdecimal():
        raise click.UsageError(f"--failures-of {text!r}: write N/RUNS, such as 3/5.")
    return {"failures": int(failures), "runs": int(runs)}


def _quiet(text: str) -> Json:
    times, _, zone = text.partition("@")
    begin, sign, end = times.partition("-")
    if not sign:
        raise click.UsageError(f"--quiet {text!r}: write FROM-TO[@ZONE], such as 22:00-07:00@Europe/Berlin.")
    return {"from": begin, "to": end, **({"timezone": zone} if zone else {})}


def _escalate(text: str) -> Json:
    after, sign, names = text.partition(":")
    if not sign or not names:
        raise click.UsageError(f"--escalate {text!r}: write DURATION:CHANNEL,…, such as 30m:boss.")
    return {"after": after, "channels": names.split(",")}


def _scope(rule: Json) -> str:
    if rule["jobs"]:
        return f"{len(rule['jobs'])} job" + ("s" if len(rule["jobs"]) > 1 else "")
    return labels_text(rule["labels"]) if rule["labels"] else "all jobs"


def _span(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:g} s"


def _show(session: Session, rule: Json) -> None:
    if session.as_json:
        session.show_json(rule)
        return
    quiet, escalate, of = rule["quiet"], rule["escalate"], rule["failures_of"]
    fields = {
        "name": rule["name"],
        "is": "on" if rule["enabled"] else "off",
        "on": " ".join(rule["on"]),
        "of": _scope(rule),
        "tells": " ".join(rule["channels"]) or "nobody: its channels were removed",
        "severity": rule["severity"],
        "after": _span(rule["after"]),
        "in a row": rule["in_a_row"] and str(rule["in_a_row"]),
        "failures of": of and f"{of['failures']} of {of['runs']}",
        "attempts": rule["attempts"] and str(rule["attempts"]),
        "group": _span(rule["group"]),
        "repeat": _span(rule["repeat"]),
        "quiet": quiet and f"{quiet['from']} to {quiet['to']} {quiet['timezone']}",
        "escalate": escalate and f"after {escalate['after']:g} s to {' '.join(escalate['channels'])}",
        "id": rule["rule_id"],
    }
    output.record(session, fields)


def _show_preview(session: Session, found: Json) -> None:
    if session.as_json:
        session.show_json(found)
        return
    jobs: Sequence[Json] = found["sample"]
    names = ", ".join(each["name"] for each in jobs[:5])
    session.say(
        f"It would concern {found['jobs']} jobs{': ' + output.safe(names) if names else ''}. Nothing is stored."
    )
    counts = ", ".join(f"{count} {event}" for event, count in sorted(found["counts"].items()))
    newest = "the newest " if found["more"] else ""
    session.say(f"Of {newest}{found['runs']} runs of the last 24 hours it would have counted {counts or 'nothing'}.")
    if found["not_judged"]:
        session.say(f"A preview says nothing of: {' '.join(found['not_judged'])}.")
