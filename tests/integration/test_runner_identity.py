"""The identity token of a real task: its file, and another one in its place while the task goes on."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.packages import program
from tests.support.runners import OWN_USER
from tests.support.waiting import eventually
from tickwise.adapters.blobs import StoredBlobs, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.blobs import log_prefix
from tickwise.ports.runner import Assignment, Verdict
from tickwise.testing.contracts.runner import Listener, assignment

FIRST, SECOND = "eyJhbGciOiJFZERTQSJ9.Zmlyc3Q.c2lnbmF0dXJlLW9uZQ", "eyJhbGciOiJFZERTQSJ9.c2Vjb25k.c2lnbmF0dXJlLXR3bw"
UNTIL_ANOTHER = """
import base64, os, pathlib, time
file = pathlib.Path(os.environ["TICKWISE_IDENTITY_TOKEN_FILE"])
print(file.read_text(), flush=True)
first = again = file.read_bytes()
print(base64.b85encode(first).decode(), oct(file.stat().st_mode & 0o777), file.stat().st_uid == os.getuid(), flush=True)
end = time.monotonic() + 60
while again == first and time.monotonic() < end:
    time.sleep(0.02)
    again = file.read_bytes()
print(base64.b85encode(again).decode(), oct(file.stat().st_mode & 0o777), file.stat().st_uid == os.getuid())
print(file.read_text())
"""


class Tasks:
    """A runner of tasks with tokens."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.blobs: StoredBlobs = open_blobs("memory://")
        given: dict[str, Any] = {"slots": 4, "kill_grace_seconds": 0.2, **settings}
        made = RunnerSettings(blobs=self.blobs, clock=SystemClock(), work_root=folder, **given)
        self.runner, self.listener = ProcessRunner(made), Listener()

    async def log(self, given: Assignment) -> str:
        """What the task said so far."""
        chunks = await self.blobs.list(log_prefix(given.run_id, given.attempt))
        return b"".join([await self.blobs.get(chunk.key) for chunk in chunks]).decode()

    async def renewed(self, isolation: Isolation = Isolation.PROCESS) -> list[str]:
        """The lines of a task whose token is replaced while it goes on."""
        task = {"kind": "python", "source": UNTIL_ANOTHER}
        given = assignment(task, identity_token=FIRST, confinement=Confinement(isolation))
        self.runner.launch([given])

        async def begun() -> bool:
            return "True" in await self.log(given)

        await eventually(begun, within_seconds=60, what="it has read its token")
        self.runner.renew_identity_token(given.run_id, SECOND)
        ending = await self.listener.ending_of(given)
        assert Verdict.OK is ending.verdict, ending
        return (await self.log(given)).splitlines()


@pytest_asyncio.fixture
async def opened(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Tasks]:
    made = Tasks(tmp_path / "attempts", **request.param)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()


def shown(token: str) -> str:
    """The line of a task that reads this token, in a form that is not masked."""
    return f"{base64.b85encode(token.encode()).decode()} 0o400 True"


SETTINGS = [{"run_tasks_as": OWN_USER}, *([{}] if os.geteuid() == 0 else [])]
"""As the executor's user and, of root, as users of their own."""


@pytest.mark.parametrize("opened", SETTINGS, indirect=True)
async def test_a_task_reads_its_token_and_the_one_that_takes_its_place(opened: Tasks) -> None:
    """Owner and mode are those of the first; the tokens themselves are masked in its output."""
    masked, first, second, masked_again = await opened.renewed()
    assert [shown(FIRST), shown(SECOND)] == [first, second]
    assert FIRST not in masked
    assert SECOND not in masked_again


@pytest.mark.parametrize("opened", [{"isolation": "sandbox"}], indirect=True)
async def test_a_task_in_a_sandbox_sees_the_renewed_token(opened: Tasks) -> None:
    """Its folder is mounted, and not the file."""
    program("bwrap")
    _, first, second, _ = await opened.renewed(Isolation.SANDBOX)
    assert [shown(FIRST), shown(SECOND)] == [first, second]


@pytest.mark.parametrize("opened", [{"run_tasks_as": OWN_USER}], indirect=True)
async def test_a_renewal_for_a_task_that_is_not_there_does_nothing(opened: Tasks) -> None:
    """It may have ended a moment before."""
    given = assignment({"kind": "shell", "command": "true"}, identity_token=FIRST)
    opened.runner.renew_identity_token(given.run_id, SECOND)
    opened.runner.launch([given])
    await opened.listener.ending_of(given)
    opened.runner.renew_identity_token(given.run_id, SECOND)
