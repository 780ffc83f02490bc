"""The next run of a job as it will be: what calendars and maintenance windows close is passed over.

A timer names the next time of the schedule; whether calendars let it run is decided when it comes. A preview asks them
now, and knows of skips and snoozes too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tickwise.cli.session import Session

Json = dict[str, Any]

PREVIEWED: Final = 50
"""Times of a schedule that are looked at."""
_RECURRING: Final = ("CRON", "INTERVAL")


def next_run_of(session: Session, job: Json) -> str | None:
    """The time at which the job runs next, as the API writes it; None: at no time that is near, or the caller may not
    look."""
    planned: str | None = job.get("next_run_at")
    if planned is None or job["status"] != "SCHEDULED" or job["schedule_type"] not in _RECURRING:
        return planned
    from tickwise.sdk.client import ProblemError

    try:
        fires = session.client.job_preview(str(job["job_id"]), count=PREVIEWED)["fires"]
    except ProblemError:
        return planned
    coming = [fire["due"] for fire in fires if fire["due"] is not None]
    # A run that waits, or that was asked for, comes before the schedule's own times.
    first = min(coming, default=None)
    return first if first is None or planned >= fires[0]["utc"] else planned
