"""A job as it stands, for all explanations of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from tickwise.control.schedules.occurrences import (
    Outlook,
)
from tickwise.documents.definition import Definition
from tickwise.domain.calendar.rules import ScheduleRules
from tickwise.domain.calendar.sentences import moment
from tickwise.domain.schedule import Schedule
from tickwise.ports.store import JobRow

EXACT_SECONDS: Final = 1.0
"""People leave the fraction of a second out: the nearest occurrence within it is the one that they mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A job as it stands."""

    row: JobRow
    plan: Definition
    schedule: Schedule
    rules: ScheduleRules | None
    now: float
    zone: ZoneInfo

    @property
    def outlook(self) -> Outlook:
        """The fate of its occurrences."""
        return Outlook(self.row, self.schedule, self.rules, self.now)

    def said(self, instant: float) -> str:
        """An instant on the clock of the job."""
        return f"{moment(instant, self.zone)} ({self.zone.key})"

    @property
    def counts_from(self) -> float:
        """Times of the present schedule up to this were named by another schedule, or by none."""
        return self.row.created_at if self.plan.planned_at is None else self.plan.planned_at
