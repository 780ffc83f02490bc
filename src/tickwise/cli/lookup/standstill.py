"""The reason in words why a job does not run when its time comes: a hold on its queue, or a stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from tickwise.cli import moments
from tickwise.cli.failures import safe
from tickwise.cli.lookup.next_runs import next_run_of

if TYPE_CHECKING:
    from tickwise.cli.session import Session

Json = dict[str, Any]


UNSERVED: Final = "its runs wait until one "
"""A part of every warning that names a lack of executors (`roles/shared/served_queues.py`)."""


def when_it_runs(session: Session, body: Mapping[str, Any], job_id: str, warnings: Sequence[str] = ()) -> str:
    """The sentence on when a new job runs. `body`: as it was sent, in the long form, or as it is answered. `warnings`:
    those that came with the answer."""
    if body["schedule_type"] == "IMMEDIATE":
        reason = standstill(session, body, job_id)
        if reason is None and any(UNSERVED in warning for warning in warnings):
            return "It waits for an executor that can take it."
        return "It runs now." if reason is None else f"It waits: {reason}."
    if body["schedule_type"] == "ON_DEMAND":
        return f"It runs on request: tickwise jobs run-now {session.short(job_id)}"
    stored = session.client.job_get(job_id)
    coming = next_run_of(session, stored)
    if not coming:
        return "Nothing lets it run in the near future."
    return next_words(session, stored, coming) + wait_words(session, body, job_id, coming)


def next_words(session: Session, job: Mapping[str, Any], coming: str) -> str:
    """The next run on the clock of this machine, and on that of the job where it shows another time."""
    words = f"Next run: {session.time(coming)}"
    at, zone = moments.instant(coming), _zone(job.get("timezone") or "UTC")
    if at is None or zone is None:
        return words
    instant = datetime.fromtimestamp(at, UTC)
    here, there = instant.astimezone(session.zone), instant.astimezone(zone)
    return words if here.utcoffset() == there.utcoffset() else f"{words}, {there:%Y-%m-%d %H:%M} in {job['timezone']}"


def _zone(name: str) -> tzinfo | None:
    """The zone; None: this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        return None


def wait_words(session: Session, job: Mapping[str, Any], job_id: str, at: str | None = None) -> str:
    """The sentence behind a time at which a job would run (None: now): `. It waits then: …`; empty: nothing that this
    caller may read holds it back."""
    reason = standstill(session, job, job_id, at)
    then = "" if at is None or (moments.instant(at) or 0.0) <= moments.now() else " then"
    return "" if reason is None else f". It waits{then}: {reason}."


def standstill(session: Session, body: Mapping[str, Any], job_id: str, at: str | None = None) -> str | None:
    """The reason why a job does not run at a time (None: now), as the end of a sentence; None: there is none that this
    caller may read, or it ends before."""
    from tickwise.sdk.client import ProblemError

    queue = body.get("queue") or "default"
    try:
        hold = session.client.queue_get(queue)
        if hold["held"] and _lasts(hold["hold"], at):
            return f"the queue {queue} is {_until(session, hold['hold'], 'on hold')}"
    except ProblemError as error:
        if error.status not in (403, 404):
            raise
    try:
        stop = next((each for each in session.client.stops_list() if _concerns(each, body, queue, job_id, at)), None)
    except ProblemError as error:
        if error.status != 403:
            raise
        return None
    return None if stop is None else f"{safe(stop['scope'])}: {_until(session, stop, 'stopped')}"


def _lasts(held: Json, at: str | None) -> bool:
    """Check whether a hold or a stop that is in force is there at this time."""
    until = moments.instant(held.get("until"))
    return at is None or until is None or until > (moments.instant(at) or 0.0)


def _concerns(stop: Json, body: Mapping[str, Any], queue: str, job_id: str, at: str | None) -> bool:
    if not stop["in_force"] or not _lasts(stop, at):
        return False
    labels: Mapping[str, str] = stop.get("labels") or {}
    if labels:
        return labels.items() <= (body.get("labels") or {}).items()
    if stop.get("queue") is not None:
        return bool(stop["queue"] == queue)
    return stop.get("job_id") in (None, job_id)


def _until(session: Session, held: Json, how: str) -> str:
    """`on hold until … by Ada: they move`."""
    until = f" until {session.time(held['until'])}" if held.get("until") else ""
    why = f": {safe(held['reason'])}" if held.get("reason") else ""
    return f"{how}{until} by {safe(held['by'])}{why}"
