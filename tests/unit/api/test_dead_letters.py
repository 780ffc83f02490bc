"""Dead letters: what failed for good waits for a person, and is settled once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import DAY, Scene, scene
from tickwise.control.context import DEAD_LETTER_SECONDS
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Began
from tickwise.testing.factories import outcome

AT_ONCE = {"schedule_type": "IMMEDIATE", "max_retries": 0}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def failed(here: Scene, **body: Any) -> str:
    """The id of a run that failed for good."""
    await here.create(**AT_ONCE, **body)
    number = await here.join()
    claims = await here.take(number)
    assert len(claims) == await here.begin(number, claims)
    await here.finish(number, claims, RunState.FAILED, reason="exit_code", error="exit status 7")
    assert 1 == len(claims)
    return str(claims[0].run_id)


async def held(here: Scene, **body: Any) -> str:
    """The id of a run of which nobody knows what it did."""
    await here.create(**AT_ONCE, **body)
    number = await here.join(lease_seconds=10)
    [claim] = await here.take(number)
    start = Began(claim.run_id, claim.token, here.clock.now(), OnUnknown.HOLD)
    assert [] == list(await here.store.attempts.start(number, [start]))
    await here.pass_time(11)
    assert [claim.run_id] == list((await here.store.executors.expire(3)).unknown)
    return str(claim.run_id)


async def letters(here: Scene, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await here.ask("GET", f"/dead-letters{query}")
    return found


async def refused(here: Scene, path: str, status: int, body: Any = None) -> dict[str, Any]:
    """The problem that the API answers."""
    found: dict[str, Any] = await here.ask("POST", path, status, body)
    return found


async def finished_again(here: Scene) -> Claimed:
    """The one run that waits, run to a good end."""
    [claim] = await here.work(await here.join())
    return claim


# ------------------------------------------------------------------------------------------ looked at


async def test_a_failed_run_is_an_open_dead_letter(here: Scene) -> None:
    """With why it failed; a run that went well is none."""
    await here.create(schedule_type="IMMEDIATE")
    await here.work(await here.join())
    run_id = await failed(here, name="report")
    [found] = await letters(here)
    assert (run_id, "report", "shell", "open", "exit_code", "exit status 7", 1) == tuple(
        found[name] for name in ("run_id", "job_name", "task_kind", "status", "reason", "error_message", "failures")
    )
    assert found["log_url"] == f"{API}/runs/{run_id}/logs"


async def test_one_letter_tells_of_all_attempts(here: Scene) -> None:
    """Each with where its output is."""
    await here.create(schedule_type="IMMEDIATE", payload={"a": 1})
    number = await here.join()
    for state in (RunState.RETRYING, RunState.FAILED):
        claims = await here.take(number)
        assert 1 == await here.begin(number, claims)
        more = {"retry_at": here.clock.now()} if state is RunState.RETRYING else {}
        await here.finish(number, claims, state, error=f"as {state.value}", **more)
        await here.pass_time(5)
    run_id = str(claims[0].run_id)
    found = await here.ask("GET", f"/dead-letters/{run_id}")
    assert [(1, "as RETRYING"), (2, "as FAILED")] == [
        (each["attempt_number"], each["error_message"]) for each in found["attempts"]
    ]
    assert [f"{API}/runs/{run_id}/logs?attempt={number}" for number in (1, 2)] == [
        each["log_url"] for each in found["attempts"]
    ]
    assert ([run_id], run_id, "FAILED") == (found["chain"], found["run"]["run_id"], found["run"]["status"])


async def test_letters_are_searched_by_all_that_they_are_listed_with(here: Scene) -> None:
    """Everything given must match."""
    job_id = await here.create(**AT_ONCE, name="other")
    number = await here.join()
    claims = await here.take(number)
    await here.begin(number, claims)
    await here.finish(number, claims, RunState.FAILED, reason="timeout")
    await here.pass_time(100)
    run_id = await failed(here)
    other = str(claims[0].run_id)
    assert [run_id, other] == [each["run_id"] for each in await letters(here)]
    for query, expected in (
        (f"?job_id={job_id}", [other]),
        ("?reason=timeout", [other]),
        ("?reason=exit_code&task_kind=shell", [run_id]),
        ("?task_kind=http", []),
        ("?status=open&status=held", [run_id, other]),
        ("?status=discarded", []),
        ("?ended_after=2027-01-15T08:01:00Z", [run_id]),
        ("?ended_before=2027-01-15T08:01:00Z", [other]),
    ):
        assert expected == [each["run_id"] for each in await letters(here, query)], query


async def test_a_long_list_comes_in_pages(here: Scene) -> None:
    """The link leads on, and to the end."""
    runs = [await failed(here) for _ in range(5)]
    found: list[str] = []
    path: str | None = f"{API}/dead-letters?limit=2"
    while path is not None:
        answer = await here.world.client.get(path)
        found += [each["run_id"] for each in answer.json()]
        path = answer.links.get("next", {}).get("url")
    assert sorted(runs, reverse=True) == found


async def test_what_is_no_dead_letter_is_not_found(here: Scene) -> None:
    """Nor is one of another namespace."""
    for run_id in ("018f0000-0000-8000-8000-000000000001", "nothing"):
        await here.ask("GET", f"/dead-letters/{run_id}", 404)
        for action in ("redrive", "discard"):
            await refused(here, f"/dead-letters/{run_id}/{action}", 404)
    run_id = await failed(here)
    key = await here.world.key("somebody-elses-key", "*", namespace="other")
    headers = {"Authorization": f"Bearer {key}"}
    for method, path in (("GET", ""), ("POST", "/redrive"), ("POST", "/discard")):
        answer = await here.world.client.request(method, f"{API}/dead-letters/{run_id}{path}", headers=headers)
        assert 404 == answer.status_code
    assert [] == (await here.world.client.get(f"{API}/dead-letters", headers=headers)).json()


# ------------------------------------------------------------------------------------------ redriven


async def test_a_redriven_run_is_linked_to_its_origin_both_ways(here: Scene) -> None:
    """The old one names the new one, the new one the old one, and both know the chain."""
    run_id = await failed(here)
    new = (await here.ask("POST", f"/dead-letters/{run_id}/redrive", 202, {"note": "the disk was full"}))["run_id"]
    await finished_again(here)
    old = await here.ask("GET", f"/dead-letters/{run_id}")
    assert ("redriven", new, "the disk was full", [run_id, new]) == tuple(
        old[name] for name in ("status", "redriven_as", "note", "chain")
    )
    assert new == (await here.ask("GET", f"/runs/{run_id}"))["redriven_as"]
    run = await here.ask("GET", f"/runs/{new}")
    assert ("SUCCESS", "retry", run_id, run_id) == tuple(
        run[name] for name in ("status", "trigger", "retry_of", "origin")
    )


async def test_the_chain_goes_over_all_redrives(here: Scene) -> None:
    """From the first run to the newest, wherever one looks."""
    chain = [await failed(here)]
    for _ in range(2):
        await here.ask("POST", f"/dead-letters/{chain[-1]}/redrive", 202)
        number = await here.join()
        claims = await here.take(number)
        await here.begin(number, claims)
        await here.finish(number, claims, RunState.FAILED)
        chain.append(str(claims[0].run_id))
    for run_id in chain:
        assert chain == (await here.ask("GET", f"/dead-letters/{run_id}"))["chain"]


async def test_a_redrive_with_another_payload_leaves_the_job_as_it_is(here: Scene) -> None:
    """The new run has it, and a redrive of that one too."""
    run_id = await failed(here, payload={"a": 1})
    new = (await here.ask("POST", f"/dead-letters/{run_id}/redrive", 202, {"payload": {"a": 2}}))["run_id"]
    found = await here.ask("GET", f"/runs/{new}")
    assert {"a": 2} == found["payload"]
    assert {"a": 1} == (await here.ask("GET", f"/jobs/{found['job_id']}"))["payload"]


@pytest.mark.parametrize("content", [b'{"payload": 1e999}', b'{"payload": {"a": 1}, "params": {}}', b'{"playload": 1}'])
async def test_a_payload_that_cannot_be_read_changes_nothing(here: Scene, content: bytes) -> None:
    """422, and the letter is as open as before."""
    run_id = await failed(here)
    for path in (f"/dead-letters/{run_id}/redrive", f"/runs/{run_id}/retry"):
        answer = await here.world.client.post(API + path, content=content, headers={"Content-Type": "application/json"})
        assert 422 == answer.status_code, answer.text
    assert ["open"] == [each["status"] for each in await letters(here)]
    assert 1 == len(await here.ask("GET", "/runs"))


async def test_a_payload_that_is_too_large_changes_nothing(here: Scene) -> None:
    """413."""
    run_id = await failed(here)
    for path in (f"/dead-letters/{run_id}/redrive", f"/runs/{run_id}/retry"):
        await refused(here, path, 413, {"payload": "x" * (1 << 20)})
    assert ["open"] == [each["status"] for each in await letters(here)]


async def test_a_letter_is_redriven_once(here: Scene) -> None:
    """The second time it says by whom, and as which run."""
    run_id = await failed(here)
    new = (await here.ask("POST", f"/dead-letters/{run_id}/redrive", 202))["run_id"]
    for action, body in (("redrive", None), ("discard", None)):
        found = await refused(here, f"/dead-letters/{run_id}/{action}", 409, body)
        assert "letter_settled" == found["code"]
        assert new in found["detail"]
    assert 2 == len(await here.ask("GET", "/runs"))


async def test_many_who_redrive_at_the_same_moment_make_one_run(here: Scene) -> None:
    """One of them wins; the others are told."""
    run_id = await failed(here)
    path = f"{API}/dead-letters/{run_id}/redrive"
    answers = await asyncio.gather(*(here.world.client.post(path) for _ in range(8)))
    assert [202, *[409] * 7] == sorted(answer.status_code for answer in answers)
    assert 2 == len(await here.ask("GET", "/runs"))


async def test_the_same_request_under_a_key_is_answered_once(here: Scene) -> None:
    """Whatever got lost on the way: the same run."""
    run_id = await failed(here)
    path, headers = f"{API}/dead-letters/{run_id}/redrive", {"Idempotency-Key": "once"}
    first, second = [await here.world.client.post(path, headers=headers) for _ in range(2)]
    assert (202, first.json()) == (second.status_code, second.json())
    assert 2 == len(await here.ask("GET", "/runs"))


async def test_a_letter_of_a_cancelled_job_cannot_be_redriven(here: Scene) -> None:
    """409; it can be discarded."""
    run_id = await failed(here, name="gone")
    job_id = (await letters(here))[0]["job_id"]
    await here.ask("DELETE", f"/jobs/{job_id}")
    for path in (f"/dead-letters/{run_id}/redrive", f"/runs/{run_id}/retry"):
        assert "job_cancelled" == (await refused(here, path, 409))["code"]
    assert "discarded" == (await here.ask("POST", f"/dead-letters/{run_id}/discard"))["status"]


async def test_only_what_failed_is_redriven(here: Scene) -> None:
    """What waits, runs, went well or was cancelled is no dead letter, and is told so with its state."""
    await here.create(schedule_type="IMMEDIATE", timezone="UTC")
    run_id = (await here.ask("GET", "/runs"))[0]["run_id"]
    number = await here.join()

    async def told(state: str) -> None:
        found = await refused(here, f"/dead-letters/{run_id}/redrive", 409)
        assert ("run_not_failed", True) == (found["code"], state in found["detail"])

    await told("QUEUED")
    claims = await here.take(number)
    await here.begin(number, claims)
    await told("RUNNING")
    await here.finish(number, claims)
    await told("SUCCESS")


# ------------------------------------------------------------------------------------------ retried


async def test_a_retry_of_a_failed_run_settles_its_letter(here: Scene) -> None:
    """They are the same thing, by another name."""
    run_id = await failed(here)
    new = (await here.ask("POST", f"/runs/{run_id}/retry", 202))["run_id"]
    assert [("redriven", new)] == [(each["status"], each["redriven_as"]) for each in await letters(here)]


async def test_a_run_is_not_retried_past_what_was_said_of_its_letter(here: Scene) -> None:
    """409 with what was decided and what to do instead: else what follows the run would follow it a second time."""
    run_id = await held(here)
    await here.ask("POST", f"/dead-letters/{run_id}/decide", 200, {"outcome": "succeeded"})
    found = await refused(here, f"/runs/{run_id}/retry", 409)
    assert "letter_settled" == found["code"]
    for part in ("decided as succeeded", "runNow"):
        assert part in found["detail"]
    assert 1 == len(await here.ask("GET", "/runs"))


async def test_a_run_is_retried_once_and_the_second_time_names_the_new_run(here: Scene) -> None:
    """As a redrive is; it is the new run that can be retried."""
    run_id = await failed(here)
    new = (await here.ask("POST", f"/runs/{run_id}/retry", 202))["run_id"]
    found = await refused(here, f"/runs/{run_id}/retry", 409)
    assert ("letter_settled", True) == (found["code"], f"redriven as the run {new}" in found["detail"])
    assert "retry that run" in found["detail"]
    assert 2 == len(await here.ask("GET", "/runs"))


async def test_a_retry_under_a_key_is_answered_again_although_its_letter_is_settled_by_it(here: Scene) -> None:
    """Whatever got lost on the way: the same run, and no refusal."""
    run_id = await failed(here)
    path, headers = f"{API}/runs/{run_id}/retry", {"Idempotency-Key": "once"}
    first, second = [await here.world.client.post(path, headers=headers) for _ in range(2)]
    assert (202, first.json()) == (second.status_code, second.json())
    assert 2 == len(await here.ask("GET", "/runs"))


async def test_a_run_that_goes_on_is_not_retried(here: Scene) -> None:
    """Waiting or running: 409 with its state."""
    await here.create(schedule_type="IMMEDIATE")
    run_id = (await here.ask("GET", "/runs"))[0]["run_id"]
    number = await here.join()
    assert "QUEUED" in (await refused(here, f"/runs/{run_id}/retry", 409))["detail"]
    claims = await here.take(number)
    await here.begin(number, claims)
    found = await refused(here, f"/runs/{run_id}/retry", 409)
    assert ("run_not_ended", True) == (found["code"], "RUNNING" in found["detail"])
    await here.finish(number, claims)
    assert "run_ended" == (await refused(here, f"/runs/{run_id}/cancel", 409))["code"]


async def test_a_cancelled_run_is_retried_and_a_cancelled_job_is_not(here: Scene) -> None:
    """The run makes a new one, linked to it; of the job nothing runs any more."""
    job_id = await here.create(every="1h")
    run_id = (await here.ask("POST", f"/jobs/{job_id}/runNow", 202))["run_id"]
    await here.ask("POST", f"/runs/{run_id}/cancel")
    new = (await here.ask("POST", f"/runs/{run_id}/retry", 202))["run_id"]
    assert run_id == (await here.ask("GET", f"/runs/{new}"))["retry_of"]
    await here.ask("DELETE", f"/jobs/{job_id}")
    assert "job_cancelled" == (await refused(here, f"/runs/{run_id}/retry", 409))["code"]


# ------------------------------------------------------------------------------------------ discarded, expired, decided


async def test_discarding_changes_the_letter_and_not_the_run(here: Scene) -> None:
    """And twice is once."""
    run_id = await failed(here)
    for _ in range(2):
        found = await here.ask("POST", f"/dead-letters/{run_id}/discard", 200, {"note": "known"})
    assert ("discarded", "known", True) == (found["status"], found["note"], found["settled_by"] is not None)
    assert "FAILED" == (await here.ask("GET", f"/runs/{run_id}"))["status"]
    assert [] == await letters(here, "?status=open")


async def test_what_nobody_settles_expires(here: Scene) -> None:
    """It waits no more, and can be redriven all the same."""
    run_id = await failed(here)
    await here.pass_time(DEAD_LETTER_SECONDS - DAY)
    assert ["open"] == [each["status"] for each in await letters(here)]
    await here.pass_time(2 * DAY)
    assert ["expired"] == [each["status"] for each in await letters(here)]
    await here.ask("POST", f"/dead-letters/{run_id}/redrive", 202)
    assert ["redriven"] == [each["status"] for each in await letters(here)]


async def test_an_unknown_outcome_is_held_until_a_person_decides(here: Scene) -> None:
    """Once, and by name; the same again is the same, another outcome is refused."""
    run_id = await held(here)
    assert [("held", "unknown_outcome")] == [(each["status"], each["reason"]) for each in await letters(here)]
    for _ in range(2):
        found = await here.ask("POST", f"/dead-letters/{run_id}/decide", 200, {"outcome": "succeeded", "note": "seen"})
    assert ("decided", "succeeded", "seen") == (found["status"], found["outcome"], found["note"])
    other = await refused(here, f"/dead-letters/{run_id}/decide", 409, {"outcome": "failed"})
    assert ("letter_settled", True) == (other["code"], "succeeded" in other["detail"])
    assert "FAILED" == (await here.ask("GET", f"/runs/{run_id}"))["status"]


async def test_a_held_one_can_be_run_again_instead(here: Scene) -> None:
    """That is a decision, too."""
    run_id = await held(here)
    new = (await here.ask("POST", f"/dead-letters/{run_id}/redrive", 202))["run_id"]
    assert new == str((await finished_again(here)).run_id)


async def test_a_known_outcome_is_not_decided(here: Scene) -> None:
    """It is redriven or discarded."""
    run_id = await failed(here)
    found = await refused(here, f"/dead-letters/{run_id}/decide", 409, {"outcome": "succeeded"})
    assert "letter_not_held" == found["code"]
    for body in ({}, {"outcome": "maybe"}, {"outcome": None}, {"outcome": "failed", "not": "a field"}):
        await refused(here, f"/dead-letters/{run_id}/decide", 422, body)


async def test_a_note_that_cannot_be_kept_is_refused(here: Scene) -> None:
    """Nothing is settled by halves."""
    run_id = await failed(here)
    for action in ("redrive", "discard"):
        for note in ("a\0b", "x" * 1_001):
            assert "/note" == (await refused(here, f"/dead-letters/{run_id}/{action}", 422, {"note": note}))["pointer"]
    assert ["open"] == [each["status"] for each in await letters(here)]


async def test_a_request_to_stop_is_told_with_its_times(here: Scene) -> None:
    """When it was asked, when the executor heard, when it was over; and by whom."""
    await here.create(schedule_type="IMMEDIATE")
    number = await here.join()
    [claim] = await here.take(number)
    await here.begin(number, [claim])
    assert "RUNNING" == (await here.ask("POST", f"/runs/{claim.run_id}/cancel", 202))["status"]
    asked = (await here.ask("GET", f"/runs/{claim.run_id}"))["cancel"]
    assert ("2027-01-15T08:00:00Z", None, None) == tuple(
        asked[name] for name in ("asked_time", "heard_time", "ended_time")
    )
    await here.pass_time(1)
    await here.store.executors.beat(number, 60.0)
    await here.pass_time(1)
    end = outcome(claim, RunState.CANCELLED, started=claim.due, ended=here.clock.now(), reason="cancelled")
    assert [] == list(await here.store.attempts.finish(number, [end]))
    told = (await here.ask("GET", f"/runs/{claim.run_id}"))["cancel"]
    assert ("2027-01-15T08:00:00Z", "2027-01-15T08:00:01Z", "2027-01-15T08:00:02Z") == tuple(
        told[name] for name in ("asked_time", "heard_time", "ended_time")
    )
    assert told["said"].startswith("cancelled by ")
