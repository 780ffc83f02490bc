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

from tickwise.domain.job_fields import JOB_FIELDS, SCHEDULE_FIELDS
from tickwise.roles.shared.definition import Definition, Plan

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/add-a-job-field.md"
DECLARATION, STORED = "src/tickwise/domain/job_fields.py", "src/tickwise/roles/shared/definition.py"
PLACES = {DECLARATION: (")\nSCHEDULE_FIELDS", ","), STORED: ("    on_unknown: OnUnknown = OnUnknown.RERUN\n", "")}
"""The text before which a step of the page goes, and the sign at its end."""
_STEP = re.compile(r"`(src/tickwise/[\w/]+\.py)`.*?```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers of a program with the field of the page."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in _STEP.findall(PAGE.read_text(encoding="utf-8")):
        path, (before, sign) = folder / name, PLACES[name]
        source, step = path.read_text(encoding="utf-8"), indent(text.rstrip("\n"), "    ") + sign + "\n"
        assert before in source
        path.write_text(source.replace(before, step + before), encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.added_field", str(folder / "findings.json")]
    environ = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answers: dict[str, Any] = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    assert answers["source"] == str(folder / "src/tickwise")
    return answers


def test_a_field_needs_two_files_and_its_meaning() -> None:
    """The page names the declaration and the stored form, and no third file that must change."""
    assert [DECLARATION, STORED] == [name for name, _ in _STEP.findall(PAGE.read_text(encoding="utf-8"))]


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


def test_the_stored_form_is_as_declared() -> None:
    """Each declared field is in `Definition`, with the declared default; a policy of the schedule is in `Plan` too."""
    for field in JOB_FIELDS:
        assert Definition.__struct_defaults__[_place(Definition, field.name)] == field.default
    assert {field.name for field in SCHEDULE_FIELDS} <= set(Plan.__struct_fields__)


def _place(struct: Any, name: str) -> int:
    """Where the default of a field stands among the defaults."""
    fields = struct.__struct_fields__
    return int(fields.index(name) - (len(fields) - len(struct.__struct_defaults__)))
