"""Counts failures in groups of one cause (`domain.error_groups`).

    failures that are pending ──► fingerprint of each ──► fold: counted, and pending no more (one transaction)

Any number of schedulers at once. Invariant: the store counts a failure only while it is pending, so a page that is
folded twice, by one scheduler after a crash or by two, is counted once.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tickwise.domain.error_groups import fingerprint
from tickwise.ports.store import ErrorGroupStore, FailedJob, GroupedFailure, PendingFailure, PendingFailures

PAGE: Final = 500
"""Failures of one step."""
LOOK_SECONDS: Final = 1.0
TASK_CHARACTERS: Final = 200

_NO_JOB: Final = FailedJob("", "", None)


class _Task(msgspec.Struct):
    """The task of a definition."""

    task: dict[str, Any]


_decode: Final = msgspec.json.Decoder(_Task).decode


class TaskName(NamedTuple):
    """The name of a task."""

    kind: str
    name: str
    """For people: that of the function, the method and host, or the name of the job."""
    identity: str
    """For the fingerprint."""


class ErrorFolding:
    """The grouping of failures by one scheduler."""

    def __init__(self, error_groups: ErrorGroupStore) -> None:
        self._error_groups = error_groups

    async def step(self) -> float:
        """Count a page of failures; how long until the next look."""
        pending = await self._error_groups.pending(PAGE)
        if pending.failures:
            await self._error_groups.fold(grouped(pending))
        return 0.0 if len(pending.failures) >= PAGE else LOOK_SECONDS


def grouped(pending: PendingFailures) -> list[GroupedFailure]:
    """The failures with their causes."""
    tasks = {job_id: task_name(str(job_id), job) for job_id, job in pending.jobs.items()}
    return [_grouped(each, tasks) for each in pending.failures]


def _grouped(failure: PendingFailure, tasks: dict[Any, TaskName]) -> GroupedFailure:
    if failure.namespace is None:
        return GroupedFailure(failure, None, "", "", "", "")
    task = tasks.get(failure.job_id) or task_name(str(failure.job_id), _NO_JOB)
    cause = fingerprint(failure.namespace, reason=failure.reason, error=failure.error, task=task.identity)
    return GroupedFailure(failure, cause.group_id, cause.kind, cause.message, task.kind, task.name)


def task_name(job_id: str, job: FailedJob) -> TaskName:
    """A function by its name and a call by its method and host: many jobs share one. All else by its job, because two
    scripts that exit with status 1 have nothing in common."""
    task: dict[str, Any] = {}
    if job.definition is not None and job.task_kind in ("function", "http"):
        try:
            task = _decode(job.definition).task
        except msgspec.DecodeError:
            task = {}
    name = ""
    if job.task_kind == "function":
        name = str(task.get("name") or "")
    elif job.task_kind == "http" and (host := _host(str(task.get("url") or ""))):
        name = f"{task.get('method') or 'GET'} {host}"
    name = name[:TASK_CHARACTERS]
    if name:
        return TaskName(job.task_kind, name, f"{job.task_kind} {name}")
    return TaskName(job.task_kind, job.name[:TASK_CHARACTERS], f"job {job_id}")


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
