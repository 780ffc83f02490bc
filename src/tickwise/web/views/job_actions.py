"""The actions on a job: pause, resume, run now, skip the next occurrence, snooze it, cancel it.

A form that is refused comes back with what was typed, and the fault at its field.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from tickwise.control.bodies import MissedMode, PauseBody, ResumeBody, RunNowBody, SkipNextBody, SnoozeBody
from tickwise.control.jobs.service import JobService
from tickwise.control.requests import RequestService
from tickwise.control.schedules.service import ScheduleService
from tickwise.documents.definition import decode_definition
from tickwise.domain.errors import Conflict, Invalid, VersionConflict
from tickwise.ports.store import JobRow, Replay
from tickwise.web import forms, once
from tickwise.web.page import Handler, WebPage
from tickwise.web.views.jobs import show_job
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
VERSION_MOST: Final = 10**15


def done(visit: Visit, job_id: UUID, what: str) -> Response:
    """Back to the job, which says what was done."""
    return RedirectResponse(visit.url(f"/jobs/{job_id}", done=what), SEE_OTHER)


def kept(handler: Callable[[Visit, UUID], Awaitable[Response]]) -> Handler:
    """The handler of a form that keeps what was typed when control refuses it."""

    async def handled(visit: Visit) -> Response:
        job_id = visit.uuid("job_id", "job")
        try:
            return await handler(visit, job_id)
        except (Invalid, Conflict, VersionConflict) as refusal:
            if not visit.may(JobService.get):
                raise
            status = 422 if isinstance(refusal, Invalid) else 409
            return await show_job(visit, typed=visit.form, fault=refusal, status=status)

    return handled


async def pause(visit: Visit, job_id: UUID) -> Response:
    """Stop its schedule, for a reason, until a time."""
    row = await visit.control.jobs.to_change(visit.who, job_id)
    body = PauseBody(reason=forms.text(visit.form, "reason"), until=forms.moment(visit.form, "until", _zone(row)))
    await visit.control.jobs.pause(visit.who, job_id, body, if_version=_version(visit))
    return done(visit, job_id, "paused")


async def resume(visit: Visit, job_id: UUID) -> Response:
    """Let its schedule go on."""
    body = ResumeBody(missed=forms.choice(MissedMode, visit.form.get("missed") or MissedMode.SKIP, "missed"))
    await visit.control.jobs.resume(visit.who, job_id, body, if_version=_version(visit))
    return done(visit, job_id, "resumed")


async def run_now(visit: Visit, job_id: UUID) -> Response:
    """Make a run beside the schedule; its page follows."""
    payload = forms.json_text(visit.form, "payload")
    body = RunNowBody() if payload is None else RunNowBody(payload=payload)
    receipt_for = once.receipt_for(visit, f"/jobs/{job_id}/run-now", lambda run: run)
    made = await visit.control.jobs.run_now(visit.who, job_id, body, receipt_for)
    run_id = once.made_before(made) if isinstance(made, Replay) else made
    return RedirectResponse(visit.url(f"/runs/{run_id}"), SEE_OTHER)


async def skip_next(visit: Visit, job_id: UUID) -> Response:
    """The next occurrence does not run."""
    body = SkipNextBody(
        reason=forms.text(visit.form, "reason"), occurrence=forms.moment(visit.form, "occurrence", "UTC")
    )
    await visit.control.schedules.skip_next(visit.who, job_id, body)
    return done(visit, job_id, "skipped")


async def snooze(visit: Visit, job_id: UUID) -> Response:
    """The next occurrence runs at another time."""
    row = await visit.control.jobs.to_change(visit.who, job_id)
    until = forms.moment(visit.form, "until", _zone(row))
    if until is None:
        raise Invalid("say until when", pointer="/until")
    body = SnoozeBody(until=until, occurrence=forms.moment(visit.form, "occurrence", "UTC"))
    await visit.control.schedules.snooze(visit.who, job_id, body)
    return done(visit, job_id, "snoozed")


async def cancel(visit: Visit, job_id: UUID) -> Response:
    """End it for good."""
    if visit.form.get("confirm") != "yes":
        raise Invalid("tick the box: a cancelled job never runs again", pointer="/confirm")
    await visit.control.requests.cancel(visit.who, job_id, if_version=_version(visit))
    return done(visit, job_id, "cancelled")


def _zone(row: JobRow) -> str:
    return decode_definition(row.definition).timezone


def _version(visit: Visit) -> int | None:
    """The version of the job that the visitor saw: a change of another person in between is told."""
    return forms.whole(visit.form.get("version"), "version", 1, VERSION_MOST)


def _action(
    name: str, handler: Callable[[Visit, UUID], Awaitable[Response]], control: Callable[..., object]
) -> WebPage:
    path = f"/jobs/{{job_id}}/{name}"
    return WebPage(method="POST", path=path, name=f"job_{name}", handler=kept(handler), control=(control,))


JOB_ACTIONS: Final = (
    _action("pause", pause, JobService.pause),
    _action("resume", resume, JobService.resume),
    _action("run-now", run_now, JobService.run_now),
    _action("skip-next", skip_next, ScheduleService.skip_next),
    _action("snooze", snooze, ScheduleService.snooze),
    _action("cancel", cancel, RequestService.cancel),
)
