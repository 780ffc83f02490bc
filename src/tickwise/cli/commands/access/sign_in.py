"""`tickwise login`, `logout`, `whoami`: the sign-in of this user at a server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from tickwise.cli import output, work
from tickwise.cli.commands.access.device_sign_in import sign_in_by_browser
from tickwise.cli.commands.access.second_factors import second_step
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.labels import labels_text
from tickwise.cli.passwords import password_option, read_password
from tickwise.cli.session import Session, server_options, view_options
from tickwise.sdk.client import ProblemError


@click.command()
@click.argument("name", required=False)
@click.option("--sso", "by_browser", is_flag=True, help="Sign in with a browser, on this machine or another one.")
@click.option("--no-browser", is_flag=True, help="With --sso: open no browser.")
@password_option
@click.option("--code", metavar="CODE", help="The code of your app, or a recovery code, if you have a second factor.")
@server_options
@click.pass_obj
def login(
    session: Session, name: str | None, by_browser: bool, no_browser: bool, from_stdin: bool, code: str | None
) -> None:
    """Sign in at a server; NAME is your name or e-mail.

    With --sso the terminal shows a code, which you approve in a browser where you are signed in: by a password or by
    your organisation's provider.

    Later commands for this server use the sign-in, until `tickwise logout`; a key that is given comes first. It is
    stored in ~/.config/tickwise/sign-ins.json, which only you can read. Programs use keys (tickwise keys create) or
    the tokens of their pipeline (tickwise federations add)."""
    if by_browser and (name is not None or from_stdin):
        raise click.UsageError("--sso takes neither NAME nor a password: you sign in with the browser.")
    session.guard_password()
    if name is None and not by_browser:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "there is no terminal to type a name on; give it: tickwise login NAME, or say --sso."
            )
        name = _asked_name(session)
    if name is None:
        tokens = sign_in_by_browser(session, opens_browser=not no_browser)
    else:
        tokens = _by_password(session, name, code, from_stdin=from_stdin)
    _keep(session, tokens)


def _asked_name(session: Session) -> str | None:
    """The name that a person types; None: they sign in in a browser, or have to."""
    try:
        with session.keyless_client() as client:
            ways = client.request("GET", "/auth/providers").body
    except ProblemError:
        ways = {}  # a server of an earlier release
    if ways.get("passwords") == "off":
        return None
    provider = next((each["button"] for each in ways.get("providers", ())), "sign in in a browser")
    prompt = f"Name or e-mail (nothing: {provider})"
    return str(click.prompt(prompt, err=True, default="", show_default=False)) or None


def _by_password(session: Session, name: str, code: str | None, *, from_stdin: bool) -> Mapping[str, Any]:
    url = session.target.url
    password = read_password(f"Password of {name} at {url}", from_stdin=from_stdin)
    work.blame(session, "/username", "NAME", name)
    body = {"grant_type": "password", "username": name, "password": password}
    try:
        with session.keyless_client() as client:
            tokens: Mapping[str, Any] = client.request("POST", "/auth/token", body=body).body
    except ProblemError as refused:
        if refused.code != "second_factor_required":
            raise
        tokens = second_step(session, refused, code)
    return tokens


def _keep(session: Session, tokens: Mapping[str, Any]) -> None:
    """Store a sign-in, and say so."""
    url, user = session.target.url, tokens["user"]
    session.sign_ins.keep(url, user["name"], tokens)
    if session.as_json:
        session.show_json({"url": url, "user": user})
        return
    roles = ", ".join(role_text(each) for each in user["roles"]) or "none yet; ask an administrator for one"
    session.say(f"Signed in at {url} as {user['name']}. Roles: {roles}.")


def role_text(member: dict[str, Any]) -> str:
    """A role as the command line writes it."""
    labels = member.get("labels")
    return f"{member['role']}@{member['namespace']}{f':{labels_text(labels)}' if labels else ''}"


@click.command()
@server_options
@click.pass_obj
def logout(session: Session) -> None:
    """Sign out of a server, and delete the sign-in here."""
    url = session.target.url
    found = session.sign_ins.get(url)
    if found is None:
        raise CommandFailure(f"you are not signed in at {url}.", Exit.NOT_FOUND)
    with session.keyless_client() as client:
        client.request("POST", "/auth/revoke", body={"token": found.refresh_token})
    session.sign_ins.remove(found.url)
    if session.as_json:
        session.show_json({"url": found.url, "user": found.name})
        return
    session.say(f"Signed out at {found.url}.")


def _restricted(grant: dict[str, Any]) -> str:
    return f"{' '.join(grant['permissions'])} for {labels_text(grant['labels'])}"


@click.command()
@view_options
@click.pass_obj
def whoami(session: Session) -> None:
    """Show your identity at the server, and your permissions in the namespace."""
    try:
        found = session.client.request("GET", "/auth/me").body
    except ProblemError as refused:
        if refused.status == 401:
            session.note(f"{session.target.url} does not know you.")
        raise
    if session.as_json:
        session.show_json(found)
        return
    output.record(
        session,
        {
            "name": found["name"],
            "server": session.target.url,
            "namespace": found["namespace"],
            "permissions": " ".join(found["permissions"]),
            "for some jobs": "; ".join(map(_restricted, found.get("restricted", ()))),
            "key": found["key_id"],
            "user": found["user_id"],
            "until": session.time(found["expires_at"]),
        },
    )
