"""`/tasks`: scripts and task definitions that many jobs share."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Answer, Call, Endpoint, answer, cursor_text, given, page_links
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API, TaskView, task_view
from tickwise.roles.control.bodies import TaskBody

_task: Final = msgspec.json.Decoder(TaskBody)


class TasksQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which part of the list."""

    limit: Annotated[int, Meta(ge=1, le=500, description="How many.")] = 50
    cursor: (
        Annotated[
            str,
            Meta(
                max_length=1_000, pattern="^[A-Za-z0-9_-]+$", description="From the `Link` header of the page before."
            ),
        ]
        | UnsetType
    ) = UNSET


class TaskQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which version."""

    version: Annotated[int, Meta(ge=1, le=1_000_000_000, description="The newest if it is not given.")] | UnsetType = (
        UNSET
    )


async def task_put(call: Call) -> Answer:
    """Store a task."""
    body = decode(_task, call.body, field_names(TaskBody))
    stored = await call.control.task_put(call.principal, body)
    return answer(201, task_view(stored))


async def task_get(call: Call) -> Answer:
    """One version of a task."""
    query: TaskQuery = call.query
    found = await call.control.task_get(call.principal, call.path_values["task_id"], given(query.version))
    return answer(200, task_view(found))


async def tasks_list(call: Call) -> Answer:
    """A page of tasks, by id."""
    query: TasksQuery = call.query
    after = None if query.cursor is UNSET else cursor_text(query.cursor)
    rows = await call.control.tasks_list(call.principal, after, query.limit + 1)
    page = rows[: query.limit]
    last = page[-1].task_id if len(rows) > query.limit else None
    return answer(200, [task_view(row) for row in page], headers=page_links(call, last))


TASKS: Final = (
    Endpoint(
        method="POST", path=f"{API}/tasks", scope="tasks:write", name="storeTask", tag="tasks",
        summary="Store a script or a task as a new version; the newest content again is that version.",
        handler=task_put, body=TaskBody, answers=(TaskView,), status=201,
    ),
    Endpoint(
        method="GET", path=f"{API}/tasks", scope="tasks:read", name="listTasks", tag="tasks",
        summary="The newest version of each stored task, by id.",
        handler=tasks_list, answers=(list[TaskView],), query=TasksQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/tasks/{{task_id}}", scope="tasks:read", name="getTask", tag="tasks",
        summary="A stored task.", handler=task_get, answers=(TaskView,), query=TaskQuery, refuses=(404,),
    ),
)  # fmt: skip
