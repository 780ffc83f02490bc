"""Stops: a scope, a reason, a time; what one would hold back, what it holds back, and its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import RunQuery

CUSTOMER = {"customer": "x"}
HOURLY = {"cron": "0 * * * *", "labels": CUSTOMER}
STOP = {"labels": CUSTOMER, "reason": "their database moves"}
NINE = "2027-01-15T09:00:00Z"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def stopped(here: Scene, **said: Any) -> Any:
    """A stop of the customer."""
    return (await here.ask("POST", "/stops", 201, {**STOP, **said}))["stop"]


async def test_a_stop_lasts_an_hour_unless_somebody_says_otherwise(here: Scene) -> None:
    """From now on, what is due meanwhile is held; all that was said is told again."""
    made = await stopped(here)
    told = {name: made[name] for name in ("from", "until", "meanwhile", "in_force", "over", "lifted_by", "reason")}
    assert {
        "from": "2027-01-15T08:00:00Z", "until": NINE, "meanwhile": "hold", "in_force": True, "over": False,
        "lifted_by": None, "reason": "their database moves",
    } == told  # fmt: skip
    assert ("the jobs with the label customer=x", CUSTOMER, "admin") == (made["scope"], made["labels"], made["by"])
    assert [made] == await here.ask("GET", "/stops")
    assert made == await here.ask("GET", f"/stops/{made['stop_id']}")


async def test_a_stop_without_an_end_lasts_until_it_is_lifted(here: Scene) -> None:
    """That has to be said, as null."""
    made = await stopped(here, until=None)
    assert (None, True) == (made["until"], made["in_force"])
    await here.pass_time(400 * 86_400)
    assert (await here.ask("GET", f"/stops/{made['stop_id']}"))["in_force"]
    lifted = await here.ask("POST", f"/stops/{made['stop_id']}/lift")
    assert (True, "admin") == (lifted["over"], lifted["lifted_by"])
    assert [] == await here.ask("GET", "/stops")


async def test_stops_that_are_over_are_listed_when_asked_for(here: Scene) -> None:
    """Those that ended by themselves, too; the newest first."""
    first = await stopped(here)
    await here.pass_time(3601)
    second = await stopped(here)
    assert [second["stop_id"]] == [each["stop_id"] for each in await here.ask("GET", "/stops")]
    found = await here.ask("GET", "/stops?standing=false")
    assert [(second["stop_id"], False), (first["stop_id"], True)] == [(each["stop_id"], each["over"]) for each in found]


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({}, "/labels"),
        ({"all": True, "queue": "mail"}, "/queue"),
        ({"labels": CUSTOMER, "job_id": "019a2b3c-4d5e-8f60-9123-456789abcdef"}, "/job_id"),
        ({"all": True, "reason": "  "}, "/reason"),
        ({"all": True, "from": "2027-01-15T07:00:00Z"}, "/from"),
        ({"all": True, "until": "2027-01-15T07:59:00Z"}, "/until"),
        ({"all": True, "from": "2027-01-15T10:00:00Z", "until": NINE}, "/until"),
        ({"all": True, "until": "2030-01-15T10:00:00Z"}, "/until"),
    ],
)
async def test_what_is_no_stop_is_refused_with_its_field(here: Scene, said: Any, pointer: str) -> None:
    """By the preview as by the stop itself."""
    body = {"reason": "a release", **said}
    for path in ("/stops", "/stops:preview"):
        found = await here.ask("POST", path, 422, body)
        assert pointer == found["pointer"], found
    assert [] == await here.ask("GET", "/stops?standing=false")


async def test_a_job_that_is_not_there_cannot_be_stopped(here: Scene) -> None:
    """Nor can a stop that is not there be lifted."""
    nothing = "019a2b3c-4d5e-8f60-9123-456789abcdef"
    await here.ask("POST", "/stops", 404, {"job_id": nothing, "reason": "a release"})
    await here.ask("POST", f"/stops/{nothing}/lift", 404)
    await here.ask("GET", f"/stops/{nothing}", 404)


async def test_a_preview_counts_what_a_stop_would_hold_back(here: Scene) -> None:
    """Fires in its time, waiting and running runs, with the first of them; nothing is changed."""
    job_id = await here.create(**HOURLY)
    await here.create(cron="*/30 * * * *", labels={"customer": "y"})
    for _ in range(3):
        await here.create(schedule_type="IMMEDIATE", labels=CUSTOMER)
    number = await here.join()
    claims = await here.take(number, limit=1)
    await here.begin(number, claims)
    until = {"until": "2027-01-15T10:30:00Z"}
    found = await here.ask("POST", "/stops:preview", 200, {**STOP, **until})
    assert (1, 2, 2, 1, False) == tuple(found[name] for name in ("jobs", "fires", "waiting", "running", "more"))
    assert [{"job_id": job_id, "name": "a", "first_fire": NINE, "fires": 2}] == found["sample"]
    assert [str(claims[0].run_id)] == [each["run_id"] for each in found["going"]]
    assert [] == await here.ask("GET", "/stops")
    whole = await here.ask("POST", "/stops:preview", 200, {"all": True, "reason": "a release", **until})
    assert (2, 6) == (whole["jobs"], whole["fires"])
    queue = await here.ask("POST", "/stops:preview", 200, {"queue": "mail", "reason": "a release", **until})
    assert (0, 0, 0) == (queue["jobs"], queue["fires"], queue["waiting"])
    job = await here.ask("POST", "/stops:preview", 200, {"job_id": job_id, "reason": "a release", **until})
    assert (1, 2) == (job["jobs"], job["fires"])


async def test_what_a_stop_holds_back_runs_once_afterwards(here: Scene) -> None:
    """And says meanwhile, on the job and on the run, what holds it back."""
    job_id, beside = await here.create(**HOURLY), await here.create(cron="0 * * * *")
    made = await stopped(here, until="2027-01-15T10:30:00Z")
    number = await here.join()
    await here.schedule(7200 + 60)
    assert {beside} == {str(each.job_id) for each in await here.take(number)}
    told = await here.explain(job_id)
    assert ("held_stopped", made["stop_id"]) == (told["code"], told["data"]["stop_id"])
    assert told["sentence"] == (
        "The occurrence of 2027-01-15 09:00 (UTC) and 1 after it is held back until 2027-01-15 10:30 (UTC), and will "
        "be one run then: stopped by admin: their database moves (the jobs with the label customer=x)."
    )
    await here.schedule(1800)
    claims = [each for each in await here.take(number) if str(each.job_id) == job_id]
    assert 1 == len(claims)


async def test_what_waits_says_what_stops_it(here: Scene) -> None:
    """The scope, the person, the end, the reason."""
    job_id = await here.create(schedule_type="IMMEDIATE", labels=CUSTOMER)
    made = await stopped(here)
    number = await here.join()
    assert [] == await here.take(number)
    told = await here.explain(job_id)
    assert "waiting_stopped" == told["code"]
    assert told["sentence"].endswith(
        "waits: the jobs with the label customer=x were stopped by admin, until 2027-01-15 09:00 (UTC): their database "
        "moves."
    )
    assert {
        "stop_id": made["stop_id"], "scope": made["scope"], "stopped_by": "admin", "stopped_until": NINE,
        "reason": "their database moves",
    }.items() <= told["data"].items()  # fmt: skip


async def test_a_run_that_began_late_says_that_it_was_stopped(here: Scene) -> None:
    """Also when the stop is over."""
    await here.create(schedule_type="IMMEDIATE", labels=CUSTOMER)
    made = await stopped(here)
    number = await here.join()
    await here.pass_time(600)
    await here.ask("POST", f"/stops/{made['stop_id']}/lift")
    claims = await here.take(number)
    await here.begin(number, claims)
    await here.pass_time(1)
    await here.finish(number, claims)
    told = await here.explain_run(claims[0].run_id)
    assert "late_stopped" == told["code"]
    assert "were stopped by admin, until 2027-01-15 08:10 (UTC): their database moves" in told["sentence"]


async def test_an_occurrence_that_a_stop_skipped_says_so(here: Scene) -> None:
    """On its record."""
    job_id = await here.create(**HOURLY)
    made = await stopped(here, meanwhile="skip", until="2027-01-15T09:30:00Z")
    await here.schedule(3600 + 60)
    told = await here.explain(job_id, "09:00:00")
    assert ("skipped_stopped", made["stop_id"]) == (told["code"], told["data"]["closed_by"])
    assert "stopped by admin: their database moves" in told["sentence"]


async def test_what_comes_in_a_stop_is_announced(here: Scene) -> None:
    """A stop to come moves the next run that a job shows."""
    job_id = await here.create(**HOURLY)
    await stopped(here, **{"from": "2027-01-15T08:59:00Z", "until": "2027-01-15T09:20:00Z"})
    told = await here.explain(job_id)
    assert "The job is not due until 2027-01-15 09:20 (UTC), for its time 2027-01-15 09:00 (UTC)" in told["sentence"]


async def test_a_snoozed_run_waits_for_the_end_of_a_stop(here: Scene) -> None:
    """Its time is a person's; the stop came after."""
    job_id = await here.create(**HOURLY)
    await here.ask("POST", f"/jobs/{job_id}/snooze", 200, {"until": "2027-01-15T09:10:00Z"})
    made = await stopped(here, until="2027-01-15T09:30:00Z")
    number = await here.join()
    await here.schedule(4200 + 60)
    assert [] == await here.take(number)
    await here.ask("POST", f"/stops/{made['stop_id']}/lift")
    assert 1 == len(await here.take(number))


async def test_running_runs_go_on_unless_their_cancel_is_asked_for(here: Scene) -> None:
    """Then an operation cancels them: those of the scope, and no others."""
    await here.create(schedule_type="IMMEDIATE", labels=CUSTOMER)
    await here.create(schedule_type="IMMEDIATE")
    number = await here.join()
    claims = await here.take(number)
    await here.begin(number, claims)
    assert (await here.ask("POST", "/stops", 201, STOP))["cancel_operation"] is None
    made = await here.ask("POST", "/stops", 201, {**STOP, "cancel_running": True})
    operation = await here.ask("GET", f"/operations/{made['cancel_operation']}")
    assert ("runs:cancel", {"status": ["RUNNING"], "labels": CUSTOMER}) == (
        operation["kind"],
        operation["request"]["filter"],
    )


async def test_who_may_not_cancel_runs_cannot_do_it_by_a_stop(here: Scene) -> None:
    """The stop without it is theirs."""
    key = await here.ask("POST", "/keys", 201, {"name": "ops", "permissions": ["jobs:operate"]})
    secret = key["key"]
    await here.ask("POST", "/stops", 403, {**STOP, "cancel_running": True}, key=secret)
    assert [] == await here.ask("GET", "/stops")
    await here.ask("POST", "/stops", 201, STOP, key=secret)
    found = await here.ask("POST", "/stops:preview", 200, STOP, key=secret)
    assert ([], []) == (found["sample"], found["going"])


async def test_a_viewer_sees_stops_and_makes_none(here: Scene) -> None:
    """Reading is `jobs:read`."""
    made = await stopped(here)
    key = (await here.ask("POST", "/keys", 201, {"name": "v", "permissions": ["jobs:read"]}))["key"]
    assert [made] == await here.ask("GET", "/stops", key=key)
    await here.ask("POST", "/stops", 403, STOP, key=key)
    await here.ask("POST", "/stops:preview", 403, STOP, key=key)
    await here.ask("POST", f"/stops/{made['stop_id']}/lift", 403, key=key)


async def test_what_is_already_running_ends_as_it_ends(here: Scene) -> None:
    """A stop is no cancel."""
    await here.create(schedule_type="IMMEDIATE", labels=CUSTOMER)
    number = await here.join()
    claims = await here.take(number)
    await here.begin(number, claims)
    await stopped(here)
    await here.pass_time(1)
    await here.finish(number, claims)
    [row] = await here.store.searches.runs(RunQuery(namespace="default", limit=10))
    assert RunState.SUCCESS is row.state
