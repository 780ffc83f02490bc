"""Jobs that last, and jobs that pass: a store may keep the latter where they go by the day; quotas count the former."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tickwise.domain.model import id_instant
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store.definitions import JobChange, NewJob, Replan

PASSING_SECONDS: Final = 86_400.0
"""A one-time job that is due sooner after its creation lies in the partitions that are dropped; a later one would have
to be moved out of them. Told from the id alone, so that a repeated submit finds the same place."""

LASTING_TYPES: Final = frozenset({ScheduleType.CRON, ScheduleType.INTERVAL, ScheduleType.ON_DEMAND})
"""Jobs of these schedules are few and stay, so a search for them reads no partition of the others."""


def is_lasting(job: NewJob) -> bool:
    """Check whether a new job lasts. The answer follows from the request alone, so that a repeat finds the
    same place."""
    if job.recurring or job.named or job.key is not None or job.calendars or job.schedule_type in LASTING_TYPES:
        return True
    return job.due is not None and job.due - id_instant(job.job_id) > PASSING_SECONDS


def change_lasts(change: JobChange) -> bool:
    """Check whether an edit takes a job out of the partitions that are dropped. It does not go back there."""
    if change.key is not None or change.calendars or change.schedule_type in LASTING_TYPES:
        return True
    return plan_lasts(change.job_id, change.replan)


def plan_lasts(job_id: UUID, plan: Replan | None) -> bool:
    """Check whether a plan takes a job out of the partitions that are dropped."""
    if plan is None:
        return False
    return plan.recurring or (plan.timer is not None and plan.timer.due - id_instant(job_id) > PASSING_SECONDS)
