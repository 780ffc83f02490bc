"""`tickwise namespaces …`: the tenants of an installation."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.session import Session, list_options, view_options

LOOK_SECONDS: Final = 0.5
HTTP_FORBIDDEN: Final = 403
HTTP_NOT_FOUND: Final = 404

Json = dict[str, Any]


@click.group()
def namespaces() -> None:
    """Add, close and remove namespaces."""


@namespaces.command("list")
@list_options
@click.pass_obj
def list_namespaces(session: Session) -> None:
    """List namespaces by name: all for an administrator of the installation, else your own."""
    found = [each for page in session.client.pages("/namespaces", {"limit": 500}) for each in page]
    if session.as_json:
        session.show_json(found)
        return
    rows = [(each["name"], each["display_name"], each["state"], session.time(each["created_at"])) for each in found]
    output.table(session, ("NAMESPACE", "DISPLAYED AS", "IS", "ADDED"), rows, empty="No namespaces.")


@namespaces.command()
@click.argument("name")
@click.option("--display-name", help="A name for people to read.")
@view_options
@click.pass_obj
def add(session: Session, name: str, display_name: str | None) -> None:
    """Add a namespace; NAME has small letters, digits and hyphens."""
    body: Json = {"name": name}
    if display_name is not None:
        body["display_name"] = display_name
    work.blame(session, "/name", "NAME", name)
    work.blame(session, "/display_name", "--display-name", display_name or "")
    was_there = _is_there(session, name)
    added = session.client.request("POST", "/namespaces", body=body).body
    if was_there:
        session.note(f"The namespace {name} is there already; nothing is added.")
    _show(session, added)


def _is_there(session: Session, name: str) -> bool:
    from tickwise.sdk.client import ProblemError

    try:
        session.client.request("GET", _path(name))
    except ProblemError as error:
        if error.status not in (HTTP_FORBIDDEN, HTTP_NOT_FOUND):
            raise
        return False
    return True


@namespaces.command()
@click.argument("name")
@view_options
@click.pass_obj
def show(session: Session, name: str) -> None:
    """Show a namespace."""
    _show(session, session.client.request("GET", _path(name)).body)


@namespaces.command()
@click.argument("name")
@click.option("--display-name", required=True, help="A name for people to read.")
@view_options
@click.pass_obj
def change(session: Session, name: str, display_name: str) -> None:
    """Change the displayed name of a namespace."""
    work.blame(session, "/display_name", "--display-name", display_name)
    _show(session, session.client.request("PATCH", _path(name), body={"display_name": display_name}).body)


@namespaces.command()
@click.argument("name")
@click.option("--jobs", metavar="N", help="Active jobs that last: recurring, on demand, with a key, or far ahead.")
@click.option("--runs-per-day", metavar="N", help="Runs that are asked for in a day of UTC, fires of schedules too.")
@click.option("--bytes", metavar="N", help="Bytes of the definitions of these jobs, and of stored tasks.")
@click.option("--lanes", metavar="N", help="Combinations of queue, priority and required labels.")
@click.option("--calendars", metavar="N", help="Calendars.")
@click.option("--windows", metavar="N", help="Maintenance windows.")
@click.option("--concurrent-runs", metavar="N", help="Runs at once; further ones wait.")
@click.option("--requests-per-second", metavar="R", help="Requests a second, in place of the setting for all.")
@click.option(
    "--min-isolation", type=click.Choice(("sandbox", "container", "process", "none")),
    help="The lowest isolation of python and shell tasks; runs of jobs below it wait.",
)  # fmt: skip
@view_options
@click.pass_obj
def quota(session: Session, /, name: str, **given: str | None) -> None:
    """Show the quotas of a namespace and what it uses of them, or set some. `none` removes a quota; quotas that
    are not named stay."""
    wanted = {field: value for field, value in given.items() if value is not None}
    if wanted:
        kept: Json = session.client.request("GET", f"{_path(name)}/quotas").body
        body = {field: value for field, value in kept.items() if field != "version" and value is not None}
        body["expected_version"] = kept["version"]
        for field, text in wanted.items():
            option = f"--{field.replace('_', '-')}"
            work.blame(session, f"/{field}", option, text)
            body[field] = _amount(option, text) if field != LEAST_ISOLATION else None if text == "none" else text
        session.client.request("PUT", f"{_path(name)}/quotas", body=body)
    _show_usage(session, session.client.request("GET", f"{_path(name)}/usage").body)


@namespaces.command()
@click.argument("name")
@view_options
@click.pass_obj
def close(session: Session, name: str) -> None:
    """Close a namespace: it takes nothing new, and what is there goes on. It can be opened again, or removed."""
    _show(session, session.client.request("PATCH", _path(name), body={"state": "closing"}).body)


@namespaces.command("open")
@click.argument("name")
@view_options
@click.pass_obj
def reopen(session: Session, name: str) -> None:
    """Open a namespace that was closed."""
    _show(session, session.client.request("PATCH", _path(name), body={"state": "active"}).body)


@namespaces.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@view_options
@click.pass_obj
def remove(session: Session, name: str, yes: bool, no_wait: bool) -> None:
    """Remove a namespace with all that it holds: jobs, history, logs, keys, members. This cannot be undone.

    An open namespace is closed first. Repeat the command to watch a removal that has begun."""
    found = session.client.request("GET", _path(name)).body
    if found["state"] != "removing":
        if not yes and not _is_sure(session, name):
            session.say("Nothing is done.")
            return
        if found["state"] != "closing":
            session.client.request("PATCH", _path(name), body={"state": "closing"})
        found = session.client.request("DELETE", _path(name)).body
    if not no_wait:
        found = _watch(session, found)
    if session.as_json:
        session.show_json(found)
    elif no_wait:
        session.say(f"The namespace {name} is being removed. See what is left with: tickwise namespaces show {name}")
    else:
        session.say(f"The namespace {name} is removed.")


def _is_sure(session: Session, name: str) -> bool:
    if session.as_json or not sys.stdin.isatty():
        raise click.UsageError("this deletes all that the namespace holds: add --yes to skip the question.")
    return click.confirm(f"Remove the namespace {name}, and all that it holds, for good?", err=True)


def _watch(session: Session, found: Json) -> Json:
    """Wait until it is gone, and tell on a terminal what is left; its last state."""
    from tickwise.sdk.client import ProblemError

    told = ""
    while True:
        told = _tell(session, found, told)
        moments.pause(LOOK_SECONDS)
        try:
            found = session.client.request("GET", _path(found["name"])).body
        except ProblemError as error:
            if error.status != HTTP_NOT_FOUND:
                raise
            if told:
                click.echo(err=True)
            return found
        if found["state"] != "removing":  # it is gone, and there is another one of its name
            return found


def _tell(session: Session, found: Json, told: str) -> str:
    """Tell how much is left, in place of what was told before."""
    text = _left(found)
    if session.as_json or not sys.stderr.isatty() or text == told:
        return told
    click.echo(f"\r{text.ljust(len(told))} ", nl=False, err=True)
    return text


def _left(found: Json) -> str:
    left = found.get("left")
    if not left:
        return ""
    return f"{left['jobs']} jobs, {left['unfinished_runs']} runs to stop, {left['ended_runs']} ended runs"


def _path(name: str) -> str:
    from urllib.parse import quote

    return f"/namespaces/{quote(name, safe='')}"


LEAST_ISOLATION: Final = "min_isolation"
"""A quota that is no number."""
ESTIMATED: Final = ("jobs", "bytes")
"""Estimated quotas: grown from a sample where there are very many jobs."""


def _amount(option: str, text: str) -> float | int | None:
    """A quota as it was written."""
    if text == "none":
        return None
    try:
        return float(text) if option == "--requests-per-second" else int(text.replace("_", ""))
    except ValueError:
        raise click.BadParameter(f"write a number, or none, not {text!r}", param_hint=option) from None


def _quota_text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def _show_usage(session: Session, found: Json) -> None:
    if session.as_json:
        session.show_json(found)
        return
    quotas, used = found["quotas"], {**found, "runs_per_day": found["runs_today"], "requests_per_second": None}
    used[LEAST_ISOLATION] = None
    rows = [
        (
            field.replace("_", " "),
            "-" if used[field] is None else f"{'about ' * (used['is_estimate'] and field in ESTIMATED)}{used[field]:,}",
            "none" if quotas[field] is None else _quota_text(quotas[field]),
        )
        for field in quotas
        if field != "version"
    ]
    output.table(session, ("QUOTA", "USED", "MOST"), rows, empty="")


def _show(session: Session, found: Json) -> None:
    if session.as_json:
        session.show_json(found)
        return
    output.record(
        session,
        {
            "namespace": found["name"],
            "displayed as": found["display_name"],
            "is": found["state"],
            "left": _left(found),
            "added": session.time(found["created_at"]) + (f" by {found['created_by']}" if found["created_by"] else ""),
        },
    )
