"""`tickwise namespaces …`: the tenants of an installation."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import output, work
from tickwise.cli.session import Session, view_options

Json = dict[str, Any]


@click.group()
def namespaces() -> None:
    """Add, close and remove namespaces."""


@namespaces.command("list")
@view_options
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
    _show(session, session.client.request("POST", "/namespaces", body=body).body)


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
@click.option("--requests-per-second", metavar="R", help="Requests a second, in place of the setting for all.")
@view_options
@click.pass_obj
def quota(session: Session, /, name: str, **given: str | None) -> None:
    """Show the quotas of a namespace and what it uses of them, or set some. `none` takes a quota away; those that are
    not named stay."""
    wanted = {field: value for field, value in given.items() if value is not None}
    if wanted:
        kept: Json = session.client.request("GET", f"{_path(name)}/quotas").body
        body = {field: value for field, value in kept.items() if field != "version" and value is not None}
        body["expected_version"] = kept["version"]
        for field, text in wanted.items():
            option = f"--{field.replace('_', '-')}"
            work.blame(session, f"/{field}", option, text)
            body[field] = _amount(option, text)
        session.client.request("PUT", f"{_path(name)}/quotas", body=body)
    _show_usage(session, session.client.request("GET", f"{_path(name)}/usage").body)


@namespaces.command()
@click.argument("name")
@view_options
@click.pass_obj
def close(session: Session, name: str) -> None:
    """Close a namespace: it takes nothing new, and can be removed once it is empty."""
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
@view_options
@click.pass_obj
def remove(session: Session, name: str) -> None:
    """Remove a namespace that is closed and holds no job, run, key or member."""
    gone = session.client.request("DELETE", _path(name)).body
    if session.as_json:
        session.show_json(gone)
        return
    session.say(f"The namespace {gone['name']} is removed.")


def _path(name: str) -> str:
    from urllib.parse import quote

    return f"/namespaces/{quote(name, safe='')}"


def _amount(option: str, text: str) -> float | int | None:
    """A quota as it was written."""
    if text == "none":
        return None
    try:
        return float(text) if option == "--requests-per-second" else int(text.replace("_", ""))
    except ValueError:
        raise click.BadParameter(f"write a number, or none, not {text!r}", param_hint=option) from None


def _show_usage(session: Session, found: Json) -> None:
    if session.as_json:
        session.show_json(found)
        return
    quotas, used = found["quotas"], {**found, "runs_per_day": found["runs_today"], "requests_per_second": None}
    rows = [
        (
            field.replace("_", " "),
            "-" if used[field] is None else f"{used[field]:,}",
            "none" if quotas[field] is None else f"{quotas[field]:,}",
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
            "added": f"{session.time(found['created_at'])} by {found['created_by']}",
        },
    )
