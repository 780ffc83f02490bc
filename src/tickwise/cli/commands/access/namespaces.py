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
