"""`tickwise identity-keys …`: the keys that sign the identity tokens of runs."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import moments, output
from tickwise.cli.session import Session, list_options, view_options

Json = dict[str, Any]
ALGORITHMS = ("RS256", "EdDSA")


@click.group("identity-keys")
def identity_keys() -> None:
    """Look at the keys of identity tokens, and rotate them.

    For administrators of the installation. Clouds and Vault read the public halves below its address, at
    /.well-known/openid-configuration.
    """


@identity_keys.command("list")
@list_options
@click.pass_obj
def list_keys(session: Session) -> None:
    """List the published keys, by algorithm, the oldest first."""
    found: list[Json] = session.client.request("GET", "/auth/identity-keys").body
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            each["kid"],
            each["algorithm"],
            session.age(each["created_at"], seen_at=seen_at),
            session.age(each["signs_at"], seen_at=seen_at),
        )
        for each in found
    ]
    empty = "There is no key yet: the first job with an identity token makes one."
    output.table(session, ("KEY", "ALGORITHM", "MADE", "SIGNS SINCE"), rows, empty=empty)


@identity_keys.command("rotate")
@click.option(
    "--algorithm", type=click.Choice(ALGORITHMS), default="RS256", show_default=True,
    help="The algorithm that gets another key.",
)  # fmt: skip
@click.option(
    "--at-once", is_flag=True,
    help="Sign with it now, and stop publishing the others: for a key that leaked.",
)  # fmt: skip
@view_options
@click.pass_obj
def rotate(session: Session, algorithm: str, at_once: bool) -> None:
    """Make another key. It is published now and signs 15 minutes later; the one before stays for as long as its tokens.

    With --at-once, all tokens that earlier keys signed are refused as soon as their verifiers read the keys again.
    """
    body: Json = {"algorithm": algorithm, "at_once": at_once}
    made: Json = session.client.request("POST", "/auth/identity-keys:rotate", body=body).body
    if session.as_json:
        session.show_json(made)
        return
    when = "It signs now." if at_once else "It is published now, and signs in 15 minutes."
    session.say(f"The key {made['kid']} is made. {when}")
