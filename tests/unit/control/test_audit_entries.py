"""Entries about large jobs: made in a moment, with nothing of what they were not looked through for."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.control.audit.entries import READ_BYTES_MAX, entry, fields_of, job_changed
from tickwise.domain.audit import AuditAction, AuditEntry
from tickwise.domain.model import Principal
from tickwise.ports.store import JobChange, JobRow
from tickwise.testing.factories import Factory

ADA = Principal("ada", "default", frozenset())
LARGE = [{"id": number, "note": f"a note {number}"} for number in range(33_000)]
SECRET = "correct horse battery"  # noqa: S105: it is what must not be found


async def stored(was: dict[str, Any], now: dict[str, Any]) -> tuple[JobRow, JobChange]:
    """A job, and a change of its definition."""
    store = MemoryStore(SystemClock())
    make = Factory(await store.now())
    job = make.job(definition=json.dumps(was))
    await store.jobs.add([job])
    row = await store.jobs.get("default", job.job_id)
    assert row is not None
    return row, make.change(row, definition=json.dumps(now))


async def changed(was: dict[str, Any], now: dict[str, Any]) -> AuditEntry:
    """The entry of a job whose definition is changed like this."""
    return job_changed(ADA, *await stored(was, now))


def fields(text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text or "{}")
    return found


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"payload": LARGE}, {"payload": LARGE[1:]}),
        ({"task": {"kind": "own", "rows": LARGE}}, {"task": {"kind": "own", "rows": LARGE[1:]}}),
        ({"task": {"kind": "own", **{str(n): LARGE[:100] for n in range(300)}}}, {"task": {"kind": "own"}}),
        ({"task": {"kind": "own", "rows": LARGE}}, {"task": {"kind": "own", "rows": LARGE}, "timeout_seconds": 5}),
    ],
    ids=["payload", "parameter", "many parameters", "unchanged"],
)
async def test_a_change_of_a_large_job_holds_up_no_other_request(was: dict[str, Any], now: dict[str, Any]) -> None:
    """A definition of 1 MB took half a second to look through."""
    row, change = await stored(was, now)
    taken = []
    for _ in range(5):
        begun = time.thread_time()
        job_changed(ADA, row, change)
        taken.append(time.thread_time() - begun)
    assert min(taken) < 0.05


async def test_what_is_too_large_to_look_through_is_masked_and_shows_that_it_changed() -> None:
    """Small values and texts beside it are shown as ever, and what did not change is left out."""
    rows: list[Any] = [{"password": SECRET}, *LARGE]
    was = {"task": {"kind": "own", "rows": rows, "mode": "a"}, "timeout_seconds": 5, "payload": {"pin": SECRET}}
    now = {"task": {"kind": "own", "rows": rows[:-1], "mode": "b"}, "timeout_seconds": 5, "payload": {"pin": SECRET}}
    made = await changed(was, now)
    assert fields(made.before) == {"task": {"kind": "own", "rows": "***", "mode": "a"}}
    assert fields(made.after) == {"task": {"kind": "own", "rows": "***", "mode": "b"}}
    assert SECRET not in f"{made.before}{made.after}"


async def test_a_list_that_is_too_large_shows_that_it_changed() -> None:
    """Though both sides look alike."""
    made = await changed({"calendars": LARGE}, {"calendars": LARGE[1:]})
    assert (fields(made.before), fields(made.after)) == ({"calendars": "***"}, {"calendars": "***"})


async def test_another_spelling_of_the_same_value_is_no_change() -> None:
    """Of the order of names, and of numbers."""
    made = await changed({"retry": {"a": 1.0, "b": 2}}, {"retry": {"b": 2, "a": 1}, "timeout_seconds": 5})
    assert (fields(made.before), fields(made.after)) == ({}, {"timeout_seconds": 5})


def test_a_large_text_is_shown_by_its_digest() -> None:
    """It needs no search: the digest is of the whole."""
    found = fields_of(json.dumps({"kind": "own", "text": "x" * 2 * READ_BYTES_MAX}))
    made = entry(ADA, AuditAction.TASK_STORED, "task", after={"task": found})
    assert fields(made.after)["task"].keys() == {"sha256", "bytes"}


@pytest.mark.parametrize("value", [4711, 47.11, True])
def test_a_number_under_the_name_of_a_secret_is_masked(value: object) -> None:
    """A PIN is a number; under other names numbers are shown."""
    made = entry(ADA, AuditAction.JOB_CHANGED, "job", detail={"api_token": value, "password": value, "count": 3})
    assert fields(made.detail) == {"api_token": "***", "password": "***", "count": 3}
