"""Analytics over the API: groups, CSV, permissions, and questions that are refused."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import Scene, scene
from tickwise.api.resources.observing.analytics import AnalyticsView
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal
from tickwise.domain.selectors import labels_from
from tickwise.ports.identity import NewKey

VIEWER = "a-viewers-key-for-tests-of-32-characters-or-more"
LABELLED = "a-labelled-key-for-tests-of-32-characters-or-mor"
ELSEWHERE = "a-key-of-elsewhere-for-tests-of-32-characters-or"
FORMULA = '=HYPERLINK("http://evil.example","x")'


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def ran(
    here: Scene, name: str, seconds: float, *, failed: bool = False, key: str | None = None, **body: Any
) -> str:
    """A job that ran once and took so long."""
    said = {"name": name, "schedule_type": "IMMEDIATE", "max_retries": 0, "task": {"kind": "shell", "command": "date"}}
    job_id = (await here.ask("POST", "/jobs", 201, {**said, **body}, key=key))["job_id"]
    holder = await here.join()
    claims = await here.take(holder)
    await here.begin(holder, claims)
    await here.pass_time(seconds)
    state = RunState.FAILED if failed else RunState.SUCCESS
    await here.finish(holder, claims, state, reason="exit_code" if failed else None)
    await here.pass_time(1)
    return str(job_id)


async def text(here: Scene, path: str, **headers: str) -> tuple[str, str]:
    """The media type and the text of an answer."""
    answer = await here.world.client.request("GET", API + path, headers=headers)
    assert 200 == answer.status_code, answer.text
    return answer.headers["content-type"], answer.text


async def test_runs_are_grouped_with_counts_and_spreads(here: Scene) -> None:
    """By job if nothing is said, of the last day, the largest first; the answer says that it is exact."""
    slow = await ran(here, "slow", 20)
    await ran(here, "quick", 2)
    await ran(here, "bad", 4, failed=True)
    found = await here.ask("GET", "/analytics?sort=seconds&top=1")
    assert ("job", "exact", 3, 3) == (found["group_by"], found["coverage"], found["rows_read"], found["groups_found"])
    [first, rest] = found["groups"]
    assert ("group", slow, "slow", 1) == (first["kind"], first["key"], first["name"], first["runs"])
    assert ("rest", None, None, 2, 0.5) == tuple(
        rest[name] for name in ("kind", "key", "name", "runs", "success_ratio")
    )
    total = found["total"]
    assert {"SUCCESS": 2, "FAILED": 1, "CANCELLED": 0, "SKIPPED": 0} == total["by_status"]
    view = msgspec.convert(found, AnalyticsView)
    assert (3, total["by_status"]) == (view.groups_found, view.total.by_status)
    assert (3, 4.0, 20.0) == tuple(total["duration"][name] for name in ("count", "p50", "max"))
    assert 26.0 == total["seconds"]


async def test_hours_and_labels_have_their_names(here: Scene) -> None:
    """An hour is told by its beginning; a label by its value, and runs without it are a row."""
    await ran(here, "a", 1, labels={"team": "data"})
    await here.pass_time(3600)
    await ran(here, "b", 1)
    hours = await here.ask("GET", "/analytics?group_by=hour")
    assert ["2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z"] == [each["key"] for each in hours["groups"]]
    labels = await here.ask("GET", "/analytics?group_by=label:team")
    assert [("group", "data"), ("none", None)] == [(each["kind"], each["key"]) for each in labels["groups"]]
    first = await here.ask("GET", "/analytics?until=2027-01-15T09:00:00Z&from=2027-01-15T08:00:00Z")
    assert ["a"] == [each["name"] for each in first["groups"]]


async def test_a_table_for_spreadsheets_computes_nothing(here: Scene) -> None:
    """By `Accept` or by a parameter; a name that is a formula is a text."""
    await ran(here, FORMULA, 2)
    for path, headers in (("/analytics", {"Accept": "text/csv"}), ("/analytics?format=csv", {})):
        media, said = await text(here, path, **headers)
        assert media == "text/csv; charset=utf-8"
        rows = list(csv.DictReader(io.StringIO(said)))
        assert [("group", f"'{FORMULA}", "1", "2", "exact"), ("total", "", "1", "2", "exact")] == [
            (row["kind"], row["name"], row["runs"], row["duration_p50"], row["coverage"]) for row in rows
        ]
    media, _ = await text(here, "/analytics?format=json", Accept="*/*")
    assert media == "application/json"


async def test_a_caller_with_labels_counts_its_own_jobs(here: Scene) -> None:
    """Also in the total, and by each way to group."""
    await ran(here, "mine", 1, labels={"team": "data"})
    await ran(here, "theirs", 1, labels={"team": "web"}, failed=True)
    principal = Principal("labelled", "default", frozenset({"runs:read"}))
    labels = labels_from({"team": "data"})
    await here.store.keys.add(
        NewKey(key_id=uuid4(), digest=secret_digest(LABELLED.encode()), principal=principal, labels=labels)
    )
    for group_by in ("job", "label:team", "reason", "hour", "executor", "namespace"):
        found = await here.ask("GET", f"/analytics?group_by={group_by}", key=LABELLED)
        assert (1, 1) == (found["total"]["runs"], sum(each["runs"] for each in found["groups"])), group_by
    assert 0 == (await here.ask("GET", "/analytics?status=FAILED", key=LABELLED))["total"]["runs"]


async def test_other_namespaces_are_for_callers_of_the_installation(here: Scene) -> None:
    """All others see their own; without the permission to read runs they see nothing."""
    await ran(here, "here", 1)
    await here.world.key(ELSEWHERE, "jobs:write", "runs:read", namespace="team-a")
    await ran(here, "there", 1, key=ELSEWHERE)
    everywhere = await here.ask("GET", "/analytics?group_by=namespace")
    assert ["default", "team-a"] == [each["key"] for each in everywhere["groups"]]
    theirs = await here.ask("GET", "/analytics?group_by=namespace", key=ELSEWHERE)
    assert [("team-a", 1)] == [(each["key"], each["runs"]) for each in theirs["groups"]]
    assert 1 == (await here.ask("GET", "/analytics"))["total"]["runs"]
    await here.world.key(VIEWER, "jobs:read", name="viewer")
    await here.ask("GET", "/analytics", 403, key=VIEWER)


@pytest.mark.parametrize(
    ("query", "parameter", "said"),
    [
        ("group_by=colour", "group_by", "label:NAME"),
        ("group_by=label:", "group_by", "label:NAME"),
        ("group_by=label", "group_by", "label:NAME"),
        ("group_by=label:%00", "group_by", "U+0000"),
        ("status=RUNNING", "status", "only ended runs"),
        ("from=2027-01-15T09:00:00Z", "from", "earlier"),
        ("from=2027-01-14T00:00:00Z&until=2027-01-13T00:00:00Z", "from", "earlier"),
        ("from=2020-01-14T00:00:00Z", "from", "400 days"),
        ("group_by=hour&from=2026-12-01T00:00:00Z", "from", "31 days"),
        ("from=yesterday", "from", ""),
        ("top=0", "top", ""),
        ("top=101", "top", ""),
        ("sort=size", "sort", "runs, failed, seconds"),
        ("label=team", "label", "name=value"),
        ("executor_id=x", "executor_id", ""),
        ("format=xml", "format", "json, csv"),
        ("due_after=2027-01-15T09:00:00Z", "due_after", ""),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(here: Scene, query: str, parameter: str, said: str) -> None:
    """With the parameter that is wrong, and what may be asked."""
    problem = await here.ask("GET", f"/analytics?{query}", 422)
    assert parameter == problem["parameter"], problem
    assert said in problem["detail"], problem
