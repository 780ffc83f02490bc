"""`tickwise keys …`: the keys of the server: their permissions, and their expiry."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from tickwise.cli import moments, output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.labels import labels_text, read_labels
from tickwise.cli.session import Session, view_options


@click.group()
def keys() -> None:
    """Make, list and revoke API keys."""


@keys.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@view_options
@click.pass_obj
def list_keys(session: Session, limit: int) -> None:
    """List keys, newest first, also those that are revoked or have expired.

    An administrator of the installation sees the keys of all namespaces, or of the one that --namespace names.
    """
    pages = session.client.pages("/keys", {"limit": min(limit, 500), "namespace": session.client.namespace})
    found = list(islice((key for page in pages for key in page), limit))
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            key["key_id"],
            key["name"],
            " ".join(key["namespaces"]),
            _permissions(key),
            f"{key['prefix']}…" if key["prefix"] else key["origin"],
            session.time(key["last_used_at"], seen_at=seen_at) if key["last_used_at"] else "never",
            _standing(session, key, seen_at),
        )
        for key in found
    ]
    output.table(session, ("KEY", "NAME", "IN", "PERMISSIONS", "BEGINS", "LAST USED", "IS"), rows, empty="No keys.")


def _permissions(key: dict[str, Any]) -> str:
    said, labels = " ".join(key["scopes"]), key.get("labels")
    return f"{said} for {labels_text(labels)}" if labels else said


def _standing(session: Session, key: dict[str, Any], seen_at: float) -> str:
    if key["revoked_at"]:
        return f"revoked {session.time(key['revoked_at'], seen_at=seen_at)}"
    if not key["expires_at"]:
        return "good"
    expired = (moments.instant(key["expires_at"]) or 0.0) <= seen_at
    return f"{'expired' if expired else 'good until'} {session.time(key['expires_at'], seen_at=seen_at)}"


@keys.command()
@click.argument("name")
@click.option("--role", help="Its permissions by a role: viewer, operator, developer or admin.")
@click.option(
    "--permission", "--scope", "permissions", multiple=True, help="One permission, such as jobs:write; * is everything."
)
@click.option(
    "--in", "places", multiple=True, metavar="NAMESPACE",
    help="A namespace in which it works; `*` is each one, and the installation.  [that of the command]",
)  # fmt: skip
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE",
    help="Only for jobs with this label, their runs and logs; repeat it for jobs with several.",
)  # fmt: skip
@click.option("--expires", metavar="TIME", help="Good until then: 90d, 'tomorrow 10:00'.  [with the key that asks]")
@view_options
@click.pass_obj
def create(
    session: Session,
    name: str,
    role: str | None,
    permissions: tuple[str, ...],
    places: tuple[str, ...],
    labels: tuple[str, ...],
    expires: str | None,
) -> None:
    """Make a key, at most as strong as your own, and show its secret once."""
    if bool(role) == bool(permissions):
        raise click.UsageError("give --role or --permission, one of both.")
    body: dict[str, Any] = {"name": name}
    if role:
        body["role"] = role
    else:
        body["permissions"] = list(permissions)
    if places:
        body["namespaces"] = list(places)
    if labels:
        body["labels"] = read_labels(labels)
        work.blame(session, "/labels", "--label", labels[-1])
    if expires is not None:
        body["expires_at"] = instant(session, "--expires", expires)
    work.blame(session, "/name", "NAME", name)
    work.blame(session, "/expires_at", "--expires", expires or "")
    work.blame(session, "/role", "--role", role or "")
    for number, permission in enumerate(permissions):
        work.blame(session, f"/permissions/{number}", "--permission", permission)
    for number, place in enumerate(places):
        work.blame(session, f"/namespaces/{number}", "--in", place)
    made = session.client.key_make(body)
    if session.as_json:
        session.show_json(made)
        return
    session.note(f"Key {made['key_id']} is made. Its secret is shown this once:")
    click.echo(made["key"])


@keys.command()
@click.argument("key_id", metavar="KEY")
@view_options
@click.pass_obj
def revoke(session: Session, key_id: str) -> None:
    """Revoke a key for ever; KEY is its id."""
    gone = session.client.key_revoke(key_id)
    if session.as_json:
        session.show_json(gone)
        return
    session.say(f"Key {gone['key_id']} ({gone['name']}) is revoked.")
