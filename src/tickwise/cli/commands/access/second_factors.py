"""`tickwise second-factors …`: the second factors of this user at a server."""

from __future__ import annotations

import sys
from typing import Any

import click

from tickwise.cli import moments, output, work
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.passwords import password_option, read_password
from tickwise.cli.session import Session, list_options, server_options
from tickwise.sdk.client import ProblemError

Json = dict[str, Any]
_PATH = "/auth/second-factors"


@click.group("second-factors")
def second_factors() -> None:
    """Enrol, list and remove your second factors. Passkeys are made in the pages, under Security."""


@second_factors.command("list")
@list_options
@click.pass_obj
def list_factors(session: Session) -> None:
    """List your second factors, the oldest first."""
    found = session.client.request("GET", _PATH).body
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            each["name"],
            "passkey" if each["kind"] == "passkey" else "codes",
            session.time(each["created_at"], seen_at=seen_at),
            session.time(each["used_at"], seen_at=seen_at) if each["used_at"] else "never",
            "there may be a copy: remove it" if each["suspected_at"] else "good",
        )
        for each in found["factors"]
    ]
    output.table(session, ("NAME", "KIND", "ADDED", "USED", "IS"), rows, empty="No second factors.")
    if rows:
        session.say(f"{found['recovery_codes_left']} of 10 recovery codes are left.")


@second_factors.command("add")
@click.option("--name", default="phone", show_default=True, help="A name for the app.")
@server_options
@click.pass_obj
def add_codes(session: Session, name: str) -> None:
    """Enrol an app with codes (TOTP), on a terminal. With the first one, recovery codes are printed, and all your
    sessions end."""
    session.guard_password()
    password = read_password("Your password", from_stdin=False)
    work.blame(session, "/name", "--name", name)
    begun = session.client.request("POST", _PATH, body={"password": password, "name": name}).body
    import segno

    session.note("Scan this with the app, or type the key into it:")
    _draw(segno.make(begun["otpauth_link"], error="l", micro=False))
    session.note(f"Key: {begun['seed_secret']}")
    code = read_code("The code that the app shows")
    made = session.client.request("POST", f"{_PATH}/{begun['factor_id']}/confirm", body={"code": code}).body
    _show_codes(session, made["recovery_codes"], f"{name} is enrolled.")
    if made["recovery_codes"]:
        session.note(f"Sign in again: tickwise login --url {session.target.url}")


@second_factors.command("remove")
@click.argument("name")
@password_option
@server_options
@click.pass_obj
def remove_factor(session: Session, name: str, from_stdin: bool) -> None:
    """Remove the second factor NAME."""
    factor = _found(session, name)
    session.guard_password()
    password = read_password("Your password", from_stdin=from_stdin)
    found = session.client.request("POST", f"{_PATH}/{factor['factor_id']}/remove", body={"password": password}).body
    _done(session, found, f"{name} is removed.")


@second_factors.command("rename")
@click.argument("name")
@click.argument("new_name")
@password_option
@server_options
@click.pass_obj
def rename_factor(session: Session, name: str, new_name: str, from_stdin: bool) -> None:
    """Give the second factor NAME another name."""
    factor = _found(session, name)
    session.guard_password()
    body = {"password": read_password("Your password", from_stdin=from_stdin), "name": new_name}
    work.blame(session, "/name", "NEW_NAME", new_name)
    _done(session, session.client.request("PATCH", f"{_PATH}/{factor['factor_id']}", body=body).body, "Renamed.")


@second_factors.command("recovery-codes")
@password_option
@server_options
@click.pass_obj
def recovery_codes(session: Session, from_stdin: bool) -> None:
    """Make ten recovery codes; earlier ones stop working."""
    session.guard_password()
    body = {"password": read_password("Your password", from_stdin=from_stdin)}
    made = session.client.request("POST", "/auth/recovery-codes", body=body).body
    _show_codes(session, made["recovery_codes"], "")


def second_step(session: Session, refused: ProblemError, code: str | None) -> Json:
    """The tokens of a sign-in whose password was right, by a code that is asked for; `code`: one that was given.

    Raises `CommandFailure`, `ProblemError`."""
    problem = dict(refused.problem)
    kinds = set(problem.get("factors") or ())
    if not kinds & {"totp", "recovery_code"}:
        raise CommandFailure(
            "your second factor is a passkey, and no recovery codes are left: a passkey works in the pages alone.",
            Exit.REFUSED,
            advice="Sign in to the pages, and make recovery codes or add an app with codes under Security.",
        )
    prompt = "Code of your app, or a recovery code" if "totp" in kinds else "Recovery code"
    body = {"grant_type": "second_factor", "challenge": problem["challenge"]}
    while True:
        shown = read_code(prompt) if code is None else code
        try:
            with session.keyless_client() as client:
                tokens: Json = client.request("POST", "/auth/token", body={**body, "code": shown}).body
        except ProblemError as wrong:
            if wrong.code != "second_factor_wrong" or code is not None:
                raise
            session.note("This code is wrong, or was used before.")
        else:
            return tokens


def read_code(prompt: str) -> str:
    """A code that a person types. Raises `click.UsageError` where there is no terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to type a code on; give it with --code, or use a key.")
    return str(click.prompt(prompt, err=True)).strip()


def _draw(picture: Any) -> None:
    """A QR code in the characters of a terminal, beside the result."""
    picture.terminal(out=sys.stderr, compact=True)


def _found(session: Session, name: str) -> Json:
    factors: list[Json] = session.client.request("GET", _PATH).body["factors"]
    found = [each for each in factors if name in (each["name"], each["factor_id"])]
    if len(found) != 1:
        what = (
            "several second factors have this name; give the id of one" if found else "you have no such second factor"
        )
        raise CommandFailure(f"{what}: {name}.", Exit.NOT_FOUND, advice="See: tickwise second-factors list --json")
    return found[0]


def _done(session: Session, found: Json, text: str) -> None:
    if session.as_json:
        session.show_json(found)
        return
    session.say(text)


def _show_codes(session: Session, codes: list[str], text: str) -> None:
    if session.as_json:
        session.show_json({"recovery_codes": codes})
        return
    if text:
        session.say(text)
    if codes:
        session.note("Keep these recovery codes; each works once, and they are shown only once:")
        for code in codes:
            click.echo(code)
