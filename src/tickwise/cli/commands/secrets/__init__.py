"""`tickwise secrets …`: set, list and remove secrets, and rotate the key of the installation.

A value is typed unseen, piped, or in a file: arguments of a process can be read by every user of its machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from tickwise.cli import moments, output, work
from tickwise.cli.arguments import blot_out
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Session, json_option, list_options, view_options

Json = dict[str, Any]
VALUE_BYTES_MOST: Final = 1 << 20
IN_USE: Final = "secret_in_use"
USERS_SHOWN: Final = 20
"""Jobs and stored tasks that are named to a person."""
HOW: Final = (
    "A value is never an argument: every user of this machine could read it, and the shell keeps it. Type it at the "
    "prompt (tickwise secrets set NAME), pipe it (… | tickwise secrets set NAME), or name a file (--file). Nothing was "
    "sent."
)


@click.group()
def secrets() -> None:
    """Set, list and remove secrets, and rotate the key that encrypts them."""


def _refuse_values(_context: click.Context, _parameter: click.Parameter, value: Any) -> None:
    """Refuse a value in the arguments, and write over it there. Raises `click.UsageError`."""
    found = [value] if isinstance(value, str) else list(value or ())
    for each in found:
        blot_out(each)
    if found:
        raise click.UsageError(HOW)


def _name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """The name alone. Raises `click.UsageError` for `NAME=VALUE`."""
    if "=" in value:
        blot_out(value)
        raise click.UsageError(HOW)
    return value


@secrets.command("set")
@click.argument("name", callback=_name)
@click.argument("values", nargs=-1, metavar="", expose_value=False, callback=_refuse_values)
@click.option(
    "--value", hidden=True, expose_value=False, callback=_refuse_values, help="Refused: a value is never an argument."
)
@click.option("--file", "file", metavar="FILE", help="Take the value from a file, byte for byte.")
@view_options
@click.pass_obj
def set_secret(session: Session, name: str, file: str | None) -> None:
    """Set or replace a secret: typed at a prompt, piped, or from a file.

    One line end at the end of a piped value is removed; a file is taken byte for byte.

    tickwise secrets set db-password
    """
    _guard(session)
    plain = _typed(name) if file is None else _read(file)
    if not plain:
        raise click.UsageError("the value is empty; a secret has 1 byte at least.")
    if len(plain) > VALUE_BYTES_MOST:
        raise click.UsageError(f"the value has {len(plain):,} bytes; a secret has {VALUE_BYTES_MOST:,} at most.")
    work.blame(session, "", "NAME", name)
    made = session.client.request("PUT", _path(name), body=_body(plain)).body
    if session.as_json:
        session.show_json(made)
        return
    again = "" if made["version"] == 1 else " Tasks that start from now on get the new value."
    session.say(
        f"Secret {output.safe(made['name'])} is set, version {made['version']}.{again} In a task: secret:{made['name']}"
    )
    for warning in made.get("warnings") or ():
        session.note(f"Warning: {warning}")


@secrets.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_secrets(session: Session, limit: int) -> None:
    """List the secrets of the namespace, by name. No command shows a value."""
    found, more = first_of(session, "/secrets", {}, limit, page=50)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            each["name"],
            str(each["version"]),
            session.age(each["changed_at"], seen_at=seen_at),
            each["changed_by"],
            session.age(each["created_at"], seen_at=seen_at),
            str(each["jobs"]),
            _standing(each),
        )
        for each in found
    ]
    titles = ("NAME", "VERSION", "SET", "BY", "MADE", "JOBS", "IS")
    output.table(session, titles, rows, empty="No secrets.", more=more)


@secrets.command()
@click.argument("name")
@view_options
@click.pass_obj
def show(session: Session, name: str) -> None:
    """Show a secret, its versions, and the jobs and stored tasks that name it, without a value."""
    found = session.client.request("GET", _path(name)).body
    uses = session.client.request("GET", f"{_path(name)}/uses").body
    if session.as_json:
        session.show_json({**found, "uses": uses})
        return
    seen_at = moments.now()
    fields = {
        "name": found["name"],
        "in a task": f"secret:{found['name']}",
        "is": _standing(found),
        "sealed under": found["sealed_under"],
        "made": f"{session.time(found['created_at'], seen_at=seen_at)} by {found['created_by']}",
    }
    for each in found["versions"]:
        fields[f"version {each['version']}"] = f"{session.time(each['set_at'], seen_at=seen_at)} by {each['set_by']}"
    fields["used by"] = "; ".join(_users(uses)) or "no job, no stored task"
    output.record(session, fields)


@secrets.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if jobs or stored tasks name it: their runs fail from now on.")
@view_options
@click.pass_obj
def remove_secret(session: Session, name: str, force: bool) -> None:
    """Remove a secret with all of its versions.

    Tasks that name it fail at their next start. So if any do, they are named first, and a prompt asks; where nobody can
    answer, nothing is removed without --force.
    """
    from tickwise.sdk.client import ProblemError

    try:
        gone = _remove(session, name, force=force)
    except ProblemError as refusal:
        if refusal.code != IN_USE or session.as_json:
            raise
        used = refusal.detail.rpartition(". ")[0]
        if not sys.stdin.isatty():
            raise CommandFailure(
                f"{used}.", Exit.REFUSED,
                advice=f"  Take it out of them, or remove it all the same: tickwise secrets remove {name} --force",
            ) from None  # fmt: skip
        session.note(f"{used}.")
        if not click.confirm("Remove it all the same?", err=True):
            session.say("Nothing is done.")
            return
        gone = _remove(session, name, force=True)
    if session.as_json:
        session.show_json(gone)
        return
    session.say(f"Secret {output.safe(gone['name'])} is removed.")


@secrets.command()
@view_options
@click.pass_obj
def keys(session: Session) -> None:
    """Show the keys of the installation, and the number of secrets under each.

    For administrators of the installation.
    """
    found = session.client.request("GET", "/secrets:keys").body
    if session.as_json:
        session.show_json(found)
        return
    rows = [(each["id"], str(each["secrets"]), _key_standing(each)) for each in found["keys"]]
    output.table(session, ("KEY", "SECRETS", "IS"), rows, empty="No key is set: tickwise secrets new-key makes one.")
    if found["lost"]:
        names = ", ".join(f"{each['namespace']}/{each['name']}" for each in found["lost"])
        session.note(f"These cannot be decrypted, for their key is not set: {names}. Set that key again, or set them.")


@secrets.command()
@click.option("--again", is_flag=True, help="Rewrap those under the newest key, too: a KMS has a newer version of it.")
@view_options
@click.pass_obj
def rewrap(session: Session, again: bool) -> None:
    """Encrypt the data keys of all secrets by the newest key of the installation.

    Then encrypt the secrets of channels and the seeds of second factors by it.

    Afterwards, earlier keys are no longer needed. The command can be stopped at any point and repeated.

    For administrators of the installation.
    """
    done, failed, after = 0, list[Json](), None
    while True:
        body: Json = {"again": again} if after is None else {"again": again, "after": after}
        step = session.client.request("POST", "/secrets:rewrap", body=body).body
        done, after = done + step["rewrapped"], step["next"]
        failed += step["failed"]
        if after is None:
            break
        session.note(f"{done} done …")
    if session.as_json:
        session.show_json({"rewrapped": done, "failed": failed})
    else:
        session.say(f"{done} secret{'' if done == 1 else 's'} under the newest key now.")
    for each in failed:
        session.note(f"{each['namespace']}/{each['name']}: {each['detail']}")
    if failed:
        raise CommandFailure(
            f"{len(failed)} could not be decrypted, and stay as they are.", Exit.REFUSED,
            advice="Set their key again behind the others, or set the secrets again: tickwise secrets set NAME",
        )  # fmt: skip


@secrets.command("new-key")
@json_option
@click.pass_obj
def new_key(session: Session) -> None:
    """Write a new key for an installation to stdout, and store nothing.

    tickwise secrets new-key > secrets.key
    """
    from tickwise.wiring.secret_keys import secrets_key

    key = secrets_key.new_key()
    if session.as_json:
        session.show_json({"key": key})
        return
    click.echo(key)
    session.note("Keep it where no other user reads it. Without it, no secret that it encrypted can be read.")


# ---------------------------------------------------------------------------------------------------- parts


def _remove(session: Session, name: str, *, force: bool) -> Json:
    gone: Json = session.client.request("DELETE", _path(name), query={"force": "true"} if force else None).body
    return gone


def _path(name: str) -> str:
    return f"/secrets/{quote(name, safe='')}"


def _guard(session: Session) -> None:
    """Before a value is asked for. Raises `CommandFailure` if it would leave this machine unencrypted."""
    from tickwise.sdk.client import travels_in_clear

    if not session.insecure and travels_in_clear(session.target.url):
        raise CommandFailure(
            f"a secret is not sent to {session.target.url}: it would travel unencrypted, and could be read.",
            Exit.REFUSED,
            advice="Use an address that begins with https://, or say --insecure where the way is private.",
        )


def _typed(name: str) -> bytes:
    """The value from the prompt, or from what is piped in."""
    if sys.stdin.isatty():
        found: str = click.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True)
        return found.encode(errors="surrogateescape")
    # One more than fits, and the line end.
    read = sys.stdin.buffer.read(VALUE_BYTES_MOST + 3)
    return read.removesuffix(b"\n").removesuffix(b"\r") if read.endswith(b"\n") else read


def _read(file: str) -> bytes:
    """The bytes of a file. Raises `click.UsageError`."""
    try:
        with Path(file).open("rb") as stream:
            return stream.read(VALUE_BYTES_MOST + 1)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}.") from None


def _body(plain: bytes) -> Json:
    try:
        return {"value": plain.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"value": b64encode(plain).decode(), "encoding": "base64"}


def _users(uses: Json) -> list[str]:
    """The jobs and stored tasks that name a secret, and the number of the others."""
    named = [f"job {output.safe(each['name'])} ({each['key'] or each['job_id']})" for each in uses["jobs"]]
    named += [f"stored task {output.safe(each['taskId'])}" for each in uses["tasks"]]
    rest = len(named) - USERS_SHOWN
    found = named[:USERS_SHOWN]
    if rest > 0:
        found.append(f"{rest} more (--json has all)")
    if uses["hidden"]:
        found.append(f"{uses['hidden']} that you may not see")
    if uses["more"]:
        found.append("perhaps more")
    return found


def _standing(each: Json) -> str:
    return "good" if each["readable"] else "without its key"


def _key_standing(key: Json) -> str:
    if key["newest"]:
        return "newest"
    return "earlier" if key["known"] else "not set"
