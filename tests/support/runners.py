"""What the tests of runners share: an executor that only listens, and assignments to give."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import psutil
import pytest
from obstore.store import MemoryStore

from tickwise.adapters.blobs import StoredBlobs
from tickwise.adapters.runner import process_tree
from tickwise.ports.blobs import Blobs, log_prefix
from tickwise.ports.runner import Assignment, Ending, TaskLimits

PATIENCE_SECONDS = 60.0
OWN_USER = "root" if os.geteuid() == 0 else None
"""For `run_tasks_as`, in tests of what tasks do for the user who runs the tests: in files of theirs, for instance. That
tasks are other users has tests of its own (`test_runner_users`)."""


class BrokenBlobs(StoredBlobs):
    """Memory that takes nothing, for a reason that no retry mends."""

    def __init__(self, error: Exception) -> None:
        super().__init__(MemoryStore())
        self.error = error

    async def put(self, key: str, content: bytes) -> None:
        raise self.error


class Listener:
    """Keeps what a runner reports, and lets a test wait for it."""

    def __init__(self) -> None:
        self.begun: dict[UUID, float] = {}
        self.endings: dict[UUID, list[Ending]] = {}
        self.order: list[tuple[str, UUID]] = []
        self._changed = asyncio.Event()

    def began(self, run_id: UUID, started: float) -> None:
        assert run_id not in self.begun, "began was reported twice"
        assert run_id not in self.endings, "began was reported after the end"
        self.begun[run_id] = started
        self.order.append(("began", run_id))
        self._changed.set()

    def ended(self, run_id: UUID, ending: Ending) -> None:
        self.endings.setdefault(run_id, []).append(ending)
        self.order.append(("ended", run_id))
        self._changed.set()

    def ended_many(self, endings: Sequence[tuple[UUID, Ending]]) -> None:
        for run_id, ending in endings:
            self.ended(run_id, ending)

    async def until_begun(self, assignment: Assignment) -> float:
        await self._until(lambda: assignment.run_id in self.begun)
        return self.begun[assignment.run_id]

    async def ending_of(self, assignment: Assignment) -> Ending:
        await self._until(lambda: assignment.run_id in self.endings)
        (ending,) = self.endings[assignment.run_id]
        return ending

    async def _until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def assignment(task: Mapping[str, Any], payload: Any = None, **changes: Any) -> Assignment:
    """A first attempt, due now."""
    now = time.time()
    made = Assignment(
        run_id=uuid4(),
        token=7,
        job_id=uuid4(),
        namespace="default",
        attempt=1,
        due=now,
        nominal=now,
        task=task,
        payload=json.dumps({} if payload is None else payload).encode(),
        timeout_seconds=None,
        limits=TaskLimits(1 << 20),
    )
    return made._replace(**changes)


@contextlib.contextmanager
def without_kill(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> Iterator[None]:
    """As if processes hung inside the kernel: in `modules`, no signal reaches one, and each look finds them."""

    def nothing(_leader: int, _number: signal.Signals) -> None: ...

    def sweep(tree: process_tree.Tree) -> process_tree.Look:
        return process_tree.Look({tree.leader}, is_certain=True)

    with monkeypatch.context() as patch:
        for module in modules:
            patch.setattr(module, "signal_group", nothing)
        patch.setattr(process_tree, "_kill_sweep", sweep)
        yield


def gone(pid: int) -> bool:
    """Nothing of this process runs any more."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def log_of(blobs: Blobs, given: Assignment) -> str:
    """The whole log; it must be complete, or not there at all."""
    chunks = await blobs.list(log_prefix(given.run_id, given.attempt))
    if not chunks:
        return ""
    assert chunks[-1].key.endswith(".last"), f"the log is not complete: {chunks}"
    return b"".join([await blobs.get(chunk.key) for chunk in chunks]).decode()
