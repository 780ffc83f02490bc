"""A kit for the tests of programs that use Tickwise: no server, no network, no waiting.

    run_task(nightly, date(2026, 1, 31))         one call of a task, as a worker makes it
    with MemoryServer() as server:               submits and schedules, in memory, on a clock that the test moves
        nightly.submit(day, at=tomorrow)
        server.clock.advance(days=1)
        server.run_due()

With pytest, the fixture `tickwise_server` is a `MemoryServer` for one test; it comes with this package.
"""

from __future__ import annotations

from tickwise_sdk.testing.clock import VirtualClock
from tickwise_sdk.testing.inline import TaskRun, context_for, run_payload, run_task, run_task_async
from tickwise_sdk.testing.memory import MemoryServer

__all__ = ["MemoryServer", "TaskRun", "VirtualClock", "context_for", "run_payload", "run_task", "run_task_async"]
