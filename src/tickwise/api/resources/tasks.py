"""`/tasks`: scripts and task definitions that many jobs share."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.conditions import etag, guarded, tag_of
from tickwise.api.endpoint import (
    LIMIT_SAID,
    Call,
    Endpoint,
    Reply,
    answer,
    cursor_text,
    foreign_cursor,
    given,
    page_links,
    page_of,
)
from tickwise.api.reading import SCRIPT_TYPES, decode, field_names
from tickwise.api.wire import API, TaskView, encode, task_view
from tickwise.control.bodies import TaskBody
from tickwise.control.tasks import FoundTask, TaskService
from tickwise.domain.errors import NotFound
from tickwise.ports.store import StoredTask

SCRIPT_ANSWER: Final = b"text/x-python; charset=utf-8"
_VERSION = re.compile(r"[1-9]\d{0,8}")
_task: Final = msgspec.json.Decoder(TaskBody)


class TasksQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The part of the list."""

    limit: Annotated[int, Meta(ge=1, le=500, description=LIMIT_SAID)] = 50
    cursor: (
        Annotated[
            str,
            Meta(
                max_length=1_000,
                pattern=r"^[A-Za-z0-9_-]+$(?!\n)",
                description="From the `Link` header of the page before.",
            ),
        ]
        | UnsetType
    ) = UNSET


class TaskQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The version."""

    version: Annotated[int, Meta(ge=1, le=1_000_000_000, description="The newest if it is not given.")] | UnsetType = (
        UNSET
    )


class ScriptQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The facts about a script beside its text."""

    name: (
        Annotated[str, Meta(min_length=1, max_length=200, description="The name for people; it stays if not given.")]
        | UnsetType
    ) = UNSET


class ScriptText(msgspec.Struct):
    """A Python script, as it lies in a file."""


async def task_put(call: Call) -> Reply:
    """Store a task."""
    body = decode(_task, call.body, field_names(TaskBody))
    stored = await call.control.tasks.put(call.principal, body)
    return answer(201, task_view(stored))


def _shown(row: StoredTask) -> bytes:
    """The answer to a GET of the task, from which its tag is made."""
    return encode(task_view(row))


async def script_put(call: Call) -> Reply:
    """Store a script as it is."""
    query: ScriptQuery = call.query
    task_id = call.path_values["task_id"]

    async def look() -> tuple[FoundTask, bytes | None]:
        found = await call.control.tasks.to_replace(call.principal, task_id)
        return found, None if found.task is None else tag_of(_shown(found.task))

    async def write(found: FoundTask | None) -> Reply:
        done = await call.control.tasks.put_script(
            call.principal, task_id, call.body, name=given(query.name), found=found
        )
        shown = _shown(done.task)
        return Reply(201 if done.created else 200, shown, etag(shown))

    return await guarded(call.conditions, look, write)


async def script_get(call: Call) -> Reply:
    """The text of a script."""
    task_id, said = call.path_values["task_id"], call.path_values["version"]
    if not _VERSION.fullmatch(said):
        raise NotFound(f"no task {task_id[:200]!r} is stored in version {said[:100]!r}; versions are 1, 2, 3, …")
    content = await call.control.tasks.script(call.principal, task_id, int(said))
    # A stored script is text: no browser may take it for a page.
    return Reply(200, content, [], SCRIPT_ANSWER)


async def task_versions(call: Call) -> Reply:
    """A page of the versions of a task, newest first."""
    query: TasksQuery = call.query
    before = None if query.cursor is UNSET else _version_of(query.cursor)
    rows = await call.control.tasks.versions(call.principal, call.path_values["task_id"], before, query.limit + 1)
    page, more = page_of(rows, query.limit)
    last = str(page[-1].version) if more else None
    return answer(200, [task_view(row) for row in page], headers=page_links(call, last))


def _version_of(cursor: str) -> int:
    text = cursor_text(cursor)
    if not _VERSION.fullmatch(text):
        raise foreign_cursor()
    return int(text)


async def task_get(call: Call) -> Reply:
    """One version of a task."""
    query: TaskQuery = call.query
    found = await call.control.tasks.get(call.principal, call.path_values["task_id"], given(query.version))
    return answer(200, task_view(found))


async def tasks_list(call: Call) -> Reply:
    """A page of tasks, by id."""
    query: TasksQuery = call.query
    after = None if query.cursor is UNSET else cursor_text(query.cursor)
    rows = await call.control.tasks.page(call.principal, after, query.limit + 1)
    page, more = page_of(rows, query.limit)
    last = page[-1].task_id if more else None
    return answer(200, [task_view(row) for row in page], headers=page_links(call, last))


TASKS: Final = (
    Endpoint(
        method="POST", path=f"{API}/tasks", control=TaskService.put, name="storeTask", tag="tasks",
        summary="Store a script or a task as a new version; unless its content is that of the newest version.",
        handler=task_put, body=TaskBody, answers=(TaskView,), status=201,
    ),
    Endpoint(
        method="GET", path=f"{API}/tasks", control=TaskService.page, name="listTasks", tag="tasks",
        summary="The newest version of each stored task, by id.",
        handler=tasks_list, answers=(list[TaskView],), query=TasksQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/tasks/{{task_id}}", control=TaskService.get, name="getTask", tag="tasks",
        summary="A stored task.", handler=task_get, answers=(TaskView,), query=TaskQuery, refuses=(404,),
        conditional=True,
    ),
    Endpoint(
        method="PUT", path=f"{API}/tasks/{{task_id}}", control=TaskService.put_script, name="uploadScript", tag="tasks",
        summary="Upload a Python script, as it lies in a file, as a new version of a task.",
        description="`curl -T script.py -H 'Content-Type: text/x-python' …`. The content and name of the newest "
        "version again is that version.",
        handler=script_put, body=ScriptText, media=SCRIPT_TYPES, answers=(TaskView,), further=(201,), query=ScriptQuery,
        conditional=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/tasks/{{task_id}}/versions", control=TaskService.versions, name="listTaskVersions",
        tag="tasks", summary="The versions of a stored task, newest first.",
        handler=task_versions, answers=(list[TaskView],), query=TasksQuery, refuses=(404,),
    ),
    Endpoint(
        method="GET", path=f"{API}/tasks/{{task_id}}/versions/{{version}}/source", control=TaskService.script,
        name="getTaskSource", tag="tasks", summary="The text of the Python script that a version of a task runs.",
        handler=script_get, answer_media=("text/x-python",), refuses=(404,), conditional=True,
    ),
)  # fmt: skip
