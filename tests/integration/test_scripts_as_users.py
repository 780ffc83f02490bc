"""Scripts of other users: what they cannot reach is named, and nothing is opened to them for it."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.integration.test_runner_users import Shop, needs_root
from tickwise.ports.runner import TaskLimits, Verdict

FREE, LIMITED = TaskLimits(1 << 20), TaskLimits(1 << 20, cpu_seconds=60.0)


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    made = Shop(private / "work")
    await made.open()
    yield made
    await made.runner.close()


@needs_root
async def test_the_files_that_travel_belong_to_the_task(shop: Shop) -> None:
    """It imports, reads and changes them, in folders too."""
    source = """
import json, os
from helpers.dates import DAY
open("helpers/dates.py", "a").close()
json.dump([DAY, os.getuid() != 0], open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
    task = {"kind": "python", "source": source, "files": {"helpers/dates.py": "DAY = 'Monday'"}}
    for limits in (FREE, LIMITED):
        ending = await shop.ending(task, limits=limits)
        assert (ending.verdict, json.loads(ending.result or "null")) == (Verdict.OK, ["Monday", True]), ending


@needs_root
async def test_the_executors_own_python_may_be_named_by_its_path(shop: Shop) -> None:
    """Where only a copy of it can be reached, the copy runs."""
    ending = await shop.ending({"kind": "python", "source": "import msgspec", "python": sys.executable})
    assert ending.verdict is Verdict.OK, ending


@needs_root
async def test_what_the_tasks_user_cannot_reach_is_named_with_the_user(shop: Shop, tmp_path: Path) -> None:
    """A virtual environment or a folder of root's stays private."""
    private = tmp_path / "private" / "bin"
    private.mkdir()
    (private / "python").symlink_to(sys.executable)
    script: dict[str, Any] = {"kind": "python", "source": "pass"}
    for fields, reason in (
        ({"python": str(private / "python")}, "interpreter_missing"),
        ({"directory": str(private)}, "directory_missing"),
    ):
        ending = await shop.ending(script | fields)
        assert (ending.verdict, ending.reason) == (Verdict.INVALID, reason), ending
        assert "Permission denied (tasks run as the user tickwise-" in (ending.error or "")


@needs_root
async def test_another_python_of_the_machine_runs_a_script_as_its_user(shop: Shop) -> None:
    """With its version on record, and the names of what ended it."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        task = {"kind": "python", "source": "open('made', 'w'); import nothing_of_this_name", "python": python}
        ending = await shop.ending(task | {"directory": folder})
        assert Path(folder, "made").stat().st_uid != 0
    assert (ending.verdict, ending.reason) == (Verdict.INVALID, "module_missing")
