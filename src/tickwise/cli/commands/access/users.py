"""`tickwise users …`: people, their roles in namespaces, and their passwords."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from tickwise.cli import moments, output, work
from tickwise.cli.arguments import secret_option
from tickwise.cli.commands.access.custom_roles import roles as custom_roles
from tickwise.cli.commands.access.sign_in import role_text
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.labels import read_labels
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.passwords import password_option, read_password
from tickwise.cli.session import Decorated, Session, list_options, server_options, view_options

Json = dict[str, Any]


@click.group()
def users() -> None:
    """Add people, and change their roles and passwords."""


users.add_command(custom_roles)


def role_options(command: Decorated) -> Decorated:
    """`--role`, as often as there are roles."""
    return click.option(
        "--role", "roles", multiple=True, metavar="ROLE[@NAMESPACE][:NAME=VALUE,…]",
        help="viewer, operator, developer, admin or a custom role (`tickwise users roles list`), in the namespace of "
        "the command or in the named one; `*` is the whole installation: admin@*. With labels, only for jobs that have "
        "all of them: developer@team-a:team=billing.",
    )(command)  # fmt: skip


@users.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_users(session: Session, limit: int) -> None:
    """List people, the newest first."""
    found, more = first_of(session, "/users", {}, limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            user["name"],
            user["email"] or "",
            " ".join(map(role_text, user["roles"])),
            _standing(user),
            session.time(user["signed_in_at"], seen_at=seen_at) if user["signed_in_at"] else "never",
        )
        for user in found
    ]
    output.table(session, ("NAME", "E-MAIL", "ROLES", "IS", "SIGNED IN"), rows, empty="No people.", more=more)


def _standing(user: Json) -> str:
    if not user["active"]:
        return "deactivated"
    return "active" if user["has_password"] else "invited"


@users.command()
@click.argument("name")
@click.option("--email", help="Another name to sign in with.")
@role_options
@password_option
@view_options
@click.pass_obj
def add(session: Session, name: str, email: str | None, roles: tuple[str, ...], from_stdin: bool) -> None:
    """Add a person. Without a password, print a link with which the person chooses one; it is shown only once."""
    body: Json = {"name": name, "roles": _roles(session, roles)}
    if email is not None:
        body["email"] = email
    if from_stdin:
        session.guard_password()
        body["password"] = read_password("", from_stdin=True)
    work.blame(session, "/name", "NAME", name)
    work.blame(session, "/email", "--email", email or "")
    made = session.client.request("POST", "/users", body=body).body
    _show_link(session, made, f"{made['name']} is added", made["link"])


@users.command()
@click.argument("user")
@view_options
@click.pass_obj
def show(session: Session, user: str) -> None:
    """Show one person; USER is the name, the e-mail or the id."""
    _show(session, _found(session, user))


@users.command()
@click.argument("user")
@click.option("--name", help="Another name.")
@click.option("--email", help="Another e-mail.")
@role_options
@click.option("--active/--deactivated", default=None, help="A deactivated person cannot sign in.")
@view_options
@click.pass_obj
def change(
    session: Session, user: str, name: str | None, email: str | None, roles: tuple[str, ...], active: bool | None
) -> None:
    """Change a person. `--role` replaces the roles in all namespaces that you administer."""
    found = _found(session, user)
    fields: Json = {"name": name, "email": email, "roles": _roles(session, roles) or None, "active": active}
    body = {field: value for field, value in fields.items() if value is not None}
    if not body:
        raise click.UsageError("say what to change: --name, --email, --role, --active or --deactivated.")
    work.blame(session, "/name", "--name", name or "")
    work.blame(session, "/email", "--email", email or "")
    body["expected_version"] = found["version"]
    _show(session, session.client.request("PATCH", f"/users/{found['user_id']}", body=body).body)


@users.command()
@click.argument("user")
@view_options
@click.pass_obj
def reset(session: Session, user: str) -> None:
    """Print a link with which a person chooses another password; earlier links stop working."""
    found = _found(session, user)
    link = session.client.request("POST", f"/users/{found['user_id']}/reset").body["link"]
    _show_link(session, {**found, "link": link}, f"{found['name']} may choose another password", link)


@users.command("reset-second-factors")
@click.argument("user")
@view_options
@click.pass_obj
def reset_second_factors(session: Session, user: str) -> None:
    """Remove all second factors and recovery codes of a person, who has lost them; all sessions end."""
    found = _found(session, user)
    gone = session.client.request("DELETE", f"/users/{found['user_id']}/second-factors").body
    if session.as_json:
        session.show_json(gone)
        return
    session.say(f"{gone['removed']} second factors of {found['name']} are removed.")


@users.command()
@click.argument("link", callback=secret_option)
@password_option
@server_options
@click.pass_obj
def accept(session: Session, link: str, from_stdin: bool) -> None:
    """Choose your password with the LINK of an invitation or a reset."""
    session.guard_password()
    password = read_password("New password", from_stdin=from_stdin, twice=True)
    body = {"secret": link, "password": password}
    work.blame(session, "/secret", "LINK", link)
    user = session.client.request("POST", "/users/links", body=body).body
    if session.as_json:
        session.show_json(user)
        return
    session.say(f"Your password is set. Sign in: tickwise login {user['name']!r} --url {session.target.url}")


@users.command()
@click.argument("user")
@click.argument("subject")
@click.option(
    "--issuer",
    metavar="ADDRESS",
    help="Another provider than that of the server's settings; proxy: the proxy before the pages.",
)
@view_options
@click.pass_obj
def link(session: Session, user: str, subject: str, issuer: str | None) -> None:
    """Tie a person to the provider that signs people in.

    SUBJECT is the claim `sub` by which the provider names the person; it opens all that the person may do here.
    """
    body = {"subject": subject} if issuer is None else {"subject": subject, "issuer": issuer}
    work.blame(session, "/subject", "SUBJECT", subject)
    work.blame(session, "/issuer", "--issuer", issuer or "")
    found = _found(session, user)
    path = f"/users/{found['user_id']}/identities"
    _show_identities(session, session.client.request("PUT", path, body=body).body, f"{found['name']} signs in as")


@users.command()
@click.argument("user")
@view_options
@click.pass_obj
def unlink(session: Session, user: str) -> None:
    """Remove a person's identities at the provider; browser sessions that they began end."""
    found = _found(session, user)
    gone = session.client.request("DELETE", f"/users/{found['user_id']}/identities").body
    _show_identities(session, gone, f"{found['name']} signs in no more as")


@users.command("password")
@password_option
@server_options
@click.pass_obj
def change_password(session: Session, from_stdin: bool) -> None:
    """Choose another password for yourself; all your sign-ins end. From stdin: the present one, then the new one."""
    session.guard_password()
    body = {
        "current": read_password("Present password", from_stdin=from_stdin),
        "password": read_password("New password", from_stdin=from_stdin, twice=True),
    }
    user = session.client.request("POST", "/users/password", body=body).body
    session.sign_ins.remove(session.target.url)
    if session.as_json:
        session.show_json(user)
        return
    session.say("Your password is changed. Sign in again: tickwise login")


def _roles(session: Session, roles: tuple[str, ...]) -> list[Json]:
    """The roles of a request, from `developer`, `developer@team-a` or `developer@team-a:team=billing,env=prod`."""
    here = session.target.namespace or "default"
    found: list[Json] = []
    for place, text in enumerate(roles):
        place_text, sign, labels = text.partition(":")
        role, _, namespace = place_text.partition("@")
        member: Json = {"role": role, "namespace": namespace or here}
        if sign:
            member["labels"] = read_labels(labels.split(","), f"--role {text!r}, label")
        found.append(member)
        for field in ("role", "namespace", "labels"):
            work.blame(session, f"/roles/{place}/{field}", "--role", text)
    return found


def _found(session: Session, user: str) -> Json:
    """A person by id, name or e-mail. Raises `CommandFailure` if there is none."""
    try:
        found: Json = session.client.request("GET", f"/users/{UUID(user)}").body
    except ValueError:
        wanted = user.casefold()
        for page in session.client.pages("/users", {"limit": 500}):
            for each in page:
                if wanted in {each["name"].casefold(), (each["email"] or "").casefold()}:
                    return dict(each)
        raise CommandFailure(f"there is no person {user!r}.", Exit.NOT_FOUND, advice="tickwise users list") from None
    return found


def _show(session: Session, user: Json) -> None:
    if session.as_json:
        session.show_json(user)
        return
    output.record(
        session,
        {
            "name": user["name"],
            "e-mail": user["email"],
            "id": user["user_id"],
            "is": _standing(user),
            "roles": " ".join(map(role_text, user["roles"])),
            "added": session.time(user["created_at"]) + (f" by {user['created_by']}" if user["created_by"] else ""),
            "signed in": session.time(user["signed_in_at"]),
        },
    )
    if user.get("needs_link"):  # a server of before does not say so
        session.note(
            f"The password of {user['name']} was chosen, or could be, by an administrator who holds less, and opens "
            f"nothing now. Make a link, and hand it to the person: tickwise users reset {user['name']!r}"
        )


def _show_identities(session: Session, identities: list[Json], fact: str) -> None:
    if session.as_json:
        session.show_json(identities)
        return
    for each in identities:
        session.say(f"{fact} {each['subject']} at {each['issuer']}.")


def _show_link(session: Session, user: Json, fact: str, link: str | None) -> None:
    if session.as_json:
        session.show_json(user)
        return
    if link is None:
        session.say(f"{fact}.")
        return
    session.note(f"{fact}. Hand over this link; it is shown only once and works once:")
    click.echo(link)
    session.note(f"The person chooses a password with: tickwise users accept LINK --url {session.target.url}")
