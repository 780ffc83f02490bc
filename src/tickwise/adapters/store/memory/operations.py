"""Operations over many things at once: stored, taken in hand by one scheduler at a time, moved under a fence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.records import OperationRecord
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import NotFound
from tickwise.ports.store import (
    EndedOperation,
    NewOperation,
    OperationRow,
    OperationStatus,
    OperationStep,
    Receipt,
    Replay,
)


class Operations(Duty):
    """`OperationStore` of the port."""

    async def add(
        self, operation: NewOperation, *, receipt: Receipt | None = None, audit: AuditEntry | None = None
    ) -> OperationRow | Replay:
        if (replay := self._state.replay(receipt)) is not None:
            return replay
        self._state.check_open(operation.namespace, or_closing=False)
        self._state.keep(receipt)
        if (stored := self._state.operations.get(operation.operation_id)) is not None:
            return stored.row
        now = self._state.now()
        row = OperationRow(
            operation_id=operation.operation_id,
            namespace=operation.namespace,
            kind=operation.kind,
            request=operation.request,
            created_by=operation.created_by,
            created_at=now,
            updated_at=now,
            ended_at=None,
            status=OperationStatus.RUNNING,
            matched=operation.matched,
            cursor=None,
            step=0,
            done=0,
            refused=0,
            problems="[]",
            asker=operation.asker,
        )
        self._state.operations[row.operation_id] = OperationRecord(row, free_at=now)
        self._state.audit.write(audit)
        return row

    async def record(self, operations: Sequence[EndedOperation]) -> None:
        for operation in operations:
            record_ended(self._state, operation)

    def _find_operation(self, namespace: str, operation_id: UUID) -> OperationRecord | None:
        found = self._state.operations.get(operation_id)
        return found if found is not None and found.row.namespace == namespace else None

    async def get(self, namespace: str, operation_id: UUID) -> OperationRow | None:
        found = self._find_operation(namespace, operation_id)
        return None if found is None else found.row

    async def cancel(self, namespace: str, operation_id: UUID, *, audit: AuditEntry | None = None) -> OperationRow:
        found = self._find_operation(namespace, operation_id)
        if found is None:
            raise NotFound(f"there is no operation {operation_id}")
        if found.row.status is OperationStatus.RUNNING:
            now = self._state.now()
            found.row = replace(found.row, status=OperationStatus.CANCELLED, updated_at=now, ended_at=now)
            self._state.audit.write(audit)
        return found.row

    async def take(self, hold_seconds: float) -> OperationRow | None:
        now = self._state.now()
        free = [
            operation
            for operation in self._state.operations.values()
            if operation.row.status is OperationStatus.RUNNING and operation.free_at <= now
        ]
        if not free:
            return None
        taken = min(free, key=lambda operation: (operation.free_at, operation.row.operation_id))
        taken.free_at = now + hold_seconds
        return taken.row

    async def step(self, step: OperationStep) -> bool:
        found = self._state.operations.get(step.operation_id)
        if found is None:
            return False
        if found.row.step != step.expected_step:
            return found.last == step and found.row.step == step.expected_step + 1
        now, row = self._state.now(), found.row
        if row.status in (OperationStatus.DONE, OperationStatus.FAILED):
            return False
        if step.cursor is None and row.status is OperationStatus.RUNNING:
            row = replace(row, status=OperationStatus.FAILED if step.failed else OperationStatus.DONE, ended_at=now)
        found.row = replace(
            row,
            updated_at=now,
            cursor=step.cursor,
            step=row.step + 1,
            done=row.done + step.done,
            refused=row.refused + step.refused,
            problems=step.problems,
        )
        found.last, found.free_at = step, now
        return True


def record_ended(state: State, operation: EndedOperation) -> None:
    """Put on record what is over already."""
    gone_at = state.namespaces_removed.get(operation.namespace)
    if gone_at is not None and operation.namespace in state.namespaces and operation.created_at <= gone_at:
        return  # it was accepted for a former namespace of the name
    if operation.operation_id in state.operations:
        return
    now, done = state.now(), operation.status is OperationStatus.DONE
    row = OperationRow(
        operation_id=operation.operation_id,
        namespace=operation.namespace,
        kind=operation.kind,
        request=operation.request,
        created_by=operation.created_by,
        created_at=operation.created_at,
        updated_at=now,
        ended_at=now,
        status=operation.status,
        matched=1,
        cursor=None,
        step=0,
        done=int(done),
        refused=int(not done),
        problems=operation.problems,
    )
    state.operations[row.operation_id] = OperationRecord(row, free_at=now)
    state.audit.write(operation.audit)
