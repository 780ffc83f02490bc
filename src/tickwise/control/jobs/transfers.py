"""A job goes from one namespace to another: what its definition names must be there, too.

    the job as it is ──► its stored task, script, calendars, channels, successors: there as well? ──► transferred
                              └─► Conflict, with the name of each that is missing

Nothing is copied for it, so a move that is refused, or that a crash ends, leaves nothing in the other namespace.
Windows are chosen by labels, not by name: those of the other namespace hold from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.environments.declarations import EnvironmentDeclarations
from tickwise.control.jobs.links import RACES_MAX
from tickwise.control.jobs.moves import CHANGED_TOO_OFTEN
from tickwise.control.rules import calendars_known, channels_known
from tickwise.control.wakeups import wake_all
from tickwise.documents.definition import Definition, decode_definition
from tickwise.domain.audit import AuditAction, AuditEntry
from tickwise.domain.errors import Busy, Conflict, NotFound, VersionConflict
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.domain.scripts.files import stored_digests
from tickwise.ports.blobs import script_key
from tickwise.ports.store import JobRow, JobTransfer

SHA256: Final = "sha256:"

logger = structlog.get_logger("tickwise.jobs")


class _Script(msgspec.Struct):
    """The part of a task that may name a stored script."""

    kind: str
    file: object = None
    files: dict[str, Any] = {}


_script: Final = msgspec.json.Decoder(_Script)


class JobTransfers:
    """Moves jobs between namespaces."""

    def __init__(self, context: ControlContext, declarations: EnvironmentDeclarations) -> None:
        """`declarations` is told of moved jobs: each namespace has environments of its own."""
        self._context = context
        self._declarations = declarations

    async def transfer(self, who: Principal, to: str, job_id: UUID) -> JobRow:
        """Move a job; the same again changes nothing. Raises `NotFound`; `Conflict` as `JobStore.move`, and code
        `references_missing`."""
        store = self._context.store
        for _ in range(RACES_MAX):
            row = await store.jobs.get(who.namespace, job_id) or await store.jobs.get(to, job_id)
            if row is None:
                row = await self._context.job(who, job_id)
            if row.namespace == to:
                return row
            definition = decode_definition(row.definition)
            await self._check_references(definition, to)
            transfer, audit = _transfer(who, row, to)
            try:
                moved = await self._context.surely(lambda: store.jobs.move(transfer, audit=audit))  # noqa: B023 - awaited within the turn
            except VersionConflict:
                continue
            wake_all(self._context)
            self._declarations.note_change(moved)
            logger.info("job_moved", job_id=str(job_id), namespace=transfer.namespace, to=to, by=who.name)
            return moved
        raise Busy(CHANGED_TOO_OFTEN)

    async def _check_references(self, definition: Definition, to: str) -> None:
        """Raise `Conflict` if something that the definition names is not in that namespace."""
        missing = []
        if definition.task_id is not None:
            task = await self._context.store.tasks.get(to, definition.task_id, definition.task_version)
            if task is None or task.task.encode() != bytes(definition.task):
                missing.append(f"the task {definition.task_id} in version {definition.task_version}, with its content")
        for what, digest in _contents_of(definition):
            if not await self._has_script(to, digest):
                missing.append(f"the {what} {SHA256}{digest}")
        named = {use.name for use in definition.calendars}
        known = await calendars_known(self._context, to, named) if named else frozenset()
        missing += [f"the calendar {name}" for name in sorted(named - known)]
        channels = await channels_known(self._context, to) if definition.notify else frozenset()
        missing += [f"the channel {name}" for name in definition.notify if name not in channels]
        for successor in dict.fromkeys((*definition.then, *definition.on_failure)):
            found = await self._context.store.jobs.get(to, successor)
            if found is None or found.status is JobStatus.CANCELLED:
                missing.append(f"the job {successor}, which follows it")
        if missing:
            raise Conflict(
                f"the job names what the namespace {to} does not have: {'; '.join(missing)}. Add it there, or take it "
                "out of the job; then move the job",
                code="references_missing",
            )

    async def _has_script(self, namespace: str, digest: str) -> bool:
        try:
            await self._context.blobs.get_range(script_key(namespace, digest), 0, 1)
        except NotFound:
            return False
        return True


def _transfer(who: Principal, row: JobRow, to: str) -> tuple[JobTransfer, AuditEntry]:
    """The transfer, with the entry of the namespace that receives the job; the entry of the one that it leaves."""
    left, arrived = (
        entry(who, AuditAction.JOB_MOVED, "job", row.job_id, namespace=namespace, detail=detail)
        for namespace, detail in ((row.namespace, {"to": to}), (to, {"from": row.namespace}))
    )
    transfer = JobTransfer(
        namespace=row.namespace, job_id=row.job_id, to=to, expected_version=row.version, arrival=arrived
    )
    return transfer, left


def _contents_of(definition: Definition) -> Sequence[tuple[str, str]]:
    """The digests of the stored script that the job runs, and of the files that travel with it, each after its kind."""
    try:
        task = _script.decode(definition.task)
    except msgspec.MsgspecError:
        return ()
    is_stored = task.kind == "python" and isinstance(task.file, str) and task.file.startswith(SHA256)
    scripts = [("script", str(task.file).removeprefix(SHA256))] if is_stored else []
    return [*scripts, *(("file", digest) for digest in stored_digests({"files": task.files}))]
