"""`tickwise keys …`: the keys of the server: their permissions, their secrets, and their expiry."""

from __future__ import annotations

from typing import Any, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.labels import labels_text, read_labels
from tickwise.cli.lookup.endings import listed_id
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Session, list_options, view_options

ENDS_SOON_SECONDS: Final = 14 * 86_400.0
"""A list warns of keys that expire within this time: a sprint is enough to replace one."""


@click.group()
def keys() -> None:
    """Make, list, rotate and revoke API keys."""


@keys.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_keys(session: Session, limit: int) -> None:
    """List keys, newest first, also those that are revoked or have expired.

    An administrator of the installation sees the keys of all namespaces, or of the one that --namespace names.
    """
    found, more = first_of(session, "/keys", {"namespace": session.client.namespace}, limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            session.short(key["key_id"]),
            key["name"],
            " ".join(key["namespaces"]),
            _permissions(key),
            f"{key['prefix']}…" if key["prefix"] else key["origin"],
            session.age(key["last_used_at"], seen_at=seen_at) if key["last_used_at"] else "never",
            _standing(session, key, seen_at),
        )
        for key in found
    ]
    output.table(
        session, ("KEY", "NAME", "IN", "PERMISSIONS", "BEGINS", "LAST USED", "IS"), rows, empty="No keys.", more=more
    )
    for key in found:
        if _ends_soon(key, seen_at):
            ends = session.time(key["expires_at"], seen_at=seen_at)
            session.note(f"Key {key['key_id']} ({key['name']}) expires {ends}: make another one for its programs.")


def _key_id(session: Session, text: str) -> str:
    return listed_id(session, "/keys", "key_id", text, namespace=session.client.namespace)


def _ends_soon(key: dict[str, Any], seen_at: float) -> bool:
    if key["revoked_at"] or not key["expires_at"]:
        return False
    left = (moments.instant(key["expires_at"]) or 0.0) - seen_at
    return 0.0 < left <= ENDS_SOON_SECONDS


def _permissions(key: dict[str, Any]) -> str:
    said, labels = " ".join(key["scopes"]), key.get("labels")
    return f"{said} for {labels_text(labels)}" if labels else said


def _standing(session: Session, key: dict[str, Any], seen_at: float) -> str:
    if key["revoked_at"]:
        return f"revoked {session.age(key['revoked_at'], seen_at=seen_at)}"
    text = "good"
    if key["expires_at"]:
        expired = (moments.instant(key["expires_at"]) or 0.0) <= seen_at
        text = f"{'expired' if expired else 'good until'} {session.time(key['expires_at'], seen_at=seen_at)}"
    if key.get("earlier_secret_until"):  # absent: a server of the release before
        text += f", its earlier secret until {session.time(key['earlier_secret_until'], seen_at=seen_at)}"
    return text


@keys.command()
@click.argument("name")
@click.option("--role", help="Its permissions by a role: viewer, operator, developer or admin.")
@click.option(
    "--permission", "--scope", "permissions", multiple=True, help="One permission, such as jobs:write; * is everything."
)
@click.option(
    "--in", "places", multiple=True, metavar="NAMESPACE",
    help="A namespace in which it works; `*`: all of them, and the installation.  [that of the command]",
)  # fmt: skip
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE",
    help="Only for jobs with this label, their runs and logs; repeat it for jobs with several.",
)  # fmt: skip
@click.option(
    "--expires", metavar="TIME",
    help="Expires then: 90d, 'tomorrow 10:00', ten years at most.  [with the key that makes it]",
)  # fmt: skip
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
    session.note(f"Key {made['key_id']} is made. Its secret is shown only once:")
    click.echo(made["key"])


@keys.command()
@click.argument("key_id", metavar="KEY")
@click.option(
    "--overlap", metavar="DURATION", help="How long the present secret works beside the new one; 0s: no longer.  [1d]"
)
@view_options
@click.pass_obj
def rotate(session: Session, key_id: str, overlap: str | None) -> None:
    """Give a key another secret, and show it once; KEY is its id.

    The key stays the same: id, permissions, namespaces, expiry. A key may rotate itself.
    """
    seconds = None if overlap is None else work.duration_seconds("--overlap", overlap)
    work.blame(session, "/overlap_seconds", "--overlap", overlap or "")
    rotated = session.client.key_rotate(_key_id(session, key_id), seconds)
    if session.as_json:
        session.show_json(rotated)
        return
    until = rotated["earlier_secret_until"]
    rest = f"works until {session.time(until, seen_at=moments.now())}" if until else "works no more"
    session.note(f"Key {rotated['key_id']} has another secret; the one before {rest}. It is shown only once:")
    click.echo(rotated["key"])


@keys.command()
@click.argument("key_id", metavar="KEY")
@view_options
@click.pass_obj
def revoke(session: Session, key_id: str) -> None:
    """Revoke a key permanently; KEY is its id."""
    gone = session.client.key_revoke(_key_id(session, key_id))
    if session.as_json:
        session.show_json(gone)
        return
    session.say(f"Key {gone['key_id']} ({gone['name']}) is revoked.")
