"""Pages of large items end early: what one answer holds is bounded, and the links join all of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import blake2b
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import Scene, scene
from tickwise.documents.calendars import CalendarBody, StoredCalendar, encode_calendar
from tickwise.documents.rulebook import encode_window
from tickwise.domain.calendar.rules import Calendar, Otherwise, Window
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import PAGE_BYTES, Page, RuleKind, RuleRow, StoredTask

LARGE = 900_000
"""Bytes of an item: four of these are a page."""
ITEMS = 10
FOUR_A_PAGE = [4, 4, 2]


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


@pytest.fixture
def shipped(here: Scene, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of text of each page that the store gave."""
    found: list[int] = []

    def weighed(ask: Callable[..., Awaitable[Page[Any]]]) -> Callable[..., Awaitable[Page[Any]]]:
        async def asked(*arguments: Any, **named: Any) -> Page[Any]:
            page = await ask(*arguments, **named)
            found.append(sum(row.text_bytes for row in page))
            return page

        return asked

    for part, names in (
        (here.store.searches, ("jobs", "runs", "letters", "operations")),
        (here.store.tasks, ("page", "versions")),
        (here.store.rules, ("find",)),
    ):
        for name in names:
            monkeypatch.setattr(part, name, weighed(getattr(part, name)))
    return found


async def pages(here: Scene, path: str) -> list[list[Any]]:
    """The pages of a list, joined by their links."""
    found: list[list[Any]] = []
    link = API + path
    while link:
        answer = await here.world.client.get(link)
        assert answer.status_code == 200, answer.text
        assert len(answer.content) < 1.1 * PAGE_BYTES
        found.append(answer.json())
        link = answer.headers.get("link", "").partition(">")[0].removeprefix("<")
    return found


async def sizes(here: Scene, path: str, name: str, shipped: list[int]) -> tuple[list[int], list[Any]]:
    """How many items each page of a list has, and all their values of `name`. No page shipped more than its bound."""
    shipped.clear()
    found = await pages(here, path)
    assert len(shipped) >= len(found)
    assert max(shipped) <= PAGE_BYTES
    return [len(page) for page in found], [item[name] for page in found for item in page]


async def runs_of(here: Scene, count: int, **end: Any) -> tuple[str, list[str]]:
    """A job, and its runs that ended so, newest first."""
    job_id = await here.create(every="1h", overlap="allow", max_retries=0)
    for _ in range(count):
        await here.ask("POST", f"/jobs/{job_id}/runNow", 202)
        await here.pass_time(1)
    number = await here.join(slots=100)
    claims = await here.take(number, limit=100)
    assert count == await here.begin(number, claims)
    await here.finish(number, claims, **end)
    return job_id, sorted((str(claim.run_id) for claim in claims), reverse=True)


async def keep_task(here: Scene, task_id: str, command: str) -> None:
    """A version of a stored task, which may be larger than the API takes."""
    digest = blake2b(command.encode(), digest_size=32).hexdigest()
    await here.store.tasks.put(
        StoredTask(
            namespace="default",
            task_id=task_id,
            version=0,
            name=task_id,
            task=json.dumps({"kind": "shell", "command": command}),
            digest=digest,
            created_by="ada",
            created_at=0.0,
        )
    )


# ------------------------------------------------------------------------------------------ each list


async def test_pages_of_large_jobs(here: Scene, shipped: list[int]) -> None:
    """By whatever search they are found; their payloads come whole."""
    made = []
    for number in range(ITEMS):
        made.append(await here.create(name=f"large {number}", every="1h", payload="x" * LARGE))
        await here.pass_time(61)
    for query in (
        "limit=100",
        "limit=100&name=large",
        "limit=100&status=SCHEDULED",
        "limit=500&schedule_type=INTERVAL",
    ):
        assert (FOUR_A_PAGE, made[::-1]) == await sizes(here, f"/jobs?{query}", "job_id", shipped), query
    assert {LARGE} == {len(job["payload"]) for page in await pages(here, "/jobs") for job in page}


async def test_one_item_larger_than_a_page_is_a_page(here: Scene, shipped: list[int]) -> None:
    """Else nobody would come past it. (A store may hold one from before a limit was made smaller.)"""
    for task_id, size in (("a", 1), ("b", PAGE_BYTES + 1), ("c", 1)):
        await keep_task(here, task_id, "x" * size)
    found: list[Any] = []
    link = f"{API}/tasks"
    while link:
        answer = await here.world.client.get(link)
        found.append([task["taskId"] for task in answer.json()])
        link = answer.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert [["a"], ["b"], ["c"]] == found
    assert PAGE_BYTES < max(shipped) < PAGE_BYTES + 100


async def test_pages_of_runs_with_large_results(here: Scene, shipped: list[int]) -> None:
    """Among all runs, and of one job; with states and without."""
    job_id, made = await runs_of(here, ITEMS, result=json.dumps("x" * LARGE))
    for path in ("/runs?limit=100", f"/jobs/{job_id}/runs?limit=100", "/runs?limit=100&status=SUCCESS"):
        assert (FOUR_A_PAGE, made) == await sizes(here, path, "run_id", shipped), path
    assert {LARGE} == {len(run["result"]) for page in await pages(here, "/runs") for run in page}


async def test_a_page_of_runs_reads_no_payload(here: Scene, shipped: list[int]) -> None:
    """None is shown, so none makes it shorter."""
    job_id = await here.create(every="1h")
    for _ in range(ITEMS):
        await here.ask("POST", f"/jobs/{job_id}/runNow", 202, {"payload": "x" * LARGE})
    counts, found = await sizes(here, f"/jobs/{job_id}/runs?limit=100", "run_id", shipped)
    assert ([ITEMS], ITEMS, [0]) == (counts, len(set(found)), shipped)


async def test_pages_of_large_runs_around_skips_to_come(here: Scene, shipped: list[int]) -> None:
    """The list is then merged from two searches, each of which may be cut: no skip shows, and each run comes once."""
    job_id, made = await runs_of(here, ITEMS, result=json.dumps("x" * LARGE))
    for _ in range(3):
        await here.ask("POST", f"/jobs/{job_id}/skipNext")
    await here.ask("POST", f"/jobs/{job_id}/runNow", 202)
    newest = (await here.ask("GET", f"/jobs/{job_id}/runs?limit=1"))[0]["run_id"]
    for path in ("/runs?limit=100", f"/jobs/{job_id}/runs?limit=100", f"/jobs/{job_id}/runs?limit=3"):
        counts, found = await sizes(here, path, "run_id", shipped)
        assert [newest, *made] == found, path
        assert max(counts) <= 5
    assert 3 == len(await here.ask("GET", f"/jobs/{job_id}/runs?status=SKIPPED"))


async def test_pages_of_dead_letters_with_large_texts(here: Scene, shipped: list[int]) -> None:
    """Their errors come; results and payloads of their runs are not shown, and not read."""
    _, made = await runs_of(here, ITEMS, state=RunState.FAILED, error="x" * LARGE, result=json.dumps("y" * LARGE))
    assert (FOUR_A_PAGE, made) == await sizes(here, "/dead-letters?limit=100", "run_id", shipped)


async def test_pages_of_operations_with_large_requests(here: Scene, shipped: list[int]) -> None:
    """The payload that all retried runs are to have is kept with the request."""
    made = []
    for _ in range(ITEMS):
        body = {"filter": {"all": True}, "payload": "x" * LARGE}
        made.append((await here.ask("POST", "/runs:retry", 202, body))["operation_id"])
        await here.pass_time(1)
    assert (FOUR_A_PAGE, made[::-1]) == await sizes(here, "/operations?limit=100", "operation_id", shipped)


async def test_pages_of_large_tasks_and_of_their_versions(here: Scene, shipped: list[int]) -> None:
    """By id, and newest first."""
    for number in range(ITEMS):
        for task_id in (f"task-{number}", "z"):
            await keep_task(here, task_id, str(number) + "x" * LARGE)
    named = [*(f"task-{number}" for number in range(ITEMS)), "z"]
    assert ([4, 4, 3], named) == await sizes(here, "/tasks?limit=100", "taskId", shipped)
    versions = list(range(ITEMS, 0, -1))
    assert (FOUR_A_PAGE, versions) == await sizes(here, "/tasks/z/versions?limit=100", "version", shipped)


@pytest.mark.parametrize("kind", RuleKind)
async def test_pages_of_large_calendars_and_windows(here: Scene, shipped: list[int], kind: RuleKind) -> None:
    """By name."""
    times = StoredCalendar(Calendar("UTC", ()), CalendarBody(), ("x" * LARGE,))
    for number in range(ITEMS):
        name = f"rule-{number}"
        window = Window(name, times.calendar, {}, Otherwise.SKIP, "")
        body = encode_calendar(times) if kind is RuleKind.CALENDAR else encode_window(window, times)
        await here.store.rules.put(RuleRow(namespace="default", kind=kind, name=name, body=body))
    named = [f"rule-{number}" for number in range(ITEMS)]
    assert (FOUR_A_PAGE, named) == await sizes(here, f"/{kind.value}s?limit=100", "name", shipped)


# ------------------------------------------------------------------------------------------ small items


async def test_a_limit_of_small_items_is_what_it_was(here: Scene, shipped: list[int]) -> None:
    """A page has as many as were asked for, and the last one no link."""
    made = []
    for _ in range(12):
        made.append(await here.create(every="1h"))
        await here.pass_time(61)
    for limit, expected in ((5, [5, 5, 2]), (6, [6, 6]), (12, [12]), (500, [12])):
        assert (expected, made[::-1]) == await sizes(here, f"/jobs?limit={limit}", "job_id", shipped)
