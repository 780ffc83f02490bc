"""`tickwise users roles …`: the roles that people can have in a namespace, and those of its own."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from tickwise.cli import output, work
from tickwise.cli.labels import labels_text, read_labels
from tickwise.cli.session import Decorated, Session, list_options, view_options

Json = dict[str, Any]


@click.group()
def roles() -> None:
    """Look at the roles that people can have, and make custom ones: sets of permissions with a name.

    The processes of an installation (API, scheduler, executor) are listed by `tickwise roles list`.
    """


def _in_option(command: Decorated) -> Decorated:
    return click.option(
        "--in", "place", metavar="NAMESPACE",
        help="The namespace that the role belongs to; `*` is each one.  [that of the command]",
    )(command)  # fmt: skip


@roles.command("list")
@_in_option
@list_options
@click.pass_obj
def list_roles(session: Session, place: str | None) -> None:
    """List the roles that people can have in a namespace: the built-in ones, then its own."""
    found: list[Json] = session.client.request("GET", _path(session, place)).body
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            each["name"],
            "built-in" if each["built_in"] else "custom",
            " ".join(each["permissions"]),
            labels_text(each["labels"]),
        )
        for each in found
    ]
    output.table(session, ("ROLE", "IS", "PERMISSIONS", "FOR JOBS WITH"), rows, empty="")


@roles.command("set")
@click.argument("name")
@click.option(
    "--permission", "permissions", multiple=True, required=True,
    help="One permission, such as jobs:read; repeat it for more. `*` is everything.",
)  # fmt: skip
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE",
    help="Only for jobs with this label, their runs and logs; repeat it for jobs with several.",
)  # fmt: skip
@_in_option
@view_options
@click.pass_obj
def set_role(
    session: Session, name: str, permissions: tuple[str, ...], labels: tuple[str, ...], place: str | None
) -> None:
    """Make a custom role, or replace its permissions and labels. `tickwise users change PERSON --role NAME` gives it.

    \b
    tickwise users roles set rerunner --permission jobs:read --permission runs:read --permission runs:write
    """
    body: Json = {"permissions": list(permissions)}
    if labels:
        body["labels"] = read_labels(labels)
    work.blame(session, "/name", "NAME", name)
    work.blame(session, "/permissions", "--permission", " ".join(permissions))
    for number, permission in enumerate(permissions):
        work.blame(session, f"/permissions/{number}", "--permission", permission)
    work.blame(session, "/labels", "--label", " ".join(labels))
    answer = session.client.request("PUT", _path(session, place, name), body=body)
    if session.as_json:
        session.show_json(answer.body)
        return
    done = "is made" if answer.status == 201 else "is replaced"
    session.say(f"The role {name} {done}. Give it with: tickwise users change PERSON --role {name}")


@roles.command()
@click.argument("name")
@_in_option
@view_options
@click.pass_obj
def remove(session: Session, name: str, place: str | None) -> None:
    """Remove a custom role that no person has."""
    gone = session.client.request("DELETE", _path(session, place, name)).body
    if session.as_json:
        session.show_json(gone)
        return
    session.say(f"The role {name} is removed.")


def _path(session: Session, place: str | None, name: str | None = None) -> str:
    """The address of a namespace's roles, or of one of them."""
    namespace = place or session.client.namespace or "default"
    below = "" if name is None else f"/{quote(name, safe='')}"
    return f"/namespaces/{quote(namespace, safe='*')}/roles{below}"
