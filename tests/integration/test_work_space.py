"""The room of a task on a disk: bytes and files, with real files of real processes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.disks import small_disk_of_test
from tests.support.runners import OWN_USER
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.process.space.work_space import MAX_DEPTH
from tickwise.adapters.runner.process.tree import disk_bytes_of
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.capacities import size_in_words
from tickwise.ports.runner import Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of

MEGABYTE = 1 << 20
FREE = TaskLimits(1 << 20)
SMALL = FREE._replace(disk_bytes=4 * MEGABYTE)


class Shop:
    """A runner of processes, and what it reports."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = open_blobs("memory://")
        self.listener = Listener()
        self.runner: ProcessRunner

    async def open(self, **given: Any) -> None:
        given = {"run_tasks_as": OWN_USER, **given}
        self.runner = ProcessRunner(
            RunnerSettings(blobs=self.blobs, clock=SystemClock(), work_root=self.root, kill_grace_seconds=0.2, **given)
        )
        await self.runner.start(self.listener, time.time)

    async def shell(self, command: str, limits: TaskLimits = SMALL) -> Ending:
        given = assignment({"kind": "shell", "command": command}, limits=limits)
        self.runner.launch([given])
        return await self.listener.ending_of(given)


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop(tmp_path / "work")
    yield made
    await made.runner.close()


async def test_a_task_that_fills_its_work_folder_is_ended(shop: Shop) -> None:
    """With a reason of its own and the limit in the error: by many files, which no wall stops."""
    await shop.open()
    many = "i=0; while :; do head -c 100000 /dev/zero > f$i; i=$((i+1)); done"
    ending = await shop.shell(many)
    assert (Verdict.FAILED, "disk_limit") == (ending.verdict, ending.reason)
    assert size_in_words(4 * MEGABYTE) in (ending.error or "")
    assert ending.usage is not None
    assert (ending.usage.work_bytes or 0) > 4 * MEGABYTE


@pytest.mark.parametrize("place", ["$TICKWISE_WORK_FOLDER", "$TMPDIR"])
async def test_one_large_file_meets_a_wall(shop: Shop, place: str) -> None:
    """It never grows far beyond the limit, however quick the task is; temporary files count."""
    await shop.open()
    ending = await shop.shell(f'head -c 64M /dev/zero > "{place}/f"; ls -l "{place}/f"; exit 3')
    assert (Verdict.FAILED, "disk_limit") == (ending.verdict, ending.reason)
    assert ending.usage is not None
    assert 4 * MEGABYTE < (ending.usage.work_bytes or 0) < 5 * MEGABYTE


async def test_a_file_that_is_open_and_has_no_name_counts(shop: Shop) -> None:
    """Several, so that no wall stops them."""
    await shop.open()
    hide = 'for i in 3 4 5 6 7; do eval "exec $i> hidden"; rm hidden; eval "head -c 1M /dev/zero >&$i"; done; sleep 60'
    assert "disk_limit" == (await shop.shell(hide)).reason


async def test_the_number_of_files_is_limited(shop: Shop) -> None:
    """Folders and links are files; names of one file are one."""
    await shop.open()
    limits = FREE._replace(files=20)
    linked = "touch a; for i in $(seq 50); do ln a b$i; done"
    assert Verdict.OK is (await shop.shell(linked, limits)).verdict
    for make in ("touch f$i", "mkdir f$i", "ln -s / f$i"):
        ending = await shop.shell(f"for i in $(seq 50); do {make}; done; sleep 60", limits)
        assert (Verdict.FAILED, "file_limit") == (ending.verdict, ending.reason)
        assert "20" in (ending.error or "")


async def test_nothing_is_hidden_in_the_depth(shop: Shop) -> None:
    """Folders deeper than a look goes count as passed."""
    await shop.open()
    deep = f"for i in $(seq {MAX_DEPTH + 2}); do mkdir d && cd d || exit 1; done; sleep 60"
    assert "disk_limit" == (await shop.shell(deep)).reason


async def test_a_task_within_its_room_notices_nothing_of_it(shop: Shop) -> None:
    """And what lies behind a link is not its own."""
    await shop.open()
    given = "head -c 1M /dev/zero > f; ln -s /usr u; rm -rf gone; exit 7"
    ending = await shop.shell(given)
    assert (Verdict.FAILED, "exit_code") == (ending.verdict, ending.reason)


async def test_an_executor_has_a_limit_for_jobs_that_say_none(shop: Shop) -> None:
    """One of the job's own wins."""
    await shop.open(task_disk_bytes=MEGABYTE)
    large = "head -c 2M /dev/zero > f"
    assert "disk_limit" == (await shop.shell(large, FREE)).reason
    assert Verdict.OK is (await shop.shell(large, SMALL)).verdict


async def test_without_a_limit_the_room_at_the_end_is_told(shop: Shop) -> None:
    """Of what it has left there."""
    await shop.open()
    ending = await shop.shell("sleep 0.2; head -c 1M /dev/zero > f", FREE)
    assert ending.usage is not None
    assert MEGABYTE <= (ending.usage.work_bytes or 0) < 2 * MEGABYTE


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 16 MB."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    try:
        with small_disk_of_test(folder, 16):
            yield folder
    finally:
        folder.rmdir()


async def test_a_task_that_fills_the_disk_takes_no_other_one_along(tmp_path: Path, small_disk: Path) -> None:
    """Without any limit: it fails, its folder is removed, and the next task runs."""
    made = Shop(small_disk / "work")
    await made.open()
    try:
        ending = await made.shell("head -c 1G /dev/zero > f", FREE)
        assert Verdict.FAILED is ending.verdict
        given = assignment({"kind": "shell", "command": "echo well"})
        made.runner.launch([given])
        assert Verdict.OK is (await made.listener.ending_of(given)).verdict
        assert "well\n" == await log_of(made.blobs, given)
    finally:
        await made.runner.close()


async def test_bytes_from_and_to_disks_are_on_record(shop: Shop, tmp_path: Path) -> None:
    """Of the task with what it has waited for, as the kernel counts them: as it does for this process."""
    await shop.open()
    before = disk_bytes_of(os.getpid())
    (tmp_path / "own").write_bytes(os.urandom(3 * MEGABYTE))
    after = disk_bytes_of(os.getpid())
    assert before is not None
    assert after is not None
    is_disk = after.written - before.written >= 3 * MEGABYTE  # not in memory, as /tmp may be
    ending = await shop.shell("sleep 0.2; head -c 3M /dev/urandom > f; cat f > /dev/null", FREE)
    assert ending.usage is not None
    assert ending.usage.written_bytes is not None
    assert (ending.usage.written_bytes >= 3 * MEGABYTE) is is_disk
    assert ending.usage.read_bytes is not None
