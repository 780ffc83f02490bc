"""The users that imported commands run as: those that cron ran them as.

    /etc/crontab, cron.d     the user of the line     ──► run_as
    a user's crontab         --user NAME              ──► run_as
    --no-run-as              as the executors say         (the report says what changes)

A run waits until an executor offers its user. So a report without a server says which setting that needs, and an import
that stores asks the server which users no active executor offers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from tickwise.cli.session import Decorated
from tickwise.cli.sources import SourceEntry
from tickwise.domain.accounts.run_as import SETTING
from tickwise.domain.rules.confinement import RUN_AS_PREFIX

if TYPE_CHECKING:
    from tickwise.sdk.client import Client

FORBIDDEN: Final = 403


def run_as_options(command: Decorated) -> Decorated:
    """The options."""
    options = [
        click.option(
            "--user", metavar="NAME",
            help="The user of a crontab that names none: its commands run as this one. With --no-run-as, the user of "
            "the executors.",
        ),
        click.option(
            "--run-as/--no-run-as", "run_as", default=True,
            help="Run each command as the user that cron ran it as, where executors allow it.  [run-as]",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def with_run_as(client: Client | None, found: Sequence[SourceEntry]) -> list[SourceEntry]:
    """The entries, those that name a user with a note on what executors need for it. `client`: to ask which users they
    offer; None: there is none to ask."""
    wanted = {
        str(each.entry.job["run_as"]) for each in found if each.entry.job is not None and "run_as" in each.entry.job
    }
    if not wanted:
        return list(found)
    offered = frozenset[str]() if client is None else _offered(client)
    if offered is None:
        return list(found)
    lacking = sorted(wanted - offered)
    needs = f"{SETTING}={','.join(lacking)}"
    if client is None:
        note = f"each runs as the user that cron ran it as, by an executor that root starts with {needs}"
    else:
        note = (
            f"no active executor runs tasks as {', '.join(lacking)}, so the runs of these wait; start executors as "
            f"root with {needs}, or import with --no-run-as"
        )
    return [_noted(each, lacking, note) for each in found]


def _offered(client: Client) -> frozenset[str] | None:
    """The users that active executors run tasks as; None: this key may not look."""
    from tickwise.sdk.client import ProblemError

    try:
        executors: Iterable[dict[str, object]] = client.request("GET", "/executors").body
    except ProblemError as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return None
    return frozenset(
        str(label).removeprefix(RUN_AS_PREFIX)
        for each in executors
        if each["alive"] and isinstance(labels := each["labels"], list)
        for label in labels
        if str(label).startswith(RUN_AS_PREFIX)
    )


def _noted(each: SourceEntry, lacking: Collection[str], note: str) -> SourceEntry:
    entry = each.entry
    if entry.job is None or entry.job.get("run_as") not in lacking:
        return each
    return each._replace(entry=replace(entry, notes=(*entry.notes, note)))
