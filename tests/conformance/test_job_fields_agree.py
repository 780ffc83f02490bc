"""Every place that names a job's fields names those that `tickwise.domain.job_fields` declares, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from tests.style import api_page
from tickwise.api.wire import JobView
from tickwise.cli.commands.fires import preview
from tickwise.cli.commands.jobs import create, edit
from tickwise.cli.commands.run import run
from tickwise.control.bodies import JobBody, JobChangeBody, PreviewBody
from tickwise.documents.definition import Definition, Plan
from tickwise.domain.job_fields import HTTP_OPTIONS, JOB_FIELDS, SCHEDULE_FIELDS, SERVER_FIELDS, WRITTEN_FIELDS, ByHand

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"
DRAWN = {field.name for field in JOB_FIELDS}
SENT = DRAWN | {field.name for field in WRITTEN_FIELDS}
PREVIEWED = {field.name for field in SCHEDULE_FIELDS} | {field.name for field in WRITTEN_FIELDS if field.is_previewed}
ANSWERED = SENT - {field.name for field in WRITTEN_FIELDS if field.reason is ByHand.SHORT_FORM} | set(SERVER_FIELDS)
OPTIONS = {
    **{field.name: (field.option.name,) for field in JOB_FIELDS if field.option is not None},
    **{field.name: field.options for field in WRITTEN_FIELDS},
}
LOOK = {"from", "count", "viewer_timezone"}
"""The fields of a preview that are no fields of a job."""
OWN_OPTIONS = {
    "--atomic", "--ca-file", "--count", "--data-dir", "--dry-run", "--file", "--follow", "--from", "--insecure",
    "--api-key", "--json", "--namespace", "--remove-label", "--replace", "--url", "--utc", "--wait",
    "--dir", "--env", "--lock", "--python", "--requirements", "--start", "--task-file",
}  # fmt: skip
"""Options of the commands that are no fields of a job. `--remove-label` of `jobs edit` is a part of `--label`; those of
the last line are parts of a task (`tests/unit/cli/test_surroundings.py`, `test_environments.py`)."""
SCHEMAS: Any = api_page.description()["components"]["schemas"]


def _options(command: click.Command) -> set[str]:
    """The options of a command that are fields of a job."""
    shown = [given for given in command.params if not (isinstance(given, click.Option) and given.hidden)]
    return {name for given in shown for name in given.opts if name.startswith("--")} - OWN_OPTIONS


def _of(names: set[str]) -> set[str]:
    """The declared options of these fields."""
    return {option for name in names for option in OPTIONS.get(name, ())}


def test_each_field_is_declared_once() -> None:
    """Either drawn, or written out, or set by the server."""
    names = [field.name for field in JOB_FIELDS] + [field.name for field in WRITTEN_FIELDS] + list(SERVER_FIELDS)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("body", [JobBody, JobChangeBody])
def test_bodies_have_the_declared_fields(body: Any) -> None:
    """On create and on PATCH."""
    assert set(body.__struct_encode_fields__) == SENT


def test_the_answer_has_the_declared_fields() -> None:
    """All that is sent but the short forms, and all that only the server sets."""
    assert set(JobView.__struct_encode_fields__) == ANSWERED


def test_previews_take_the_declared_fields() -> None:
    """Those of the schedule and its policies."""
    assert set(PreviewBody.__struct_encode_fields__) - LOOK == PREVIEWED


@pytest.mark.parametrize(
    ("name", "fields"),
    [("JobBody", SENT), ("JobChangeBody", SENT), ("JobView", ANSWERED), ("PreviewBody", PREVIEWED | LOOK)],
)
def test_the_json_schema_has_the_declared_fields(name: str, fields: set[str]) -> None:
    """As clients read it from the description of the API."""
    assert set(SCHEMAS[name]["properties"]) == fields


def test_commands_have_the_declared_options() -> None:
    """`run` sets each field that has an option; `jobs edit` all but the key, which a job keeps, and of tasks the HTTP
    request alone; `jobs create` those that it adds to a file of jobs; `jobs preview` those of the schedule."""
    assert _options(run) == _of(SENT)
    assert _options(edit) == _of(SENT - {"task", "key"}) | {"--http", *HTTP_OPTIONS}
    assert _options(preview) == _of(PREVIEWED)
    assert _of(DRAWN) <= _options(create) <= _of(SENT)


def test_the_reference_pages_name_each_field_and_option() -> None:
    """The page of the API in the table of each body, the page of the commands in its lists."""
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    for name, fields in (("JobBody", SENT), ("PreviewBody", PREVIEWED | LOOK)):
        table = page.split(f"\n### {name}\n")[1].split("\n###")[0]
        assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == fields
    listed = set(re.findall(r"--[a-z-]+", (REFERENCE / "cli.md").read_text(encoding="utf-8")))
    assert _of(SENT) <= listed


TRACE = ("traceparent", "tracestate")
"""Of the request that made a run: a header, and no field of a body."""


def test_the_stored_form_has_the_declared_fields() -> None:
    """But for short forms, columns and the answer's own; the stored keys of limits follow from the limits,
    that of identity tokens from the key."""
    stored = set(Definition.__struct_fields__) - {"limit_key", "rate_key", "job_key", "task_id"} | {"taskId"}
    unstored = {field.name for field in WRITTEN_FIELDS if field.reason in (ByHand.SHORT_FORM, ByHand.COLUMN)}
    assert stored == SENT - unstored | {"task_version", "warnings", "planned_at", *TRACE}
    assert set(Plan.__struct_fields__) == PREVIEWED - unstored | {"planned_at"}
