"""The standing of a job: cancel, pause and resume it. Made anew if the job was changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from tickwise.control.audit.entries import job_standing_changed
from tickwise.control.bodies import MissedMode, PauseBody, ResumeBody
from tickwise.control.context import ControlContext
from tickwise.control.jobs.links import RACES_MAX
from tickwise.control.jobs.replans import pause, resume, silence
from tickwise.control.rules import ruled, rules_for
from tickwise.control.texts import clean_reason
from tickwise.control.wakeups import wake_all
from tickwise.documents.definition import decode_definition
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Busy, Invalid, VersionConflict
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.ports.store import JobAction, JobMove, JobRow

_ACTIONS: Final[Mapping[JobAction, AuditAction]] = {
    JobAction.PAUSE: AuditAction.JOB_PAUSED,
    JobAction.RESUME: AuditAction.JOB_RESUMED,
    JobAction.CANCEL: AuditAction.JOB_CANCELLED,
}
CHANGED_TOO_OFTEN: Final = "too many concurrent changes to this job; send the same again"


class JobMoves:
    """Cancels, pauses and resumes jobs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def cancel(self, who: Principal, job_id: UUID, *, if_version: int | None = None) -> JobRow:
        """Cancel a job: no further fire; free runs end, held runs are asked to stop, its key is free. A repeat changes
        nothing.

        Raises `NotFound`; `VersionConflict` if it is not at `if_version` any more."""
        return await self._moved(who, job_id, lambda row, _now: _cancel(row, if_version), if_version)

    async def pause(self, who: Principal, job_id: UUID, body: PauseBody, *, if_version: int | None = None) -> JobRow:
        """No fire by schedule until it is resumed, or until the given time. Raises `Conflict` for a one-time job;
        `VersionConflict` as `cancel`."""
        clean_reason(body.reason, "/reason")
        return await self._moved(
            who, job_id, lambda row, now: pause(row, decode_definition(row.definition), body, who.name, now), if_version
        )

    async def resume(self, who: Principal, job_id: UUID, body: ResumeBody, *, if_version: int | None = None) -> JobRow:
        """Fire by schedule again, from now on; `missed` says what becomes of what fell into the pause.

        Raises `Conflict` for a one-time job, and if more was missed than one request runs; `VersionConflict` as
        `cancel`."""
        if body.limit is not None and body.missed is not MissedMode.RUN_ALL:
            raise Invalid("limit belongs to run_all; leave it out, or send missed: run_all", pointer="/limit")
        row = await self._context.job(who, job_id)
        plan = decode_definition(row.definition)
        # Occurrences in closed times are not made up for. Rules may change at any time, so a moment between the two
        # reads does no harm.
        rules = None
        if body.missed is not MissedMode.SKIP and row.status is JobStatus.PAUSED:
            rules = await rules_for(self._context, ruled(row), plan.calendars)
        return await self._moved(
            who,
            job_id,
            lambda row, now: resume(row, decode_definition(row.definition), body, rules, now),
            if_version,
        )

    async def _moved(
        self,
        who: Principal,
        job_id: UUID,
        plan: Callable[[JobRow, float], JobMove | None],
        if_version: int | None,
    ) -> JobRow:
        """Carry out the move that `plan` makes for the present job. If the job changed meanwhile, plan again, unless
        `if_version` names one version."""
        for _ in range(RACES_MAX):
            row = await self._context.job(who, job_id)
            check_version(row, if_version)
            move = plan(row, await self._context.time.now())
            if move is None:
                return row
            audit = job_standing_changed(who, _ACTIONS[move.action], row, move)
            try:
                row = await self._context.surely(lambda: self._context.store.jobs.move(move, audit=audit))  # noqa: B023 - awaited within the turn
            except VersionConflict:
                continue
            wake_all(self._context)
            return row
        raise Busy(CHANGED_TOO_OFTEN)


def check_version(row: JobRow, wanted: int | None) -> None:
    """Raise `VersionConflict` if a job is not at the version that is wanted; None: any will do."""
    if wanted is not None and row.version != wanted:
        raise VersionConflict(f"the job is at version {row.version} by now, not {wanted}; read it again, then decide")


def _cancel(row: JobRow, if_version: int | None) -> JobMove:
    # A cancelled job has an empty plan for any definition; only the caller checks the version.
    return JobMove(
        namespace=row.namespace,
        job_id=row.job_id,
        action=JobAction.CANCEL,
        replan=silence(),
        expected_version=if_version,
    )
