"""Create a job, and edit one.

    new   form ──► preview, faults at their fields ──► created
    edit  form ──► review: what changes, and the next times before and after ──► saved, with the version that was read
                     └─ changed meanwhile: by whom, part by part; you decide where both changed the same ──► review

A form that is refused comes back as it was typed. What is saved was shown before (`digest`), and the job is at the
version that was shown (`if_version`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from uuid import UUID
from zoneinfo import available_timezones

import msgspec
from starlette.responses import RedirectResponse, Response

from tickwise.control.audit.service import AuditService
from tickwise.control.bodies import TEXT_MAX, JobBody, JobChangeBody, PreviewBody
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.cluster import ClusterService
from tickwise.control.jobs.changes import ChangeResult
from tickwise.control.jobs.presence import Doing
from tickwise.control.jobs.service import JobService
from tickwise.control.requests import RequestService
from tickwise.control.schedules.previews import Preview
from tickwise.control.schedules.service import ScheduleService
from tickwise.documents.definition import decode_definition
from tickwise.domain.errors import (
    Busy,
    Forbidden,
    Invalid,
    Refused,
    TickwiseError,
    Unavailable,
    VersionConflict,
)
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import time_id
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import JobRow
from tickwise.web import forms
from tickwise.web.editing import fields as job_fields
from tickwise.web.editing import form as job_form
from tickwise.web.editing.changes import FireChange, PartChange, Rival, compared, digest, fires_of, rivals
from tickwise.web.editing.form import Body, Typed
from tickwise.web.editing.values import explained
from tickwise.web.failures import failure_of
from tickwise.web.page import WebPage
from tickwise.web.views.rows import others_at
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
FIRES: Final = 8
VERSION_MOST: Final = 10**15
PREVIEWED: Final = tuple(
    name for name in PreviewBody.__struct_encode_fields__ if name not in ("from", "count", "viewer_timezone")
)
TAKE: Final = "take."
"""The prefix of the choice between two values of a part."""

_jobs: Final = msgspec.json.Decoder(JobBody)
_changes: Final = msgspec.json.Decoder(JobChangeBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedMeanwhile:
    """The changes of another person since the form was opened."""

    by: str | None
    """None: it is not known to this visitor."""
    at: float
    rivals: Sequence[Rival]


@dataclass(slots=True, kw_only=True)
class Sheet:
    """The form of a job as a page shows it."""

    title: str
    action: str
    typed: Typed
    hidden: dict[str, str] = field(default_factory=dict)
    back: str = "/jobs"
    job: JobRow | None = None
    """The job that is edited; None: it is yet to be made, or cannot be read."""
    is_edit: bool = False
    note: str = ""
    meanwhile: ChangedMeanwhile | None = None
    changed: Sequence[PartChange] | None = None
    """None: not looked at."""
    fires: Sequence[FireChange] = ()
    warnings: Sequence[str] = ()
    reviewed: str = ""
    """Names the change that is shown; empty: there is nothing to save."""
    decide: Sequence[str] = ()
    """The parts that two people changed."""
    kept: Sequence[str] = ()
    """The parts that this form leaves alone."""


@cache
def zone_names() -> tuple[str, ...]:
    """The names of time zones that are offered."""
    places = [name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "posix", "right"))]
    return ("UTC", *sorted(places))


async def _shown(visit: Visit, sheet: Sheet, status: int = 200) -> Response:
    """The page; for a script, the preview alone."""
    typed = sheet.typed
    faults = dict(typed.faults)
    preview = None
    if visit.may(ScheduleService.preview):
        preview = await _preview(visit, typed, faults)
    if visit.request.method not in ("GET", "HEAD"):
        typed.faults = {
            name: faults[name] for name in ("", "kind", "schedule_type", *job_fields.FIELDS) if name in faults
        }
    functions: Sequence[str] = ()
    if visit.part is None and visit.may(ClusterService.executors):
        functions = sorted(await visit.control.context.executors.functions())
    values = {
        "sheet": sheet,
        "texts": {**dict.fromkeys(job_fields.FIELDS, ""), "kind": "", "schedule_type": "", **typed.texts},
        "faults": typed.faults,
        "preview": preview,
        "preview_faults": {name: faults[name] for name in faults if name in _of_schedule()},
        "fields": job_fields,
        "zones": zone_names(),
        "functions": functions,
        "others": () if sheet.job is None else await others_at(visit, sheet.job, Doing.EDITS),
        "queue_warning": await _queue_warning(visit, typed),
    }
    return visit.page("job_form.html", values, 200 if visit.part else status)


async def _queue_warning(visit: Visit, typed: Typed) -> str | None:
    """The warning for a queue that nobody serves, as it is typed."""
    queue = typed.texts.get("queue", "").strip()
    if not queue or "queue" in typed.faults or not visit.may(JobService.queue_warning):
        return None
    return await visit.control.jobs.queue_warning(visit.who, queue[:TEXT_MAX])


@cache
def _of_schedule() -> frozenset[str]:
    groups = (
        *job_fields.WHEN.values(),
        (job_fields.ZONE,),
        job_fields.BOUNDS,
        job_fields.CLOCK_CHANGES,
        job_fields.TIMES,
    )
    return frozenset({"schedule_type", *(each.name for group in groups for each in group)})


async def _preview(visit: Visit, typed: Typed, faults: dict[str, str]) -> Preview | None:
    """The next times of what is typed. A fault is noted at its input."""
    if not typed.body or typed.body["when"] is None or not faults.keys().isdisjoint(_of_schedule()):
        return None
    try:
        said = job_form.as_previewed(typed.body, PREVIEWED)
        body = msgspec.convert({**said, "count": FIRES}, PreviewBody)
        return await visit.control.schedules.preview(visit.who, body)
    except msgspec.ValidationError as error:
        refusal: Refused = explained(error)
    except (Invalid, Forbidden) as error:
        refusal = error
    faults.setdefault(job_form.input_of(getattr(refusal, "pointer", None), typed.texts), refusal.detail)
    return None


def _blame(typed: Typed, error: TickwiseError) -> int:
    """Note a refusal; the status of the answer."""
    typed.blame(getattr(error, "pointer", None), error.detail)
    return failure_of(error).status


# ------------------------------------------------------------------------------------------ new


async def new_page(visit: Visit) -> Response:
    """The empty form, or a copy of a job."""
    copied = forms.identifier(visit.query.get("copy"), "copy")
    if copied is not None and visit.may(JobService.get):
        row = await visit.control.jobs.get(visit.who, copied)
        body = job_form.body_of_job(row, decode_definition(row.definition))
        body.update(key=None, owner=None, name=f"Copy of {row.name}"[:TEXT_MAX])
        texts = job_form.texts_of(body)
    else:
        texts = {
            "kind": "shell", "schedule_type": ScheduleType.CRON.value, "timezone": "UTC", "task.method": "GET",
            "overlap": "skip", "on_unknown": "rerun", "payload": "{}", "queue": job_fields.DEFAULTS["queue"],
            "priority": str(job_fields.DEFAULTS["priority"]), "max_retries": str(job_fields.DEFAULTS["max_retries"]),
            "fuse_per_minute": str(job_fields.DEFAULTS["fuse_per_minute"]),
        }  # fmt: skip
    typed = job_form.read(texts)
    typed.faults = {}
    return await _shown(visit, _new(visit, typed))


def _new(visit: Visit, typed: Typed) -> Sheet:
    """The job has its id before it is sent, so a form that is sent twice makes one job."""
    given = forms.identifier(typed.texts.get("job_id"), "job_id") if typed.texts.get("job_id") else None
    job_id = given or time_id(int(visit.now * 1000), visit.control.clock.random_bytes(10))
    return Sheet(
        title="New job", action=visit.url("/jobs/new"), typed=typed, hidden={"job_id": str(job_id)},
        back=visit.url("/jobs"),
    )  # fmt: skip


async def create(visit: Visit) -> Response:
    """Store the job; its page follows."""
    typed = job_form.read(visit.form)
    sheet = _new(visit, typed)
    if visit.part is not None or visit.form.get("action") != "save":
        if visit.form.get("action") == "edit":
            typed.faults = {}
        return await _shown(visit, sheet)
    if typed.faults:
        return await _shown(visit, sheet, 422)
    job_id = sheet.hidden["job_id"]
    try:
        body = _decoded(_jobs, job_form.as_created(typed.body, job_id))
        made = await visit.control.requests.create(visit.who, lambda: body)
    except (Refused, Unavailable) as error:
        return await _shown(visit, sheet, _blame(typed, error))
    if isinstance(made, PendingRequest):
        return visit.page("job_accepted.html", {"name": typed.body["name"], "job_id": job_id}, 202)
    if visit.may(JobService.get):
        return RedirectResponse(visit.url(f"/jobs/{job_id}", done="created"), SEE_OTHER)
    return visit.page("job_accepted.html", {"name": typed.body["name"], "job_id": job_id}, 201)


def _decoded(decoder: Any, text: bytes) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise explained(error) from None


# ------------------------------------------------------------------------------------------ edit


async def edit_page(visit: Visit) -> Response:
    """The form with the job as it is."""
    row = await visit.control.jobs.get(visit.who, visit.uuid("job_id", "job"))
    base = job_form.body_of_job(row, decode_definition(row.definition))
    typed = job_form.read(job_form.texts_of(base))
    typed.faults = {}
    return await _shown(visit, _edit(visit, row, base, typed))


def _edit(visit: Visit, row: JobRow, base: Body, typed: Typed, version: int | None = None) -> Sheet:
    return Sheet(
        title=f"Edit {row.name}",
        action=visit.url(f"/jobs/{row.job_id}/edit"),
        typed=typed,
        hidden={"version": str(version or row.version), "base": msgspec.json.encode(base).decode()},
        back=visit.url(f"/jobs/{row.job_id}"),
        job=row,
        is_edit=True,
        kept=[job_fields.WORDS[part] for part in job_form.PARTS if part in job_form.kept(base)],
        note="The job is cancelled, for good: it takes no change." if row.status is JobStatus.CANCELLED else "",
    )


async def change(visit: Visit) -> Response:
    """Show what the change does, and save it once it was shown."""
    typed = job_form.read(visit.form)
    try:
        row = await visit.control.jobs.get(visit.who, visit.uuid("job_id", "job"))
    except Unavailable as error:
        return await _shown(visit, _away(visit, typed), _blame(typed, error))
    now = job_form.body_of_job(row, decode_definition(row.definition))
    base = _base(visit.form, now)
    version = forms.whole(visit.form.get("version"), "version", 1, VERSION_MOST) or row.version
    sheet = _edit(visit, row, base, typed, version)
    action = visit.form.get("action", "")
    if visit.part is not None or action in ("preview", "edit"):
        if action == "edit":
            typed.faults = {}
        return await _shown(visit, sheet)
    undecided = _decide(visit.form, typed, base)
    if typed.faults:
        return await _shown(visit, sheet, 422)
    if row.version != version:
        return await _meanwhile(visit, row, base, now, typed)
    changed = job_form.changes(base, typed.body)
    sheet.changed = compared(base, {**base, **changed})
    if not changed:
        sheet.note = "Nothing is changed."
        return await _shown(visit, sheet)
    seen = digest(changed, version)
    if action == "save" and visit.form.get("reviewed") == seen and not undecided:
        return await _saved(visit, row, sheet, changed)
    return await _review(visit, row, sheet, changed, undecided)


def _away(visit: Visit, typed: Typed) -> Sheet:
    """The form while the store is away: as it was sent."""
    kept = {name: visit.form.get(name, "") for name in ("version", "base")}
    action = visit.url(visit.request.url.path)
    return Sheet(title="Edit a job", action=action, typed=typed, hidden=kept, is_edit=True)


def _base(form: Mapping[str, str], now: Body) -> Body:
    """The job as it was when the form was opened. One that cannot be read is the job as it is."""
    return job_form.body_of_json(form.get("base", "")) or now


def _decide(form: Mapping[str, str], typed: Typed, base: Body) -> list[str]:
    """Take the values that were chosen where two people changed the same; the parts without a choice."""
    undecided = []
    theirs = {}
    for part in form.get("both", "").split(","):
        if part not in base:
            continue
        choice = form.get(f"{TAKE}{part}")
        if choice == "theirs":
            theirs[part] = base[part]
        elif choice != "yours":
            undecided.append(part)
    if theirs and not typed.faults:
        typed.body.update(theirs)
        typed.texts.update(job_form.texts_of(typed.body))
    return undecided


async def _review(
    visit: Visit, row: JobRow, sheet: Sheet, changed: Mapping[str, Any], undecided: Sequence[str] = ()
) -> Response:
    """The effect of the change, before it is made."""
    typed = sheet.typed
    sheet.decide = undecided
    try:
        tried = await _tried(visit, row, typed.body, changed, dry_run=True)
    except VersionConflict:
        return await _again(visit, row.job_id, sheet)
    except (Refused, Unavailable) as error:
        return await _shown(visit, sheet, _blame(typed, error))
    sheet.fires = fires_of(tried, typed.body["timezone"] or "UTC")
    sheet.warnings = tried.warnings
    sheet.reviewed = digest(changed, row.version)
    return await _shown(visit, sheet)


async def _saved(visit: Visit, row: JobRow, sheet: Sheet, changed: Mapping[str, Any]) -> Response:
    try:
        await _tried(visit, row, sheet.typed.body, changed, dry_run=False)
    except VersionConflict:
        return await _again(visit, row.job_id, sheet)
    except (Refused, Unavailable) as error:
        return await _shown(visit, sheet, _blame(sheet.typed, error))
    return RedirectResponse(visit.url(f"/jobs/{row.job_id}", done="changed"), SEE_OTHER)


async def _tried(visit: Visit, row: JobRow, body: Body, changed: Mapping[str, Any], *, dry_run: bool) -> ChangeResult:
    text = job_form.as_changed(body, changed)
    result = await visit.control.requests.change(
        visit.who, row.job_id, _decoded(_changes, text), text=text, if_version=row.version, dry_run=dry_run
    )
    if not isinstance(result, ChangeResult):  # a change of a version is never buffered
        raise Busy("the change is on its way; open the job again in a moment")
    return result


async def _again(visit: Visit, job_id: UUID, sheet: Sheet) -> Response:
    """The job was changed between our look and our write."""
    row = await visit.control.jobs.get(visit.who, job_id)
    now = job_form.body_of_job(row, decode_definition(row.definition))
    return await _meanwhile(visit, row, _base(sheet.hidden, now), now, sheet.typed)


async def _meanwhile(visit: Visit, row: JobRow, base: Body, now: Body, typed: Typed) -> Response:
    """Your changes upon those of another person, for you to look at."""
    yours = job_form.changes(base, typed.body)
    found = rivals(base, now, yours)
    merged = {**now, **yours}
    again = job_form.read(job_form.texts_of(merged))
    if again.faults or any(again.body[part] != merged[part] for part in yours):
        again = Typed({**typed.texts, **again.texts}, merged)
    sheet = _edit(visit, row, now, again)
    sheet.meanwhile = ChangedMeanwhile(by=await _changed_by(visit, row), at=row.updated_at, rivals=found)
    changed = job_form.changes(now, again.body)
    sheet.changed = compared(now, {**now, **changed})
    if not changed:
        sheet.note = "With that, nothing of yours is left to save."
        return await _shown(visit, sheet, 409)
    answer = await _review(visit, row, sheet, changed, [each.part for each in found if each.decide])
    answer.status_code = 409
    return answer


async def _changed_by(visit: Visit, row: JobRow) -> str | None:
    """The last person that changed a job, for those who may read the audit log."""
    if not visit.may(AuditService.search):
        return None
    query = AuditQuery(namespace=visit.who.namespace, target=str(row.job_id), limit=1)
    found = await visit.control.audit.search(visit.who, query)
    return found[0].source.name if found else None


JOB_FORMS: Final = (
    WebPage(
        method="GET",
        path="/jobs/new",
        name="job_new",
        query=("copy",),
        handler=new_page,
        control=(RequestService.create,),
    ),
    WebPage(method="POST", path="/jobs/new", name="job_create", handler=create, control=(RequestService.create,)),
    WebPage(
        method="GET",
        path="/jobs/{job_id}/edit",
        name="job_edit",
        handler=edit_page,
        control=(JobService.get, RequestService.change),
    ),
    WebPage(
        method="POST",
        path="/jobs/{job_id}/edit",
        name="job_change",
        handler=change,
        control=(JobService.get, RequestService.change),
    ),
)
