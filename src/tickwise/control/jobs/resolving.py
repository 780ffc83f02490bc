"""The names and texts in a body: its calendars and its task are there, and each text can be stored.

    JobBody, Scene ──► calendars known ──► texts clean ──► task | taskId | name ──► the job's name, ResolvedTask

Pure. The order is the order of the refusals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.control.jobs.scene import Scene
from tickwise.control.tasks import CheckedTask, TaskCheck, stored_as_checked
from tickwise.control.texts import clean_id, clean_name, clean_text
from tickwise.documents.definition import CalendarUse
from tickwise.domain.errors import Invalid
from tickwise.domain.job_fields import JOB_FIELDS

_TEXTS: Final = tuple(field.name for field in JOB_FIELDS if field.kind is str)


class ResolvedTask(NamedTuple):
    """The task that a body means."""

    task: CheckedTask
    name: str | None
    """The name of a stored task."""
    task_id: str | None = None
    version: int | None = None
    warning: str | None = None


def resolve(
    body: JobBody, calendars: Sequence[CalendarUse], scene: Scene, check: TaskCheck
) -> tuple[str, ResolvedTask]:
    """The name of the job that the body means, and its task. Raises `Invalid`."""
    if calendars:
        check_calendars(calendars, scene.calendars)
    check_texts(body)
    task = resolve_task(body, scene, check)
    name = body.name or (task.name if task else None)
    if not name:
        raise Invalid("a job needs a name", pointer="/name")
    clean_name(name, "/name")
    if task is None and scene.serving.is_known and name not in scene.serving.functions:
        raise Invalid(
            f"the job has no task, and no active executor offers a function of its name {name[:100]!r}; send a task, "
            'such as {"kind": "shell", "command": "…"}. For a function that executors will offer later, name it: '
            '{"kind": "function", "name": "…"}',
            pointer="/task",
            code="task_missing",
        )
    return name, own_function(name, check) if task is None else task


def resolve_task(body: JobBody, scene: Scene, check: TaskCheck) -> ResolvedTask | None:
    """The task of `task` or `taskId`; None if the body names neither."""
    if body.task_id:
        if body.task is not UNSET:
            raise Invalid("task and taskId contradict each other; send one of them", pointer="/taskId")
        stored = scene.tasks.get(body.task_id)
        if stored is None:
            raise Invalid(
                f"no task {body.task_id!r} is stored; store it with POST /api/v1/tasks first",
                pointer="/taskId",
                code="task_unknown",
            )
        return ResolvedTask(stored_as_checked(stored), stored.name, stored.task_id, stored.version)
    if body.task is not UNSET:
        task = check.inline(bytes(body.task), scene.scripts)
        return ResolvedTask(task, None, warning=task.unchecked and f"{UNCHECKED}: {task.unchecked}")
    return None


UNCHECKED: Final = "the syntax of the script was not checked"
TASK_MISSING: Final = "task_missing"
OWN_FUNCTION: Final = "no task was given, so the job runs the registered function of its own name, "


def own_function(name: str, check: TaskCheck) -> ResolvedTask:
    """The registered function of the job's own name: what a job without a task runs."""
    said = f"{OWN_FUNCTION}{name!r}"
    return ResolvedTask(check.function(name), None, warning=said)


def check_texts(body: JobBody) -> None:
    """Refuse the character that no store keeps."""
    if body.key:
        clean_id(body.key, "/key")
    if body.owner:
        clean_text(body.owner, "/owner")
    for name in _TEXTS:
        text = getattr(body, name)
        if text:
            clean_text(text, f"/{name}")
    if body.labels:
        for label, value in body.labels.items():
            pointer = "/labels/" + label.replace("~", "~0").replace("/", "~1")
            clean_text(label, "/labels")
            clean_text(value, pointer)


def checked_channels(names: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The names of `notify`, each once. Refuse a missing channel: nobody would be told. Raises `Invalid`."""
    missing = [(place, name) for place, name in enumerate(names) if name not in known]
    if missing:
        listed = ", ".join(repr(name) for _, name in missing)
        there = f"there are {', '.join(sorted(known)[:20])}" if known else "make one first: tickwise channels add"
        raise Invalid(
            f"there is no channel {listed}; {there}", pointer=f"/notify/{missing[0][0]}", code="channel_unknown"
        )
    return tuple(dict.fromkeys(names))


def check_calendars(uses: Sequence[CalendarUse], known: Collection[str]) -> None:
    """Refuse a missing calendar: the job would run as if without one."""
    for place, use in enumerate(uses):
        if use.name not in known:
            raise Invalid(
                f"there is no calendar {use.name!r}; create it first",
                pointer=f"/calendars/{place}/name",
                code="calendar_unknown",
            )
