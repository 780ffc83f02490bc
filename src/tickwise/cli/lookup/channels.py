"""A look at the channels that a job names: whether a message of theirs has ever arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwise.cli import output
from tickwise.cli.session import Session


def tell_doubtful(session: Session, notify: Sequence[str] | None) -> None:
    """Say which of these channels were never tried, or failed when they were tried last: a job that fails at night
    would tell nobody. Nothing to a caller that may not look at channels, and nothing beside JSON."""
    from tickwise.sdk.client import ProblemError

    if not notify or session.as_json:
        return
    try:
        channels: list[dict[str, Any]] = session.client.request("GET", "/channels").body
    except ProblemError as error:
        if error.status != 403:
            raise
        return
    for each in channels:
        if each["name"] in notify and (doubt := _doubt(each)):
            name = output.safe(each["name"])
            session.note(f"Warning: the channel {name} {doubt}. Try it: tickwise channels test {name}")


def _doubt(channel: dict[str, Any]) -> str:
    failed, delivered = channel["failed_at"], channel["delivered_at"]
    if failed and (not delivered or delivered < failed):
        return f"could not deliver its newest message: {output.safe(str(channel['error']))}"
    return "" if delivered else "has delivered nothing yet"
