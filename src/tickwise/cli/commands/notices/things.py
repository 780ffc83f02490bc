"""Channels and rules on the command line: named by name or id, and read page by page."""

from __future__ import annotations

import shlex
from itertools import islice
from typing import Any

from tickwise.cli import output
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.lookup.endings import is_id
from tickwise.cli.session import Session

Json = dict[str, Any]


def flag(said: bool) -> str:
    """A truth value as a query takes it."""
    return "true" if said else "false"


def ask(session: Session, method: str, path: str, body: Json | None = None, **query: Any) -> Any:
    """The answer of the API."""
    return session.client.request(method, path, body=body, query=query or None).body


def named(thing: Json) -> str:
    """A channel or a rule as a command names it, quoted for a shell; one of the installation with its option."""
    return f"{shlex.quote(output.safe(thing['name']))}{' --installation' if thing['installation'] else ''}"


def listed(session: Session, path: str, limit: int, **query: Any) -> list[Json]:
    """The first things of a list, page by page."""
    pages = session.client.pages(path, {"limit": min(limit, 500), **query})
    return list(islice((each for page in pages for each in page), limit))


def channel_path(session: Session, reference: str, *, installation: bool = False) -> str:
    """The path of a channel that is named by its name or id."""
    if is_id(reference):
        return f"/channels/{reference}"
    found = ask(session, "GET", "/channels", installation=flag(installation))
    return _path(found, reference, "channel", "channels")


def rule_path(session: Session, reference: str, *, installation: bool = False) -> str:
    """The path of a notification rule that is named by its name or id."""
    if is_id(reference):
        return f"/notification-rules/{reference}"
    found = listed(session, "/notification-rules", 20_000, installation=flag(installation))
    return _path(found, reference, "rule", "notification-rules")


def _path(found: list[Json], name: str, thing: str, folder: str) -> str:
    for each in found:
        if each["name"] == name:
            return f"/{folder}/{each[f'{thing}_id']}"
    names = ", ".join(each["name"] for each in found[:10])
    advice = f"there are: {names}" if names else "there is none yet"
    raise CommandFailure(f"there is no {thing} {name!r}.", Exit.NOT_FOUND, advice=advice)
