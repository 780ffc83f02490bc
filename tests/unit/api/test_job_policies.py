"""What a job says of its failures and limits: taken, answered, changed; and refused where it cannot be carried out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.kinds import builtin_kinds
from tests.support.overriding import override
from tests.unit.api.rig import create, get, put, stored
from tests.unit.api.test_refusals import WHEN, post, problem
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.calls.reasons import CALL_REASONS
from tickwise.adapters.runner.containers import CONTAINER_REASONS
from tickwise.adapters.store.memory.definitions import Jobs
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.control.jobs.policies import doubtful
from tickwise.control.tasks import CheckedTask, TaskCheck
from tickwise.documents.definition import Definition, Retry, RetryOn, decode_definition, decode_work
from tickwise.domain.errors import Invalid
from tickwise.domain.retry import After
from tickwise.ports.environments import ENVIRONMENT_REASONS
from tickwise.ports.store import JobChange, JobRow

THROTTLED = Retry(on=RetryOn(reason={"throttled": After.RETRY, "timeout": After.FAIL}))


@pytest_asyncio.fixture(scope="module")
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def kept(here: World, job_id: str) -> Definition:
    return decode_definition((await stored(here, job_id)).definition)


async def test_labels_that_read_alike_are_different_limits(here: World) -> None:
    """The name of a label and its value may both hold a sign of equality."""
    keys = []
    for name, value in (("a", "b=c"), ("a=b", "c")):
        limit = {"limit": 1, "key": f"label:{name}"}
        keys.append(
            (await kept(here, await create(here, every="1h", labels={name: value}, concurrency=limit))).limit_key
        )
    assert ["label:a=b=c", "label:a%3Db=c"] == keys


async def test_all_of_it_is_answered_as_it_was_said(here: World) -> None:
    """Every field of every object, also those at their defaults."""
    said: dict[str, Any] = {
        "retry": {
            "backoff": "exponential",
            "base_seconds": 2.0,
            "factor": 3.0,
            "cap_seconds": 60.0,
            "jitter": 0.0,
            "delays_seconds": [],
            "deadline_seconds": 600.0,
            "on": {
                "exit_code": {"75": "retry", "64-78": "fail"},
                "error": {"ValueError": "fail"},
                "status": {"5xx": "retry"},
                "reason": {"timeout": "fail"},
            },
        },
        "on_unknown": "hold",
        "concurrency": {"limit": 2, "key": "queue"},
        "rate": {"limit": 10, "per_seconds": 60.0, "key": "key:mail"},
        "limits": {
            "output_bytes": 1000,
            "cpu_seconds": 5.0,
            "memory_bytes": 1 << 28,
            "processes": 20,
            "disk_bytes": 1 << 26,
            "files": 1000,
        },
    }
    found = await get(here, f"/jobs/{await create(here, every='1h', **said)}")
    assert said == {name: found[name] for name in said}


async def test_what_is_not_said_is_the_default(here: World) -> None:
    """It runs again after a loss, with no limits, and starts nothing."""
    found = await get(here, f"/jobs/{await create(here, every='1h')}")
    assert ("rerun", None, None, [], []) == tuple(
        found[name] for name in ("on_unknown", "concurrency", "rate", "then", "on_failure")
    )
    assert ("exponential", [], None) == tuple(
        found["retry"][name] for name in ("backoff", "delays_seconds", "deadline_seconds")
    )


async def test_a_change_touches_only_what_is_sent_and_null_is_the_default(here: World) -> None:
    """Each field by itself."""
    job_id = await create(
        here, every="1h", on_unknown="fail", concurrency={"limit": 3}, rate={"limit": 1}, retry={"backoff": "fixed"}
    )
    changed = await put(here, job_id, on_unknown="hold")
    assert ("hold", 3, 1, "fixed") == (
        changed["on_unknown"],
        changed["concurrency"]["limit"],
        changed["rate"]["limit"],
        changed["retry"]["backoff"],
    )
    cleared = await put(here, job_id, on_unknown=None, concurrency=None, retry=None)
    assert ("rerun", None, 1, "exponential") == (
        cleared["on_unknown"],
        cleared["concurrency"],
        cleared["rate"]["limit"],
        cleared["retry"]["backoff"],
    )
    assert (None, f"job:{job_id}") == ((await kept(here, job_id)).limit_key, (await kept(here, job_id)).rate_key)


async def test_delays_alone_mean_a_list(here: World) -> None:
    """What was said is enough; and the executor reads the same."""
    job_id = await create(here, every="1h", retry={"delays_seconds": [1, 60, 600]})
    found = await get(here, f"/jobs/{job_id}")
    assert ("list", [1.0, 60.0, 600.0]) == (found["retry"]["backoff"], found["retry"]["delays_seconds"])
    work = decode_work((await stored(here, job_id)).definition)
    assert (1.0, 60.0, 600.0) == tuple(work.retry_policy().delays_seconds)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("job", "job:{job_id}"),
        ("queue", "queue:mail"),
        ("namespace", "namespace"),
        ("label:customer", "label:customer=acme"),
        ("key:the printer", "key:the printer"),
    ],
)
async def test_a_limit_is_kept_under_what_its_key_stands_for(here: World, key: str, expected: str) -> None:
    """The same text for all jobs that share it; it is nobody's to set, so it is not answered."""
    said = {"queue": "mail", "labels": {"customer": "acme"}}
    job_id = await create(here, every="1h", **said, concurrency={"limit": 1, "key": key}, rate={"limit": 1, "key": key})
    found = await kept(here, job_id)
    assert [expected.format(job_id=job_id)] * 2 == [found.limit_key, found.rate_key]
    assert not {"limit_key", "rate_key"} & (await get(here, f"/jobs/{job_id}")).keys()


async def test_a_limit_follows_its_queue_and_its_label(here: World) -> None:
    """Another queue, another label: another key, without the limit being sent again."""
    job_id = await create(
        here,
        every="1h",
        labels={"customer": "acme"},
        concurrency={"limit": 1, "key": "label:customer"},
        rate={"limit": 1, "key": "queue"},
    )
    await put(here, job_id, queue="mail", labels={"customer": "initech"})
    found = await kept(here, job_id)
    assert ("label:customer=initech", "queue:mail") == (found.limit_key, found.rate_key)
    answer = await here.client.put(f"{API}/jobs/{job_id}", json={"labels": {}})
    assert "/labels" == problem(answer, 422)["pointer"]
    assert {"customer": "initech"} == (await get(here, f"/jobs/{job_id}"))["labels"]


@pytest.mark.parametrize(
    ("change", "rate_changed"),
    [
        ({"rate": None}, True),
        ({"rate": {"limit": 2}}, True),
        ({"queue": "mail"}, True),
        ({"rate": {"limit": 1, "key": "queue"}}, False),
        ({"name": "another"}, False),
        ({"concurrency": {"limit": 2}}, False),
    ],
)
async def test_what_waits_asks_anew_if_its_rate_is_another_one(
    here: World, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], rate_changed: bool
) -> None:
    """Its size or its key, also where that goes with the queue; nothing else, or it would lose its place."""
    seen: list[bool] = []
    keep = Jobs.change

    async def told(self: Jobs, change: JobChange, **said: Any) -> JobRow:
        seen.append(change.rate_changed)
        return await keep(self, change, **said)

    monkeypatch.setattr(Jobs, "change", told)
    await put(here, await create(here, every="1h", rate={"limit": 1, "key": "queue"}), **change)
    assert [rate_changed] == seen


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"on_unknown": "perhaps"}, "/on_unknown", "rerun, fail, hold"),
        ({"on_unknown": True}, "/on_unknown", ""),
        ({"concurrency": {"limit": 0}}, "/concurrency/limit", "at least 1"),
        ({"concurrency": {"limit": -1}}, "/concurrency/limit", "at least 1"),
        ({"concurrency": {"limit": True}}, "/concurrency/limit", "a whole number"),
        ({"concurrency": {"limit": 1.5}}, "/concurrency/limit", "a whole number"),
        ({"concurrency": {"limit": 10**7}}, "/concurrency/limit", "1000000"),
        ({"concurrency": {"limit": 10**30}}, "/concurrency/limit", ""),
        ({"concurrency": {}}, "/concurrency/limit", "missing"),
        ({"concurrency": 3}, "/concurrency", "an object"),
        ({"concurrency": {"limit": 1, "per": 2}}, "/concurrency/per", "no field"),
        ({"concurrency": {"limit": 1, "key": "customer"}}, "/concurrency/key", "label:NAME"),
        ({"concurrency": {"limit": 1, "key": "label:"}}, "/concurrency/key", "label:NAME"),
        ({"concurrency": {"limit": 1, "key": "label:absent"}}, "/concurrency/key", "'absent'"),
        ({"concurrency": {"limit": 1, "key": "key:" + "x" * 201}}, "/concurrency/key", "200"),
        ({"concurrency": {"limit": 1, "key": "key:a\0b"}}, "/concurrency/key", "U+0000"),
        ({"rate": {"limit": 0}}, "/rate/limit", "at least 1"),
        ({"rate": {"limit": 1, "per_seconds": 0}}, "/rate/per_seconds", "greater than 0"),
        ({"rate": {"limit": 1, "per_seconds": -3}}, "/rate/per_seconds", "greater than 0"),
        ({"rate": {"limit": 1, "per_seconds": True}}, "/rate/per_seconds", "a number"),
        ({"rate": {"limit": 1, "per_seconds": 1e300}}, "/rate/per_seconds", "up to"),
        ({"rate": {"limit": 1, "key": ""}}, "/rate/key", "label:NAME"),
        ({"retry": {"backoff": "quadratic"}}, "/retry/backoff", "linear"),
        ({"retry": {"backoff": "list"}}, "/retry/delays_seconds", "needs"),
        ({"retry": {"backoff": "fixed", "delays_seconds": [1]}}, "/retry/delays_seconds", "backoff is fixed"),
        ({"retry": {"backoff": "exponential", "delays_seconds": [1]}}, "/retry/delays_seconds", "exponential"),
        ({"retry": {"delays_seconds": [1, -1]}}, "/retry/delays_seconds/1", "between 0"),
        ({"retry": {"delays_seconds": [1] * 101}}, "/retry/delays_seconds", "write a"),
        ({"retry": {"deadline_seconds": 0}}, "/retry/deadline_seconds", "above 0"),
        ({"retry": {"deadline_seconds": 1e12}}, "/retry/deadline_seconds", "up to"),
        ({"retry": {"on": {"exit_code": {"0": "fail"}}}}, "/retry/on/exit_code/0", "success"),
        ({"retry": {"on": {"exit_code": {"many": "fail"}}}}, "/retry/on/exit_code/many", "number or a range"),
        ({"retry": {"on": {"status": {"999": "fail"}}}}, "/retry/on/status/999", "out of range"),
        ({"retry": {"on": {"reason": {"lease_lost": "fail"}}}}, "/retry/on/reason/lease_lost", "no failure"),
        ({"retry": {"on": {"colour": {}}}}, "/retry/on/colour", "no field"),
        ({"retry": {"on": {"reason": {"time_out": "fail"}}}}, "/retry/on/reason/time_out", "did you mean timeout?"),
        (
            {"retry": {"on": {"reason": {"nonsense": "retry"}}}},
            "/retry/on/reason/nonsense",
            "there are address_refused, command_missing, ",
        ),
        ({"retry": {"on": {"reason": {"retry_deadline": "fail"}}}}, "/retry/on/reason/retry_deadline", "no failure"),
        ({"retry": {"backoff": "linear", "factor": 3}}, "/retry/factor", "says nothing of backoff linear"),
        ({"retry": {"backoff": "fixed", "factor": 3}}, "/retry/factor", "exponential"),
        ({"retry": {"delays_seconds": [1], "factor": 3}}, "/retry/factor", "says nothing of backoff list"),
        ({"retry": {"delays_seconds": [1], "cap_seconds": 9}}, "/retry/cap_seconds", "leave it out"),
        ({"retry": {"delays_seconds": []}}, "/retry/delays_seconds", "names no delay"),
        ({"limits": {"cpu_seconds": 0}}, "/limits/cpu_seconds", "between"),
        ({"limits": {"memory_bytes": 512}}, "/limits/memory_bytes", "between 1048576 and 1125899906842624"),
        ({"limits": {"processes": 0}}, "/limits/processes", "between"),
        ({"limits": {"disk_bytes": 1000}}, "/limits/disk_bytes", "between"),
        ({"limits": {"files": 0}}, "/limits/files", "between"),
        ({"then": 3}, "/then", "a text"),
        ({"then": ""}, "/then", "write a"),
        ({"then": ["x" * 201]}, "/then/0", "write a"),
    ],
)
async def test_what_cannot_be_carried_out_is_pointed_at(
    here: World, body: dict[str, Any], pointer: str, says: str
) -> None:
    """422, where, and what to write instead; on create and on change alike, and nothing of it is stored."""
    task = {"kind": "shell", "command": "date"}
    found = problem(await post(here, {**WHEN, "task": task, **body}), 422)
    assert pointer == found["pointer"]
    assert says in found["detail"]
    job_id = await create(here, every="1h")
    refused = await here.client.put(f"{API}/jobs/{job_id}", json=body)
    assert pointer == problem(refused, 422)["pointer"]
    assert 1 == (await stored(here, job_id)).version


@pytest.mark.parametrize("backoff", ["fixed", "linear", "exponential", "list"])
async def test_a_policy_as_it_is_answered_can_be_sent_again(here: World, backoff: str) -> None:
    """All its fields are in it, also those that say nothing of its backoff."""
    delays = {"delays_seconds": [1, 2]} if backoff == "list" else {}
    job_id = await create(here, every="1h", retry={"backoff": backoff, **delays})
    answered = (await get(here, f"/jobs/{job_id}"))["retry"]
    assert {"factor", "delays_seconds"} <= answered.keys()
    assert answered == (await put(here, job_id, retry=answered))["retry"]


async def test_rules_for_statuses_that_are_no_failure_are_told_of(here: World) -> None:
    """What the task expects it never fails of; on create and on change."""
    task = {"kind": "http", "url": "http://127.0.0.1/", "expect": ["2xx", 404]}
    rules = {"on": {"status": {"200": "retry", "204-299": "fail", "404": "retry", "400-499": "fail", "5xx": "retry"}}}
    created = (await post(here, {**WHEN, "task": task, "retry": rules})).json()
    changed = await here.client.put(f"{API}/jobs/{created['job_id']}", json={"retry": rules})
    for answer in (created, changed.json()):
        told = [said for said in answer["warnings"] if "never met" in said]
        assert ["'200'", "'204-299'", "'404'"] == [said.split()[1] for said in told]


def test_the_reasons_of_our_kinds_are_known() -> None:
    """Each says which it has of its own, so a rule for an unknown reason is refused."""
    check = TaskCheck({kind.name: kind for kind in builtin_kinds()})
    for name in ("function", "http", "python", "shell"):
        reasons = check.rules_of(name).reasons
        own = {"python": (*ENVIRONMENT_REASONS, *CONTAINER_REASONS), "shell": CONTAINER_REASONS, "http": CALL_REASONS}
        assert reasons == own.get(name, ())
        with pytest.raises(Invalid, match=f"no task of the kind {name} fails with the reason 'throttled'"):
            doubtful(THROTTLED, CheckedTask(name, msgspec.Raw(b"{}"), None), reasons)


def test_a_kind_names_reasons_of_its_own() -> None:
    """A rule for one of them is taken without a warning; a rule for another reason is refused, with both lists."""
    task = CheckedTask("spark", msgspec.Raw(b"{}"), None)
    assert doubtful(THROTTLED, task, ("throttled",)) == ()
    with pytest.raises(Invalid, match="did you mean throttle_limit"):
        doubtful(THROTTLED, task, ("throttle_limit",))


def test_a_reason_of_a_kind_of_others_is_told_of_and_not_refused() -> None:
    """Nobody here knows with what their tasks end."""
    reasons = TaskCheck({}).rules_of("spark").reasons
    [said] = doubtful(THROTTLED, CheckedTask("spark", msgspec.Raw(b"{}"), None), reasons)
    assert "'throttled'" in said
    assert "spark" in said


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_what_is_no_number_is_refused(here: World, text: str) -> None:
    """JSON has no such numbers, and one beyond all floats is none either."""
    body = json.dumps({**WHEN, "rate": {"limit": 1, "per_seconds": 0}}).replace(": 0}", f": {text}}}")
    assert (await post(here, body.encode())).status_code in (400, 422)


async def test_a_limit_that_no_runner_of_the_kind_keeps_is_refused(here: World) -> None:
    """It would be ignored. So too if the task comes to a job that has the limit."""
    http = {"kind": "http", "url": "http://127.0.0.1/"}
    found = problem(await post(here, {**WHEN, "task": http, "limits": {"memory_bytes": 1 << 28}}), 422)
    assert ("/limits/memory_bytes", True) == (found["pointer"], "http" in found["detail"])
    job_id = await create(here, every="1h", limits={"cpu_seconds": 5})
    found = problem(await here.client.put(f"{API}/jobs/{job_id}", json={"task": http}), 422)
    assert "/task/kind" == found["pointer"]
    changed = await put(here, job_id, task=http, limits=None)
    assert None is changed["limits"]["cpu_seconds"]


async def test_a_payload_over_its_limit_is_refused_and_nothing_is_stored(here: World) -> None:
    """413, whether it is a new job's, a changed one's or a run's own."""
    large = "x" * (1 << 20)
    assert 413 == (await post(here, {**WHEN, "payload": large})).status_code
    job_id = await create(here, every="1h", payload={"a": 1})
    assert 413 == (await here.client.put(f"{API}/jobs/{job_id}", json={"payload": large})).status_code
    answer = await here.client.post(f"{API}/jobs/{job_id}/runNow", json={"payload": large})
    assert 413 == answer.status_code
    assert {"a": 1} == (await get(here, f"/jobs/{job_id}"))["payload"]
    assert [] == await get(here, f"/jobs/{job_id}/runs")


async def test_every_field_is_described(here: World) -> None:
    """In OpenAPI, with a sentence where the name does not say it all."""
    schemas = (await here.client.get("/openapi.json")).json()["components"]["schemas"]
    fields = schemas["JobBody"]["properties"]
    assert {"on_unknown", "concurrency", "rate", "then", "on_failure", "limits", "retry"} <= fields.keys()
    assert "description" in json.dumps(fields["then"])
    assert {"delays_seconds", "deadline_seconds", "on"} <= schemas["RetryBody"]["properties"].keys()
    assert {"cpu_seconds", "memory_bytes", "processes", "disk_bytes", "files"} <= schemas["Limits"]["properties"].keys()


# ------------------------------------------------------------------------------------------ sequences


async def test_successors_are_named_by_id_or_key_and_answered_as_ids(here: World) -> None:
    """One or several, each once."""
    load = await create(here, name="load", key="load-of-the-day", schedule_type="ON_DEMAND")
    tell = await create(here, name="tell", schedule_type="ON_DEMAND")
    first = await create(here, every="1h", then="load-of-the-day", on_failure=[tell, "load-of-the-day"])
    found = await get(here, f"/jobs/{first}")
    assert ([load], [tell, load]) == (found["then"], found["on_failure"])
    assert (UUID(load),) == (await kept(here, first)).then
    changed = await put(here, first, on_failure=None)
    assert ([load], []) == (changed["then"], changed["on_failure"])


@pytest.mark.parametrize("field", ["then", "on_failure"])
async def test_a_successor_that_is_not_there_is_refused(here: World, field: str) -> None:
    """Nor one that is cancelled: it would never run."""
    gone = await create(here, every="1h")
    assert 200 == (await here.client.delete(f"{API}/jobs/{gone}")).status_code
    for name in ("nobody", "00000000-0000-8000-8000-000000000000", gone, "a\0b"):
        found = problem(await post(here, {**WHEN, field: [name]}), 422)
        assert (f"/{field}/0", "successor_unknown") == (found["pointer"], found["code"])


async def test_a_successor_of_another_namespace_is_not_there(here: World) -> None:
    """Nobody starts jobs of others."""
    key = await here.key("a-key-of-another-namespace", "*", namespace="other")
    theirs = await here.client.post(
        f"{API}/jobs", json={**WHEN, "key": "theirs"}, headers={"Authorization": f"Bearer {key}"}
    )
    for name in (theirs.json()["job_id"], "theirs"):
        assert "successor_unknown" == problem(await post(here, {**WHEN, "then": name}), 422)["code"]


async def test_too_many_successors_and_one_named_twice_are_refused(here: World) -> None:
    """Up to 20, each once."""
    job_id = await create(here, key="named-twice", every="1h")
    found = problem(await post(here, {**WHEN, "then": [job_id, "named-twice"]}), 422)
    assert ("/then/1", True) == (found["pointer"], "twice" in found["detail"])
    assert "20" in problem(await post(here, {**WHEN, "then": ["x"] * 21}), 422)["detail"]


async def test_a_job_that_names_itself_is_refused(here: World) -> None:
    """By the id that it is to have, and by the one that it has."""
    own = "018f0000-0000-8000-8000-000000000001"
    found = problem(await post(here, {**WHEN, "job_id": own, "then": own}), 422)
    assert ("/then", "sequence_cycle") == (found["pointer"], found["code"])
    job_id = await create(here, key="itself", every="1h")
    for name in (job_id, "itself"):
        found = problem(await here.client.put(f"{API}/jobs/{job_id}", json={"on_failure": [name]}), 422)
        assert "sequence_cycle" == found["code"]


async def test_two_changes_at_once_close_no_circle() -> None:
    """Each looks at what the other has kept, not at what it was before: one of them is refused."""
    clock = SystemClock()

    async def slow(call: Callable[..., Awaitable[JobRow]], change: JobChange, **said: Any) -> JobRow:
        for _ in range(20):  # turns in which the other could look at jobs that are as yet unchanged
            await clock.sleep(0)
        return await call(change, **said)

    store = MemoryStore(clock)
    override(store, "jobs.change", slow)
    async with world(store=store) as here:
        one = await create(here, schedule_type="ON_DEMAND")
        two = await create(here, schedule_type="ON_DEMAND")
        answers = await asyncio.gather(
            here.client.put(f"{API}/jobs/{one}", json={"then": two}),
            here.client.put(f"{API}/jobs/{two}", json={"then": one}),
        )
        assert [200, 422] == sorted(answer.status_code for answer in answers)


async def test_a_circle_is_refused_and_shown(here: World) -> None:
    """Over both kinds of steps; the jobs stay as they were."""
    last = await create(here, name="report", schedule_type="ON_DEMAND")
    middle = await create(here, name="load", schedule_type="ON_DEMAND", on_failure=last)
    first = await create(here, name="fetch", every="1h", then=[middle])
    found = problem(await here.client.put(f"{API}/jobs/{last}", json={"then": [first]}), 422)
    assert ("/then", "sequence_cycle") == (found["pointer"], found["code"])
    assert "report → fetch → load → report" in found["detail"]
    assert [] == (await get(here, f"/jobs/{last}"))["then"]


async def test_two_ways_to_the_same_job_are_no_circle(here: World) -> None:
    """Only a way back is."""
    end = await create(here, schedule_type="ON_DEMAND")
    left = await create(here, schedule_type="ON_DEMAND", then=end)
    right = await create(here, schedule_type="ON_DEMAND", then=[end], on_failure=left)
    assert [left, right] == (await get(here, f"/jobs/{await create(here, every='1h', then=[left, right])}"))["then"]


async def test_a_chain_that_is_too_long_is_refused(here: World) -> None:
    """100 jobs one after the other, and no more."""
    job_id = await create(here, schedule_type="ON_DEMAND")
    for _ in range(99):
        job_id = await create(here, schedule_type="ON_DEMAND", then=job_id)
    found = problem(await post(here, {**WHEN, "then": job_id}), 422)
    assert ("/then", "sequence_too_long") == (found["pointer"], found["code"])


async def test_each_job_of_a_batch_is_judged_by_itself(here: World) -> None:
    """One that names nobody is refused, the others are stored."""
    there = await create(here, schedule_type="ON_DEMAND")
    bodies = [{**WHEN, "then": there}, {**WHEN, "then": "nobody at all"}, {**WHEN, "concurrency": {"limit": 2}}]
    answer = (await post(here, bodies, "/jobs:batch")).json()
    assert [201, 422, 201] == [each["status"] for each in answer["results"]]
