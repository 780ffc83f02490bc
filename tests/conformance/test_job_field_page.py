"""A contributor follows `docs/how-to/add-a-job-field.md` in a copy of the source; the whole program has the field."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tickwise.documents.definition import Definition, Plan
from tickwise.domain.job_fields import JOB_FIELDS, SCHEDULE_FIELDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/add-a-job-field.md"
DECLARATION, STORED = "src/tickwise/domain/job_fields.py", "src/tickwise/documents/definition.py"
STEPS = (
    (DECLARATION, ")\nSCHEDULE_FIELDS", "{step},\n)\nSCHEDULE_FIELDS"),
    (STORED, "    on_unknown: OnUnknown = OnUnknown.RERUN\n", "{step}\n    on_unknown: OnUnknown = OnUnknown.RERUN\n"),
    (DECLARATION, ")\nSCHEDULE_FIELDS", "{step},\n)\nSCHEDULE_FIELDS"),
    (STORED, "    calendars: tuple[CalendarUse, ...] = ()\n", "{step}\n    calendars: tuple[CalendarUse, ...] = ()\n"),
    (STORED, "anchor=self.anchor,\n", "anchor={step},\n"),
)
"""For each step of the page: its file, the text there that it replaces, and by what. The first two add a plain field,
the others a policy of the schedule."""
_STEP = re.compile(r"`(src/tickwise/[\w/]+\.py)`.*?```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers of a program with the field of the page."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for (name, text), (_, before, after) in zip(_steps(), STEPS, strict=True):
        path, step = folder / name, text.rstrip("\n")
        source = path.read_text(encoding="utf-8")
        assert before in source
        step = indent(step, "    ") if after.startswith("{step}") else step
        path.write_text(source.replace(before, after.replace("{step}", step)), encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.added_field", str(folder / "findings.json")]
    environ = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answers: dict[str, Any] = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    assert answers["source"] == str(folder / "src/tickwise")
    return answers


def test_a_field_needs_two_files_and_its_meaning() -> None:
    """The page names the declaration and the stored form, and no third file that must change."""
    assert [name for name, _, _ in STEPS] == [name for name, _ in _steps()]
    assert {DECLARATION, STORED} == {name for name, _, _ in STEPS}


def test_the_field_is_stored_and_read_back(found: dict[str, Any]) -> None:
    """In either spelling. A default is answered and not stored; executors read the value."""
    api = found["api"]
    assert (10.0, False) == (api["default"], api["default_stored"])
    assert (30.0, 30.0, 30.0) == (api["sent"], api["stored"], api["read_by_executors"])
    assert api["spelled"] == 7.0
    assert api["members"].index("cool_down_seconds") == api["members"].index("timeout_seconds") + 1


def test_a_change_sets_keeps_and_resets_it(found: dict[str, Any]) -> None:
    """A PATCH without the field leaves it; `null` is the default."""
    assert (45.0, 45.0, 10.0) == tuple(found["api"][name] for name in ("changed", "left", "reset"))


def test_a_wrong_value_is_explained(found: dict[str, Any]) -> None:
    """With the field's pointer and the limit that it breaks; on the command line with the option."""
    too_much, no_number = found["api"]["too_much"], found["api"]["no_number"]
    assert (422, "/cool_down_seconds") == (too_much["status"], too_much["pointer"])
    assert "3600" in too_much["detail"]
    assert (422, "/cool_down_seconds") == (no_number["status"], no_number["pointer"])
    assert "--cool-down" in found["cli"]["refused"]


def test_the_field_has_an_option(found: dict[str, Any]) -> None:
    """Of the commands that create a job and of the one that changes it; all read 1m."""
    assert found["cli"]["run"] == 60.0
    assert found["cli"]["edit"] == {"cool_down_seconds": 120.0}
    assert len(found["cli_page"]) == 3


def test_the_field_is_described(found: dict[str, Any]) -> None:
    """In the JSON Schema of bodies and answers, with limits and description, and on the page of the API."""
    said = found["schema"]["JobBody"]
    assert said == found["schema"]["JobChangeBody"]
    assert (0, 3600) == (said["minimum"], said["maximum"])
    assert said["description"].startswith("After a failure")
    assert found["schema"]["JobView"] == {"type": "number"}
    assert any("After a failure" in line for line in found["api_page"])


def test_a_policy_of_the_schedule_is_everywhere(found: dict[str, Any]) -> None:
    """It is stored, answered, changed, an option, and described; the body of previews has it as the body of jobs."""
    policy = found["policy"]
    assert (0.0, 90.0, 90.0, 30.0) == tuple(policy[name] for name in ("default", "sent", "stored", "changed"))
    said = policy["schema"]["JobBody"]
    assert said == policy["schema"]["PreviewBody"] == policy["schema"]["JobChangeBody"]
    assert (0, 3600) == (said["minimum"], said["maximum"])
    assert {"type": "number"} == policy["schema"]["JobView"]
    assert 2 == len([line for line in policy["api_page"] if line.startswith("| `offset_seconds` |")])
    assert 4 == len(policy["cli_page"])
    assert (60.0, 60.0) == (policy["run_option"], policy["preview_option"])


def test_a_policy_of_the_schedule_moves_the_fires_of_a_preview(found: dict[str, Any]) -> None:
    """Of a schedule that is not saved, and of a job; a wrong value is refused with its pointer."""
    policy = found["policy"]
    assert ["2031-01-01T01:00:00Z", "2031-01-01T02:00:00Z"] == policy["preview_without"]
    assert ["2031-01-01T00:01:30Z", "2031-01-01T01:01:30Z"] == policy["preview"] == policy["preview_of_job"]
    assert (422, "/offset_seconds") == (policy["refused"]["status"], policy["refused"]["pointer"])


def test_the_stored_form_is_as_declared() -> None:
    """Each declared field is in `Definition`, with the declared default; a policy of the schedule is in `Plan` too."""
    for field in JOB_FIELDS:
        assert Definition.__struct_defaults__[_place(Definition, field.name)] == field.default
    assert {field.name for field in SCHEDULE_FIELDS} <= set(Plan.__struct_fields__)


def _steps() -> list[tuple[str, str]]:
    """The file and the text of each step, in the order of the page."""
    found: list[tuple[str, str]] = _STEP.findall(PAGE.read_text(encoding="utf-8"))
    return found


def _place(struct: Any, name: str) -> int:
    """Where the default of a field stands among the defaults."""
    fields = struct.__struct_fields__
    return int(fields.index(name) - (len(fields) - len(struct.__struct_defaults__)))
