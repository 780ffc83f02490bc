"""`tickwise channels …`: the addresses that notices are sent to."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import output, work
from tickwise.cli.commands.notices.things import Json, ask, channel_path, flag, named
from tickwise.cli.failures import Exit
from tickwise.cli.session import Decorated, Session, list_options, view_options

WAIT_SECONDS = 20


@click.group()
def channels() -> None:
    """Manage channels: webhooks, e-mail, Slack and what apprise knows."""


def _fields(command: Decorated) -> Decorated:
    """The options of the fields that depend on the kind."""
    options = [
        click.option("--to", multiple=True, metavar="ADDRESS", help="A recipient of mails; repeat it for more."),
        click.option("--from", "sender", metavar="ADDRESS", help="The sender of mails."),
        click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of a webhook."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


_of_installation = click.option(
    "--installation", is_flag=True, help="Of the installation, not of the namespace: for its administrators."
)


@channels.command("add")
@click.argument("name")
@click.argument("address", required=False)
@click.option(
    "--kind",
    type=click.Choice(["webhook", "email", "slack", "apprise"]),
    help="The kind of the channel.  [that of ADDRESS]",
)
@_fields
@click.option("--allow-private", is_flag=True, help="ADDRESS may be in a private network: for administrators.")
@_of_installation
@view_options
@click.pass_obj
def add(session: Session, /, name: str, address: str | None, **said: Any) -> None:
    """Make a channel; of a webhook the secret is shown once.

    tickwise channels add on-call https://hooks.example.com/tickwise
    """
    body: Json = {"name": name, "kind": said["kind"] or _kind(address, said["to"])}
    work.blame(session, "/name", "NAME", name)
    if address is not None:
        body["url"] = address
        work.blame(session, "/url", "ADDRESS", address)
    body |= _body(session, said)
    for field in ("allow_private", "installation"):
        if said[field]:
            body[field] = True
            work.blame(session, f"/{field}", f"--{field.replace('_', '-')}", "")
    made = ask(session, "POST", "/channels", body)
    if session.as_json:
        session.show_json(made)
        return
    session.note(f"Channel {output.safe(made['name'])} is made. Try it: tickwise channels test {named(made)}")
    if made["secret"]:
        session.note("Its webhooks are signed with this secret, which is shown only once:")
        click.echo(made["secret"])


@channels.command("list")
@_of_installation
@list_options
@click.pass_obj
def list_channels(session: Session, *, installation: bool) -> None:
    """List channels by name, with their newest deliveries."""
    found: list[Json] = ask(session, "GET", "/channels", installation=flag(installation))
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (session.short(each["channel_id"]), each["name"], each["kind"], _address(each), _standing(session, each))
        for each in found
    ]
    output.table(session, ("ID", "NAME", "KIND", "ADDRESS", "NEWEST"), rows, empty="No channels.")


@channels.command("show")
@click.argument("channel")
@_of_installation
@view_options
@click.pass_obj
def show(session: Session, channel: str, *, installation: bool) -> None:
    """Show a channel, by its name or id."""
    _show(session, ask(session, "GET", channel_path(session, channel, installation=installation)))


@channels.command("edit")
@click.argument("channel")
@click.option("--address", help="Another address.")
@_fields
@click.option("--allow-private/--no-allow-private", default=None, help="The address may be in a private network.")
@_of_installation
@view_options
@click.pass_obj
def edit(session: Session, /, channel: str, **said: Any) -> None:
    """Change a channel; options that are not given stay."""
    body: Json = {}
    if said["address"] is not None:
        body["url"] = said["address"]
        work.blame(session, "/url", "--address", said["address"])
    body |= _body(session, said)
    if said["allow_private"] is not None:
        body["allow_private"] = said["allow_private"]
        work.blame(session, "/allow_private", "--allow-private", "")
    if not body:
        raise click.UsageError("say what to change.")
    _show(session, ask(session, "PATCH", channel_path(session, channel, installation=said["installation"]), body))


@channels.command("rotate-secret")
@click.argument("channel")
@_of_installation
@view_options
@click.pass_obj
def rotate_secret(session: Session, channel: str, *, installation: bool) -> None:
    """Give a webhook another secret, and show it once; the present one no longer signs."""
    path = channel_path(session, channel, installation=installation)
    made = ask(session, "POST", f"{path}/rotate-secret")
    if session.as_json:
        session.show_json(made)
        return
    session.note(f"The webhooks of {made['name']} are signed with this secret from now on, which is shown only once:")
    click.echo(made["secret"])


@channels.command("remove")
@click.argument("channel")
@_of_installation
@view_options
@click.pass_obj
def remove(session: Session, channel: str, *, installation: bool) -> None:
    """Remove a channel: it leaves its rules, and its waiting notices are dropped."""
    gone = ask(session, "DELETE", channel_path(session, channel, installation=installation))
    if session.as_json:
        session.show_json(gone)
    else:
        session.say(f"Channel {output.safe(gone['name'])} is removed.")


@channels.command("test")
@click.argument("channel")
@click.option("--no-wait", is_flag=True, help="Do not wait for the outcome.")
@_of_installation
@view_options
@click.pass_obj
def test(session: Session, channel: str, *, no_wait: bool, installation: bool) -> Exit:
    """Send a test notice, and say what became of it."""
    path = channel_path(session, channel, installation=installation)
    notice = ask(session, "POST", f"{path}/test", wait=0 if no_wait else WAIT_SECONDS)
    return told(session, [notice])


@channels.command("try-now")
@click.argument("channel")
@_of_installation
@view_options
@click.pass_obj
def try_now(session: Session, channel: str, *, installation: bool) -> None:
    """Try a resting channel now, with the notices that wait for it."""
    found = ask(session, "POST", f"{channel_path(session, channel, installation=installation)}/try-now")
    if session.as_json:
        session.show_json(found)
    else:
        session.say(f"Channel {output.safe(found['name'])} is tried now{_waiting(found)}.")


def told(session: Session, notices: list[Json]) -> Exit:
    """Say what became of test notices. A failed delivery is a failure of the command."""
    if session.as_json:
        session.show_json(notices if len(notices) != 1 else notices[0])
    failed = False
    for notice in notices:
        failed = failed or notice["state"] == "dead" or bool(notice["error"])
        if session.as_json:
            continue
        if notice["state"] == "delivered":
            session.say("It was delivered.")
        elif notice["error"]:
            tried = "" if notice["state"] == "dead" else " It is tried again."
            session.say(f"It was not delivered: {output.safe(notice['error'])}.{tried}")
        else:
            session.say(f"It waits. Look at it: tickwise notices show {notice['notice_id']}")
    return Exit.JOB_FAILED if failed else Exit.OK


def _kind(address: str | None, to: tuple[str, ...]) -> str:
    if to or (address or "").startswith(("smtp://", "smtps://")):
        return "email"
    if address is None:
        raise click.UsageError("give ADDRESS, or --to for mails.")
    if address.startswith("https://hooks.slack.com/"):
        return "slack"
    return "webhook" if address.startswith(("http://", "https://")) else "apprise"


def _body(session: Session, said: Json) -> Json:
    body: Json = {}
    if said["to"]:
        body["to"] = list(said["to"])
        for place, each in enumerate(said["to"]):
            work.blame(session, f"/to/{place}", "--to", each)
    if said["sender"]:
        body["from"] = said["sender"]
        work.blame(session, "/from", "--from", said["sender"])
    if said["headers"]:
        body["headers"] = dict(_header(session, each) for each in said["headers"])
        work.blame(session, "/headers", "--header", said["headers"][-1])
    return body


def _header(session: Session, text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError("--header: write NAME=VALUE.")
    work.blame(session, f"/headers/{name}", "--header", name)
    return name, value


def _address(channel: Json) -> str:
    return ", ".join(channel["to"]) if channel["to"] else channel["url"] or ""


def _standing(session: Session, channel: Json) -> str:
    failed, delivered = channel["failed_at"], channel["delivered_at"]
    if failed and (not delivered or delivered < failed):
        rest = f", rests until {session.time(until)}" if (until := channel["resting_until"]) else ""
        return f"failed {session.time(failed)}{rest}{_waiting(channel)}: {channel['error'] or ''}"
    return f"delivered {session.time(delivered)}" if delivered else "never used"


def _waiting(channel: Json) -> str:
    count = channel["waiting"]
    return f", {count:,} {'notice waits' if count == 1 else 'notices wait'}" if count else ""


def _show(session: Session, channel: Json) -> None:
    if session.as_json:
        session.show_json(channel)
        return
    fields = {
        "name": channel["name"],
        "kind": channel["kind"],
        "address": channel["url"],
        "to": ", ".join(channel["to"] or []),
        "from": channel["from"],
        "headers": ", ".join(channel["headers"] or {}),
        "private networks": "allowed" if channel["allow_private"] else None,
        "newest": _standing(session, channel),
        "id": channel["channel_id"],
    }
    output.record(session, fields)
