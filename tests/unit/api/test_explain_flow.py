"""Why a run waits for a limit or a queue, how it came to its end, what started it and what it started."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.scene import HOUR, Scene, scene
from tests.unit.roles.rig import Silent
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown, deadline_sentence
from tickwise.ports.store import Began, Gate
from tickwise.roles.scheduler.sequences import Sequences
from tickwise.testing.factories import outcome

AT_ONCE = {"schedule_type": "IMMEDIATE"}
ON_DEMAND = {"schedule_type": "ON_DEMAND"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def gated(here: Scene, number: int, claims: list[Claimed], gate: Gate | None) -> int:
    """Begin them as an executor does whose jobs have limits; how many were let."""
    starts = [Began(each.run_id, each.token, here.clock.now(), gate=gate) for each in claims]
    return len(claims) - len(await here.store.attempts.start(number, starts))


async def ended(here: Scene, state: RunState, **more: Any) -> Any:
    """The explanation of a run that began in time and ended so."""
    number = await here.join()
    [claim] = await here.take(number)
    await here.begin(number, [claim])
    await here.finish(number, [claim], state, **more)
    return await here.explain_run(claim.run_id)


async def follow(here: Scene) -> None:
    """What a scheduler does about ends that start others."""
    await Sequences(here.store, signals=here.world.bell, clock=here.clock, telemetry=Silent()).step()


def codes(found: Any) -> list[str]:
    return [found["code"], *(cause["code"] for cause in found["causes"])]


# ------------------------------------------------------------------------------------------ it waits


async def test_it_waits_for_a_slot_and_who_has_it_is_told(here: Scene) -> None:
    """The limit, its key, and the runs that take it up."""
    limit = {"concurrency": {"limit": 1, "key": "key:printer"}}
    await here.create(**AT_ONCE, **limit, name="first")
    number = await here.join()
    gate = Gate("key:printer", 1)
    claims = await here.take(number)
    assert 1 == await gated(here, number, claims, gate)
    await here.create(**AT_ONCE, **limit, name="second")
    [second] = await here.take(number)
    assert 0 == await gated(here, number, [second], gate)
    found = await here.explain_run(second.run_id)
    assert ("waiting_slot", "key:printer", 1, [str(claims[0].run_id)]) == (
        found["code"],
        *(found["data"][name] for name in ("limit_key", "limit", "taken_by")),
    )
    assert "'first'" in found["sentence"]
    [unmet] = [each for each in found["conditions"] if not each["met"]]
    assert ("concurrency", [str(claims[0].run_id)]) == (unmet["condition"], unmet["data"]["run_ids"])
    run = await here.ask("GET", f"/runs/{second.run_id}")
    assert (True, True, "key:printer") == (run["waiting"], run["waits_for_slot"], run["limit_key"])
    assert ["it waits until a slot of its concurrency limit is free (key:printer)"] == run["warnings"]


async def test_it_waits_for_the_quota_of_its_namespace(here: Scene) -> None:
    """The quota, and the runs that use it up, of all jobs; also once it was taken away."""
    for name in ("first", "second"):
        await here.create(**AT_ONCE, name=name)
    await here.ask("PUT", "/namespaces/default/quotas", body={"concurrent_runs": 1})
    number = await here.join()
    first, second = await here.take(number)
    assert [1, 0] == [await gated(here, number, [claim], None) for claim in (first, second)]
    found = await here.explain_run(second.run_id)
    assert ("waiting_quota", 1, [str(first.run_id)]) == (
        found["code"],
        *(found["data"][name] for name in ("concurrent_runs", "taken_by")),
    )
    assert "quota concurrent_runs" in found["sentence"]
    run = await here.ask("GET", f"/runs/{second.run_id}")
    assert (True, True, "quota") == (run["waiting"], run["waits_for_slot"], run["limit_key"])
    assert ["concurrent_runs" in warning for warning in run["warnings"]] == [True]
    await here.ask("PUT", "/namespaces/default/quotas", body={})
    found = await here.explain_run(second.run_id)
    assert "waiting_quota" == found["code"]
    assert "was taken away" in found["sentence"]


async def test_it_waits_for_its_turn_under_a_rate(here: Scene) -> None:
    """Until its own slot, which is told."""
    gate = Gate(rate_key="key:mail", rate_gap_seconds=60.0)
    number = await here.join()
    for _ in range(2):
        await here.create(**AT_ONCE, rate={"limit": 1, "per_seconds": 60, "key": "key:mail"})
    first, second = await here.take(number)
    assert 1 == await gated(here, number, [first], gate)
    assert 0 == await gated(here, number, [second], gate)
    found = await here.explain_run(second.run_id)
    assert ("waiting_rate", "2027-01-15T08:01:00Z") == (found["code"], found["data"]["ready_time"])
    assert "key:mail" in found["sentence"]
    run = await here.ask("GET", f"/runs/{second.run_id}")
    assert (True, "2027-01-15T08:01:00Z", 0) == (run["paced"], run["ready_time"], run["attempt_number"])


async def test_its_queue_is_on_hold(here: Scene) -> None:
    """By whom, why and until when; one without an end waits until it is resumed."""
    await here.create(**AT_ONCE, queue="mail")
    run_id = (await here.ask("GET", "/runs"))[0]["run_id"]
    hold = {"reason": "the relay moves", "until": "2027-01-15T09:00:00Z"}
    await here.ask("POST", "/queues/mail/hold", 200, hold)
    found = await here.explain_run(run_id)
    assert ("waiting_queue_held", "mail", "the relay moves", "2027-01-15T09:00:00Z") == (
        found["code"],
        *(found["data"][name] for name in ("queue", "reason", "held_until")),
    )
    assert "the relay moves" in found["sentence"]
    await here.ask("POST", "/queues/mail/hold")
    assert "until it is resumed" in (await here.explain_run(run_id))["sentence"]
    await here.ask("POST", "/queues/mail/resume")
    assert "waiting_no_executor" == (await here.explain_run(run_id))["code"]


async def test_an_executor_gave_it_back_for_a_while(here: Scene) -> None:
    """It cannot run there for now (a circuit that is open, a function that is missing): when it is offered again."""
    await here.create(**AT_ONCE)
    number = await here.join()
    [claim] = await here.take(number)
    now = here.clock.now()
    end = outcome(claim, RunState.QUEUED, started=now, ended=now, retry_at=now + 30)
    assert [] == list(await here.store.attempts.finish(number, [end]))
    await here.pass_time(2)
    found = await here.explain_run(claim.run_id)
    assert ("waiting_given_back", "2027-01-15T08:00:30Z") == (found["code"], found["data"]["ready_time"])


async def test_a_limited_run_that_was_late_for_nothing_else_was_late_for_its_limit(here: Scene) -> None:
    """Nothing is claimed that is not on record: no executor is blamed."""
    await here.create(**AT_ONCE, concurrency={"limit": 1})
    number = await here.join()
    await here.pass_time(60)
    await here.work(number)
    found = await here.explain_run((await here.ask("GET", "/runs"))[0]["run_id"])
    assert ("late_limited", True) == (found["code"], "concurrency" in found["sentence"])


# ------------------------------------------------------------------------------------------ it ended


@pytest.mark.parametrize(
    ("reason", "limits", "code"),
    [
        ("cpu_limit", {"cpu_seconds": 5}, "limit_cpu"),
        ("memory_limit", {"memory_bytes": 1 << 28}, "limit_memory"),
        ("process_limit", {"processes": 5}, "limit_processes"),
        ("disk_limit", {"disk_bytes": 1 << 28}, "limit_disk"),
        ("file_limit", {"files": 100}, "limit_files"),
        ("output_limit", {"output_bytes": 5000}, "limit_output"),
    ],
)
async def test_it_went_over_a_limit(here: Scene, reason: str, limits: dict[str, Any], code: str) -> None:
    """Which, and how much it was allowed."""
    await here.create(**AT_ONCE, limits=limits)
    found = await ended(here, RunState.FAILED, reason=reason)
    [(field, value)] = limits.items()
    assert (code, field, value) == (found["code"], found["data"]["limit"], found["data"]["allowed"])
    assert str(value) in found["sentence"]


async def test_a_rule_of_its_job_gave_it_up(here: Scene) -> None:
    """After which failure."""
    await here.create(**AT_ONCE, retry={"on": {"exit_code": {"75": "fail"}}})
    error = "exit status 75\nIts job says not to try again after exit code 75."
    found = await ended(here, RunState.FAILED, reason="exit_code", error=error)
    assert ("not_retried_rule", "exit code 75") == (found["code"], found["data"]["failed_of"])


async def test_its_deadline_gave_it_up(here: Scene) -> None:
    """Whether an attempt failed too late, or it waited too long for one."""
    await here.create(**AT_ONCE, retry={"deadline_seconds": 60})
    found = await ended(here, RunState.FAILED, reason="exit_code", error=f"exit status 1\n{deadline_sentence(60)}")
    assert ("not_retried_deadline", 60.0) == (found["code"], found["data"]["deadline_seconds"])
    await here.create(**AT_ONCE, retry={"deadline_seconds": 60})
    found = await ended(here, RunState.FAILED, reason="retry_deadline", error=deadline_sentence(60))
    assert "not_retried_deadline" == found["code"]


async def test_a_rule_of_its_job_let_it_be_tried_again(here: Scene) -> None:
    """Of a failure that would have been final."""
    await here.create(**AT_ONCE, retry={"on": {"reason": {"invalid": "retry"}}})
    number = await here.join()
    for state in (RunState.RETRYING, RunState.SUCCESS):
        [claim] = await here.take(number)
        await here.begin(number, [claim])
        more = {"retry_at": here.clock.now(), "reason": "invalid"} if state is RunState.RETRYING else {}
        await here.finish(number, [claim], state, **more)
    found = await here.explain_run(claim.run_id)
    assert ["retried_by_rule", "retried"] == codes(found)[:2]
    assert "invalid" in found["sentence"]


async def lost(here: Scene, rule: OnUnknown) -> Claimed:
    number = await here.join(lease_seconds=10)
    [claim] = await here.take(number)
    start = Began(claim.run_id, claim.token, here.clock.now(), rule)
    assert [] == list(await here.store.attempts.start(number, [start]))
    await here.pass_time(11)
    assert 1 == len((await here.store.executors.expire(3)).unknown)
    return claim


async def test_nobody_knows_what_it_did(here: Scene) -> None:
    """It is held; then who decided, and what."""
    await here.create(**AT_ONCE, on_unknown="hold")
    claim = await lost(here, OnUnknown.HOLD)
    found = await here.explain_run(claim.run_id)
    assert ("unknown_outcome", "held") == (found["code"], found["data"]["dead_letter"])
    assert "until a person decides" in found["sentence"]
    await here.ask("POST", f"/dead-letters/{claim.run_id}/decide", 200, {"outcome": "failed"})
    found = await here.explain_run(claim.run_id)
    assert ("decided", "failed") == (found["data"]["dead_letter"], found["data"]["outcome"])
    assert "decided as failed by" in found["sentence"]


async def test_its_executor_was_lost_and_its_job_fails_then(here: Scene) -> None:
    """By its own wish."""
    await here.create(**AT_ONCE, on_unknown="fail")
    claim = await lost(here, OnUnknown.FAIL)
    assert "failed_executor_lost" == (await here.explain_run(claim.run_id))["code"]


async def test_somebody_asked_to_stop_it(here: Scene) -> None:
    """Who and when, and when its executor heard; while it still runs, too."""
    await here.create(**AT_ONCE)
    number = await here.join()
    [claim] = await here.take(number)
    await here.begin(number, [claim])
    await here.ask("POST", f"/runs/{claim.run_id}/cancel", 202)
    found = await here.explain_run(claim.run_id)
    assert ["running", "asked_to_stop"] == codes(found)
    assert "has not heard of it yet" in found["sentence"]
    await here.pass_time(1)
    await here.store.executors.beat(number, 60.0)
    await here.finish(number, [claim], RunState.CANCELLED, reason="cancelled")
    found = await here.explain_run(claim.run_id)
    assert ("asked_to_stop", "2027-01-15T08:00:00Z", "2027-01-15T08:00:01Z") == (
        found["code"],
        found["data"]["asked_time"],
        found["data"]["heard_time"],
    )
    assert found["data"]["cancelled_by"]


# ------------------------------------------------------------------------------------------ sequences


async def test_what_started_it_and_what_it_started(here: Scene) -> None:
    """Either names the other."""
    load = await here.create(**ON_DEMAND, name="load")
    await here.create(**AT_ONCE, name="fetch", then=load)
    fetch = await ended(here, RunState.SUCCESS, follow=True)
    assert ["fired", "successor_not_started"] == codes(fetch)
    assert "yet" in fetch["causes"][0]["sentence"]
    await follow(here)
    fetch = await here.explain_run(fetch["run_id"])
    run = (await here.ask("GET", f"/jobs/{load}/runs"))[0]
    assert ["fired", "successor_started"] == codes(fetch)
    assert run["run_id"] in fetch["causes"][0]["sentence"]
    assert (fetch["run_id"], "sequence") == (run["started_by"], run["trigger"])
    await here.join()
    waits = await here.explain_run(run["run_id"])
    assert "started_by_sequence" in codes(waits)
    found = await ended(here, RunState.SUCCESS)
    assert ("started_by_sequence", fetch["run_id"]) == (found["code"], found["data"]["started_by"])
    assert "'fetch'" in found["sentence"]


async def test_a_successor_that_was_paused_or_cancelled_did_not_start(here: Scene) -> None:
    """Each with its reason."""
    paused, gone = [await here.create(**ON_DEMAND, name=name) for name in ("paused", "gone")]
    await here.create(**AT_ONCE, on_failure=[paused, gone], then=[])
    await here.ask("POST", f"/jobs/{paused}/pause")
    await here.ask("DELETE", f"/jobs/{gone}")
    found = await ended(here, RunState.FAILED, follow=True)
    await follow(here)
    found = await here.explain_run(found["run_id"])
    told = [cause["sentence"] for cause in found["causes"] if cause["code"] == "successor_not_started"]
    assert [("'paused'", "it was paused"), ("'gone'", "it is cancelled")] == [
        (words.split("job ")[1].split(" ")[0], words.rpartition("for ")[2]) for words in told
    ]
    skipped = (await here.ask("GET", f"/jobs/{paused}/runs"))[0]
    assert ("SKIPPED", "paused", found["run_id"]) == (skipped["status"], skipped["reason"], skipped["started_by"])
    assert "skipped_paused" == (await here.explain_run(skipped["run_id"]))["code"]


async def test_a_held_outcome_starts_nothing_until_it_is_decided(here: Scene) -> None:
    """Then what was decided counts."""
    load = await here.create(**ON_DEMAND, name="load")
    await here.create(**AT_ONCE, on_unknown="hold", then=load)
    claim = await lost(here, OnUnknown.HOLD)
    await follow(here)
    assert [] == await here.ask("GET", f"/jobs/{load}/runs")
    assert "successor_not_started" not in codes(await here.explain_run(claim.run_id))
    await here.ask("POST", f"/dead-letters/{claim.run_id}/decide", 200, {"outcome": "succeeded"})
    await follow(here)
    assert "successor_started" in codes(await here.explain_run(claim.run_id))
    assert 1 == len(await here.ask("GET", f"/jobs/{load}/runs"))


# ------------------------------------------------------------------------------------------ on demand


async def test_a_job_without_a_schedule_says_so(here: Scene) -> None:
    """At the moment, at any other, and at one at which it ran because it was asked to."""
    job_id = await here.create(**ON_DEMAND)
    assert "on_demand" == (await here.explain(job_id))["code"]
    await here.pass_time(HOUR)
    run_id = (await here.ask("POST", f"/jobs/{job_id}/runNow", 202))["run_id"]
    await here.work(await here.join())
    found = await here.explain(job_id, "09:00:00")
    assert ("asked_for", run_id) == (found["code"], found["run_id"])
    for at in ("08:30:00", "10:00:00"):
        assert "on_demand" == (await here.explain(job_id, at))["code"]
    await here.ask("POST", f"/jobs/{job_id}/pause")
    assert "paused" == (await here.explain(job_id))["code"]
    await here.ask("DELETE", f"/jobs/{job_id}")
    assert "job_cancelled" == (await here.explain(job_id))["code"]


# ------------------------------------------------------------------------------------------ failures and circuits


async def test_a_failed_run_names_its_cause_and_its_dead_letter(here: Scene) -> None:
    """What it failed of, how often, and that a person can redrive it; afterwards, that somebody did."""
    job_id = await here.create(**AT_ONCE, max_retries=0)
    found = await ended(here, RunState.FAILED, reason="exit_code", error="exit status 7: begun\ndisk full")
    assert ["failed", "dead_letter"] == codes(found)
    assert ("exit_code", "exit status 7: disk full", 1) == tuple(
        found["data"][name] for name in ("reason", "error", "failures")
    )
    letter = found["causes"][0]
    assert ("open", None) == (letter["data"]["dead_letter"], letter["data"]["redriven_as"])
    job = await here.explain(job_id)
    assert ["failed", "dead_letter", "over_one_time"] == codes(job)
    again = await here.ask("POST", f"/dead-letters/{found['run_id']}/redrive", 202)
    redriven = (await here.explain_run(found["run_id"]))["causes"][0]["data"]
    assert ("redriven", again["run_id"]) == (redriven["dead_letter"], redriven["redriven_as"])


async def test_a_recurring_job_whose_last_run_failed_says_so(here: Scene) -> None:
    """What comes next leads; that the last one failed, of what, and its dead letter follow. A success ends that."""
    job_id = await here.create(cron="0 * * * *", max_retries=0)
    number = await here.join(lease_seconds=9 * HOUR)
    for state, expected in (
        (RunState.FAILED, ["not_due", "last_run_failed", "dead_letter"]),
        (RunState.SUCCESS, ["not_due"]),
    ):
        await here.schedule(HOUR + 1)
        claims = await here.take(number)
        await here.begin(number, claims)
        more = {"reason": "exit_code", "error": "exit status 7"} if state is RunState.FAILED else {}
        await here.finish(number, claims, state, **more)
        found = await here.explain(job_id)
        assert expected == codes(found)
    assert "exit status 7" not in found["sentence"]


async def test_a_run_whose_host_keeps_failing_waits_for_its_circuit(here: Scene) -> None:
    """Which host, and when it is offered again; afterwards, why it was late. A circuit of another host, or of
    another namespace, is not told."""
    await here.create(**AT_ONCE, task={"kind": "http", "url": "https://shop.example:8443/hook"})
    number = await here.join(labels=("task:http",), lease_seconds=9 * HOUR)
    for target in ("default/other.example", "default/shop.example:8443"):
        await here.away("circuit_open", 0.0, 30.0, who=target)
    await here.away("circuit_open", 0.0, 90.0, who="other/shop.example:8443")
    [claim] = await here.take(number)
    back = outcome(claim, RunState.QUEUED, started=0.0, reason="circuit_open", retry_at=claim.now + 30.0)
    await here.store.attempts.finish(number, [back])
    await here.pass_time(1)
    found = await here.explain_run(claim.run_id)
    assert ("waiting_circuit", "shop.example:8443", "2027-01-15T08:00:30Z") == (
        found["code"], found["data"]["host"], found["data"]["ready_time"],
    )  # fmt: skip
    await here.pass_time(60)
    [again] = await here.take(number)
    await here.begin(number, [again])
    late = await here.explain_run(claim.run_id)
    assert ("running", "late_circuit") == tuple(codes(late)[:2])
    assert "shop.example:8443 kept failing and was left alone" in late["sentence"]
    [told] = [cause for cause in late["causes"] if cause["code"] == "late_circuit"]
    assert "2027-01-15T08:00:30Z" == told["data"]["open_until"]


async def test_a_run_whose_secrets_are_away_says_which(here: Scene) -> None:
    """Of its own job and namespace, and when it is offered again."""
    task = {"kind": "shell", "command": "true", "env": {"TOKEN": "secret:vault:app#token"}}
    await here.create(**AT_ONCE, task=task)
    number = await here.join(labels=("task:shell",), lease_seconds=9 * HOUR)
    for target in ("default/secret:vault:other", "other/secret:vault:app#token", "default/secret:vault:app#token"):
        await here.away("secrets_away", 0.0, 10.0, who=target)
    [claim] = await here.take(number)
    back = outcome(claim, RunState.QUEUED, started=0.0, reason="secrets_away", retry_at=claim.now + 10.0)
    await here.store.attempts.finish(number, [back])
    await here.pass_time(1)
    found = await here.explain_run(claim.run_id)
    assert ("waiting_secrets", "secret:vault:app#token") == (found["code"], found["data"]["secret"])
    assert "does not answer" in found["sentence"]


async def test_a_snoozed_run_of_a_paused_job_waits_for_the_resume(here: Scene) -> None:
    """Who paused it; after the resume it is not due until the time that a person gave it."""
    job_id = await here.create(cron="0 * * * *")
    moved = await here.ask("POST", f"/jobs/{job_id}/snooze", 200, {"until": "2027-01-15T09:20:00Z"})
    await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "a new relay"})
    found = await here.explain_run(moved["run_id"])
    assert ("waiting_paused", "a new relay") == (found["code"], found["data"]["reason"])
    assert ": a new relay; " in found["sentence"]
    assert "QUEUED" == (await here.ask("GET", f"/runs/{moved['run_id']}"))["status"]
    assert (await here.ask("GET", f"/jobs/{job_id}"))["next_run_at"] is None
    await here.ask("POST", f"/jobs/{job_id}/resume", 200, {})
    assert "not_due" == (await here.explain_run(moved["run_id"]))["code"]
