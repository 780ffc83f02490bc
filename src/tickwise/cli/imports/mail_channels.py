"""The e-mail channels that stand for the recipients of cron's mails.

    MAILTO=ops@example.org ──► a channel of kind email with that recipient ──► the job's `notify`
                               none ──► a note that says that nobody is told, and what to do

A channel fits if all recipients of the crontab are among its own; of several the one with the fewest others.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tickwise.cli.sources import SourceEntry

if TYPE_CHECKING:
    from tickwise.sdk.client import Client

MAILTO: Final = "MAILTO:"
"""The begin of the note on an entry whose output cron mails."""
KEPT: Final = "the output is kept with each run"


def with_mail_channels(client: Client, found: Sequence[SourceEntry]) -> list[SourceEntry]:
    """The entries, those below a MAILTO with a channel of the server that fits, or with a note that there is none."""
    if not any(each.entry.recipients and each.entry.job is not None for each in found):
        return list(found)
    from tickwise.sdk.client import ProblemError

    try:
        channels: list[dict[str, Any]] | None = client.request("GET", "/channels").body
    except ProblemError as refusal:
        if refusal.status != 403:
            raise
        channels = None
    return [_told(each, channels) for each in found]


def told_by(each: SourceEntry, channel: str) -> SourceEntry:
    """The entry with a channel that is told of failures of its job."""
    return _noted(each, f"{MAILTO} failures are told to the channel {channel}; {KEPT}", {"notify": [channel]})


def _told(each: SourceEntry, channels: Sequence[Mapping[str, Any]] | None) -> SourceEntry:
    wanted = each.entry.recipients
    if not wanted or each.entry.job is None:
        return each
    names = ", ".join(wanted)
    if channels is None:
        why = "this key may not look for an e-mail channel (notices:read): name one with --notify CHANNEL"
        return _noted(each, f"{MAILTO} nobody is told of failures; {why}; {KEPT}", {})
    if (channel := fitting(channels, wanted)) is not None:
        return told_by(each, channel)
    if not all("@" in name for name in wanted):
        make = "it names a user of the old machine: name a channel with --notify CHANNEL"
    else:
        to = " ".join(f"--to {shlex.quote(name)}" for name in wanted)
        make = f"tickwise channels add mail {to}, then tickwise jobs edit JOB --notify mail"
    return _noted(each, f"{MAILTO} nobody is told of failures, no e-mail channel has {names}: {make}; {KEPT}", {})


def fitting(channels: Sequence[Mapping[str, Any]], recipients: Sequence[str]) -> str | None:
    """The name of the channel that fits; None: there is none."""
    wanted = {each.casefold() for each in recipients}
    fit = [
        (len(to), str(each["name"]))
        for each in channels
        if each["kind"] == "email" and wanted <= (to := {str(name).casefold() for name in each["to"] or ()})
    ]
    return min(fit)[1] if fit else None


def _noted(each: SourceEntry, note: str, fields: Mapping[str, Any]) -> SourceEntry:
    entry = each.entry
    notes = tuple(note if said.startswith(MAILTO) else said for said in entry.notes)
    return each._replace(entry=replace(entry, job={**(entry.job or {}), **fields}, notes=notes))
