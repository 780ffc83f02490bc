"""`tickwise status-pages …`: pages for people without an account, and what is announced on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from tickwise.cli import output, work
from tickwise.cli.commands.fires import instant
from tickwise.cli.commands.notices.things import Json, ask
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.lookup.endings import is_id
from tickwise.cli.session import Decorated, Session, list_options, view_options

LABEL: Final = "label:"
INCIDENT: Final = ("investigating", "identified", "monitoring", "resolved")
MAINTENANCE: Final = ("announced", "ended")


@click.group("status-pages")
def status_pages() -> None:
    """Manage status pages for people without an account, and announce on them."""


def _fields(command: Decorated) -> Decorated:
    """The options of what a page shows."""
    options = [
        click.option("--intro", help="A text below the title."),
        click.option(
            "--component",
            "components",
            multiple=True,
            metavar="NAME[=JOB,…]",
            help="A public name, and its jobs by id, key or name, or label:NAME=VALUE; repeat it for more.",
        ),
        click.option("--public/--hidden", "enabled", default=None, help="Whether it is public.  [hidden]"),
        click.option("--uptime/--no-uptime", "show_uptime", default=None, help="Show the share of time not failing."),
        click.option(
            "--punctuality/--no-punctuality", "show_punctuality", default=None, help="Show the share of time in order."
        ),
        click.option("--history-days", type=click.IntRange(0, 90), help="Days that are shown; 0: none.  [90]"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@status_pages.command("list")
@list_options
@click.pass_obj
def list_pages(session: Session) -> None:
    """List status pages, with the states of the last look."""
    found: list[Json] = ask(session, "GET", "/status-pages")
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            each["slug"], "public" if each["enabled"] else "hidden", each["title"], str(len(each["components"])),
            ", ".join(part["name"] for part in each["components"] if part["state"] in ("late", "degraded", "down")),
            session.time(each["looked_at"]) if each["looked_at"] else "never",
        )
        for each in found
    ]  # fmt: skip
    titles = ("SLUG", "IS", "TITLE", "COMPONENTS", "IN TROUBLE", "LOOKED AT")
    output.table(session, titles, rows, empty="No status pages.")


@status_pages.command("show")
@click.argument("page")
@view_options
@click.pass_obj
def show(session: Session, page: str) -> None:
    """Show a status page and its announcements, by its slug or id."""
    path = _path(session, page)
    found, told = ask(session, "GET", path), ask(session, "GET", f"{path}/announcements")
    if session.as_json:
        session.show_json({**found, "announcements": told})
        return
    _show(session, found)
    rows = [
        (each["announcement_id"], each["kind"], each["state"], session.time(each["from"]), each["title"])
        for each in told
    ]
    output.table(session, ("ID", "KIND", "STATE", "FROM", "TITLE"), rows, empty="Nothing is announced.")


@status_pages.command("add")
@click.argument("slug")
@click.argument("title")
@_fields
@view_options
@click.pass_obj
def add(session: Session, /, slug: str, title: str, **said: Any) -> None:
    """Make a status page at /status/SLUG; it is hidden until you say --public.

    tickwise status-pages add acme "Acme: nightly work" --component "Exports=label:customer=acme" --public
    """
    body = {"slug": slug, "title": title, **_body(session, said)}
    work.blame(session, "/slug", "SLUG", slug)
    work.blame(session, "/title", "TITLE", title)
    _show(session, ask(session, "POST", "/status-pages", body))


@status_pages.command("edit")
@click.argument("page")
@click.option("--slug", help="Another address.")
@click.option("--title", help="Another title.")
@_fields
@view_options
@click.pass_obj
def edit(session: Session, /, page: str, **said: Any) -> None:
    """Change a status page; options that are not given stay. With --component, give all of them."""
    body = _body(session, said)
    for field in ("slug", "title"):
        if said[field] is not None:
            body[field] = said[field]
            work.blame(session, f"/{field}", f"--{field}", said[field])
    if not body:
        raise click.UsageError("say what to change.")
    _show(session, ask(session, "PATCH", _path(session, page), body))


@status_pages.command("remove")
@click.argument("page")
@view_options
@click.pass_obj
def remove(session: Session, page: str) -> None:
    """Remove a status page with its history and announcements."""
    gone = ask(session, "DELETE", _path(session, page))
    if session.as_json:
        session.show_json(gone)
    else:
        session.say(f"Status page {output.safe(gone['slug'])} is removed.")


@status_pages.command("announce")
@click.argument("page")
@click.argument("title")
@click.argument("text")
@click.option("--maintenance", is_flag=True, help="Announce a planned maintenance, not an incident.")
@click.option("--state", type=click.Choice([*INCIDENT, *MAINTENANCE]), help="Its first state.  [investigating]")
@click.option("--about", "components", multiple=True, metavar="NAME", help="A component; repeat it for more.")
@click.option("--from", "begin", metavar="TIME", help="When it begins.  [now]")
@click.option("--until", metavar="TIME", help="With a maintenance: its planned end.")
@view_options
@click.pass_obj
def announce(session: Session, /, page: str, title: str, text: str, **said: Any) -> None:
    """Announce an incident, or a maintenance; it is public at once if the page is.

    tickwise status-pages announce acme "Exports are late" "We are looking for the cause." --about Exports
    """
    body: Json = {"kind": "maintenance" if said["maintenance"] else "incident", "title": title, "text": text}
    if said["state"]:
        body["state"] = said["state"]
        work.blame(session, "/state", "--state", said["state"])
    if said["components"]:
        body["components"] = list(said["components"])
        for place, each in enumerate(said["components"]):
            work.blame(session, f"/components/{place}", "--about", each)
    for field, value in (("from", said["begin"]), ("until", said["until"])):
        if value is not None:
            body[field] = instant(session, f"--{field}", value)
    made = ask(session, "POST", f"{_path(session, page)}/announcements", body)
    _told(session, made)


@status_pages.command("update")
@click.argument("page")
@click.argument("announcement")
@click.argument("text")
@click.option("--state", required=True, type=click.Choice([*INCIDENT, *MAINTENANCE]), help="Its state from now on.")
@view_options
@click.pass_obj
def update(session: Session, page: str, announcement: str, text: str, state: str) -> None:
    """Add a text to an announcement, by its id, and give it a state."""
    path = f"{_path(session, page)}/announcements/{announcement}/updates"
    work.blame(session, "/state", "--state", state)
    _told(session, ask(session, "POST", path, {"text": text, "state": state}))


@status_pages.command("retract")
@click.argument("page")
@click.argument("announcement")
@view_options
@click.pass_obj
def retract(session: Session, page: str, announcement: str) -> None:
    """Remove an announcement, by its id."""
    gone = ask(session, "DELETE", f"{_path(session, page)}/announcements/{announcement}")
    if session.as_json:
        session.show_json(gone)
    else:
        session.say(f"{output.safe(gone['title'])} is removed.")


def _path(session: Session, reference: str) -> str:
    """The path of a page that is named by its slug or id."""
    if is_id(reference):
        return f"/status-pages/{reference}"
    found: list[Json] = ask(session, "GET", "/status-pages")
    for each in found:
        if each["slug"] == reference:
            return f"/status-pages/{each['page_id']}"
    there = ", ".join(each["slug"] for each in found[:10])
    advice = f"there are: {there}" if there else "there is none yet"
    raise CommandFailure(f"there is no status page {reference!r}.", Exit.NOT_FOUND, advice=advice)


def _body(session: Session, said: Json) -> Json:
    body: Json = {}
    for field in ("intro", "enabled", "show_uptime", "show_punctuality", "history_days"):
        if said[field] is not None:
            body[field] = said[field]
            work.blame(session, f"/{field}", f"--{field.replace('_', '-')}", said[field])
    if said["components"]:
        body["components"] = [_component(each) for each in said["components"]]
        for place, each in enumerate(said["components"]):
            for part in ("", "/name", "/jobs", "/labels"):
                work.blame(session, f"/components/{place}{part}", "--component", each)
            for number in range(len(body["components"][place]["jobs"])):
                work.blame(session, f"/components/{place}/jobs/{number}", "--component", each)
    return body


def _component(text: str) -> Json:
    """A component. Raises `click.UsageError`."""
    name, _, rest = text.partition("=")
    if not name.strip():
        raise click.UsageError(f"--component {text!r}: write NAME, NAME=JOB,JOB or NAME=label:NAME=VALUE.")
    parts = [each.strip() for each in rest.split(",") if each.strip()]
    labels = [each.removeprefix(LABEL) for each in parts if each.startswith(LABEL)]
    for each in labels:
        if "=" not in each:
            raise click.UsageError(f"--component {text!r}: write label:NAME=VALUE.")
    return {
        "name": name.strip(),
        "jobs": [each for each in parts if not each.startswith(LABEL)],
        "labels": dict(each.split("=", 1) for each in labels),
    }


def _show(session: Session, page: Json) -> None:
    if session.as_json:
        session.show_json(page)
        return
    fields = {
        "title": page["title"],
        "is": "public" if page["enabled"] else "hidden",
        "address": page["path"],
        "components": _components(page["components"]),
        "history": f"{page['history_days']} days",
        "looked at": session.time(page["looked_at"]) if page["looked_at"] else "never",
        "id": page["page_id"],
    }
    output.record(session, fields)


def _components(components: Sequence[Json]) -> str:
    return ", ".join(f"{each['name']} ({each['state']})" for each in components) or "none"


def _told(session: Session, announcement: Json) -> None:
    if session.as_json:
        session.show_json(announcement)
        return
    said = f"{announcement['kind']} {announcement['announcement_id']}"
    session.say(f"{output.safe(announcement['title'])}: {announcement['state']} ({said}).")
