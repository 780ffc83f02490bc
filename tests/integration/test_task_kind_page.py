"""A contributor follows `docs/how-to/add-a-task-kind.md` in a copy of the source; `tickwise up` runs the new kind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_up import Local, local_up
from tickwise.adapters.runner.builtin import RUNNERS

ROOT = Path(__file__).resolve().parents[2]
PAGE, PLUGIN = ROOT / "docs/how-to/add-a-task-kind.md", ROOT / "docs/how-to/write-a-plugin.md"
REGISTRATION = "src/tickwise/adapters/runner/builtin.py"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"`(src/tickwise/[\w/]+\.py)`")


def _steps(source: Path) -> None:
    """Follow the page in a copy of the source: the package first, then its registration."""
    written, registered = _FILE.findall(PAGE.read_text(encoding="utf-8"))
    assert registered == REGISTRATION
    package = (source / written).parent
    package.mkdir()
    (package / "__init__.py").touch()
    (source / written).write_text(_BLOCK.findall(PLUGIN.read_text(encoding="utf-8"))[0], encoding="utf-8")
    imported, entry = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    path = source / registered
    text, last = path.read_text(encoding="utf-8"), f"    {RUNNERS[-1].__name__},\n"
    before = "from tickwise.ports.runner import Runner\n"
    assert text.count(last) == text.count(before) == 1
    path.write_text(
        text.replace(before, imported + before).replace(last, f"{last}    {entry.strip()},\n"), encoding="utf-8"
    )


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source with the kind of the page."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    _steps(folder)
    return folder


@pytest.fixture(scope="module")
def up(copied: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles of that program, on a store in memory."""
    environ = {"PYTHONPATH": str(copied / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://", **environ) as found:
        yield found


def _run(up: Local, **task: object) -> dict[str, object]:
    """The run of a job with this task, once it has ended."""
    body = {"name": "wait", "schedule_type": "ON_DEMAND", "max_retries": 0, "task": {"kind": "wait", **task}}
    created = up.tickwise("jobs", "create", "-", "--json", stdin=json.dumps(body))
    assert created.code == 0, created.err
    job = created.json["job_id"]
    up.tickwise("jobs", "run-now", job, "--wait")
    [run] = up.tickwise("jobs", "show", job, "--json").json["runs"]
    assert isinstance(run, dict)
    return run


def test_a_kind_touches_one_file_beside_its_own_package(copied: Path) -> None:
    """All other files of the source are as they were."""
    before = {path.relative_to(ROOT): path.read_bytes() for path in (ROOT / "src").rglob("*.py")}
    after = {path.relative_to(copied): path.read_bytes() for path in (copied / "src").rglob("*.py")}
    own = Path("src/tickwise/adapters/runner/wait")
    changed = {path for path, text in after.items() if before.get(path) != text and path.parent != own}
    assert {Path(REGISTRATION)} == changed
    assert set(before) <= set(after)


def test_a_job_of_the_new_kind_runs(up: Local) -> None:
    """From the request to the recorded end, by the roles that a user starts; also one that fails."""
    assert "SUCCESS" == _run(up, seconds=0)["status"]
    failed = _run(up, seconds=0, fails=True)
    assert ("FAILED", "it was told to fail") == (failed["status"], failed["error_message"])


def test_a_wrong_task_of_the_new_kind_is_refused(up: Local) -> None:
    """By the kind's own check, with a pointer into the task."""
    body = {"name": "wait", "schedule_type": "IMMEDIATE", "task": {"kind": "wait", "seconds": "soon"}}
    refused = up.tickwise("jobs", "create", "-", "--json", stdin=json.dumps(body))
    assert refused.code != 0
    assert "`seconds` must be a number from 0 to 3600" in refused.out + refused.err
