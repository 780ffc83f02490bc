"""Notification rules and alerts: written, previewed, tested; acknowledged, snoozed, closed and opened again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from tests.support.alerts import opened
from tests.support.scene import Scene, scene
from tickwise.domain.lifecycle import RunState
from tickwise.ports.audit import AuditQuery

HOOK = {"kind": "webhook", "url": "https://hooks.example.com/x"}
RULE = {"name": "broken", "on": ["failure", "recovery"], "channels": ["on-call"]}
NOTHING = "019a2b3c-4d5e-8f60-9123-456789abcdef"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        for name in ("on-call", "boss"):
            await made.ask("POST", "/channels", 201, {**HOOK, "name": name})
        yield made


async def stored(here: Scene, **said: Any) -> Any:
    """A rule as it was answered when it was made."""
    return await here.ask("POST", "/notification-rules", 201, {**RULE, **said})


async def key_of(here: Scene, *permissions: str, **more: Any) -> str:
    """The secret of a key of the namespace."""
    body = {"name": "k", "permissions": list(permissions), **more}
    return str((await here.ask("POST", "/keys", 201, body))["key"])


async def test_a_rule_is_answered_with_all_its_fields(here: Scene) -> None:
    """Durations as seconds, channels by their names, jobs by their ids."""
    job = await here.create(name="nightly", cron="0 * * * *", key="n")
    made = await stored(
        here, jobs=["nightly"], labels={"team": "a"}, severity="info", on=["failure", "late", "retries"], after="10m",
        in_a_row=2, failures_of={"failures": 3, "runs": 5}, attempts=4, group="2m", repeat="4h",
        quiet={"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "days": ["mon", "sun"]},
        escalate={"after": "30m", "channels": ["boss"]},
    )  # fmt: skip
    fields = ("on", "channels", "jobs", "labels", "severity", "after", "in_a_row", "attempts", "group", "repeat")
    assert [
        ["failure", "late", "retries"], ["on-call"], [job], {"team": "a"}, "info", 600.0, 2, 4, 120.0, 14_400.0,
    ] == [made[name] for name in fields]  # fmt: skip
    assert {"failures": 3, "runs": 5} == made["failures_of"]
    assert {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "days": ["mon", "sun"]} == made["quiet"]
    assert {"after": 1_800.0, "channels": ["boss"]} == made["escalate"]
    assert made == await here.ask("GET", f"/notification-rules/{made['rule_id']}")
    assert [made] == await here.ask("GET", "/notification-rules")


async def test_jobs_are_named_by_id_key_or_name(here: Scene) -> None:
    """A name of several jobs names none, unless all but one are cancelled."""
    first = await here.create(name="a", cron="0 * * * *", key="k")
    assert [first] == (await stored(here, name="1", jobs=["k"]))["jobs"]
    assert [first] == (await stored(here, name="2", jobs=[first, "a"]))["jobs"]
    second = await here.create(name="a", cron="0 * * * *")
    refused = await here.ask("POST", "/notification-rules", 422, {**RULE, "jobs": ["a"]})
    assert "/jobs/0" == refused["pointer"]
    assert first in refused["detail"]
    assert second in refused["detail"]
    await here.ask("DELETE", f"/jobs/{second}", 200)
    assert [first] == (await stored(here, name="3", jobs=["a"]))["jobs"]
    refused = await here.ask("POST", "/notification-rules", 422, {**RULE, "jobs": [NOTHING]})
    assert ("/jobs/0", "job_unknown") == (refused["pointer"], refused["code"])


@pytest.mark.parametrize(
    ("said", "pointer", "says"),
    [
        ({"channels": ["pager", "on-call", "sms"]}, "/channels", "'pager', 'sms'; there are: boss, on-call"),
        ({"on": ["failed"]}, "/on/0", "did you mean failure?"),
        ({"on": ["zzz"]}, "/on/0", "there are failure, first_failure"),
        ({"on": []}, "/on", ""),
        ({"channels": []}, "/channels", ""),
        ({"after": "10m"}, "/after", "late or long"),
        ({"on": ["late"], "after": "soon"}, "/after", "such as 30s"),
        ({"on": ["late"], "after": -1}, "/after", "30 days"),
        ({"on": ["late"], "in_a_row": 2}, "/in_a_row", "failure"),
        ({"attempts": 2}, "/attempts", "retries"),
        ({"failures_of": {"failures": 6, "runs": 5}}, "/failures_of/failures", "cannot fail"),
        ({"on": ["executor_lost"]}, "/on", "installation"),
        ({"severity": "critical", "quiet": {"from": "22:00", "to": "07:00"}}, "/quiet", "critical"),
        ({"on": ["did_not_run"], "quiet": {"from": "22:00", "to": "07:00"}}, "/quiet", "at once"),
        ({"quiet": {"from": "22:00", "to": "22:00"}}, "/quiet/to", "no length"),
        ({"quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlln"}}, "/quiet/timezone", "Europe/Berlin"),
        ({"quiet": {"from": "22:00", "to": "07:00", "days": ["mod"]}}, "/quiet/days/0", "no weekday"),
        ({"quiet": {"from": "9:00", "to": "17:00"}}, "/quiet/from", ""),
        ({"escalate": {"after": "30m", "channels": ["on-call"]}}, "/escalate/channels", "nobody else"),
        ({"escalate": {"after": "1s", "channels": ["boss"]}}, "/escalate/after", "60 seconds"),
        ({"escalate": {"after": "30m", "channels": ["chef"]}}, "/escalate/channels", "'chef'"),
        ({"repeat": 1}, "/repeat", "60 seconds"),
        ({"name": "a\r\nBcc: eve@example.com"}, "/name", "one line"),
        ({"labels": {"a\0": "b"}}, "/labels", "U+0000"),
        ({"chanels": ["x"]}, "/chanels", "did you mean channels?"),
        ({"on": ["success"]}, "/jobs", "name the jobs that it is about"),
        ({"on": ["failure", "success"], "labels": {"tier": "1"}}, "/labels", "without labels"),
    ],
)
async def test_a_rule_that_is_none_is_refused_with_its_field(here: Scene, said: Any, pointer: str, says: str) -> None:
    """By the preview as by the rule itself."""
    for path in ("/notification-rules", "/notification-rules:preview"):
        found = await here.ask("POST", path, 422, {**RULE, **said})
        assert pointer == found["pointer"], found
        assert says in found["detail"]
    assert [] == await here.ask("GET", "/notification-rules")


async def test_a_rule_about_successes_names_its_jobs(here: Scene) -> None:
    """It has no alert to repeat or to escalate; with other events it may have. A preview counts the last day's."""
    job = await here.create(name="nightly", cron="0 * * * *", max_retries=0)
    beat = {**RULE, "on": ["success"], "jobs": ["nightly"]}
    for field, value in (("repeat", "4h"), ("escalate", {"after": "30m", "channels": ["boss"]})):
        refused = await here.ask("POST", "/notification-rules", 422, {**beat, field: value})
        assert f"/{field}" == refused["pointer"]
        assert "opens no alert" in refused["detail"]
    refused = await here.ask("POST", "/notification-rules", 422, {**beat, "labels": {"tier": "1"}})
    assert ("/labels", True) == (refused["pointer"], "leave labels out" in refused["detail"])
    made = await stored(here, **{**beat, "repeat": "4h", "on": ["success", "failure"]})
    assert (["failure", "success"], [job]) == (sorted(made["on"]), made["jobs"])
    refused = await here.ask("PATCH", f"/notification-rules/{made['rule_id']}", 422, {"jobs": []})
    assert "/jobs" == refused["pointer"]
    number = await here.join()
    for state in (RunState.SUCCESS, RunState.FAILED, RunState.SUCCESS):
        await here.ask("POST", f"/jobs/{job}/runNow", 202, {})
        claims = await here.take(number)
        await here.begin(number, claims)
        await here.pass_time(10)
        await here.finish(number, claims, state, **({} if state is RunState.SUCCESS else {"error": "exit code 1"}))
    found = await here.ask("POST", "/notification-rules:preview", 200, beat)
    assert ({"success": 2}, []) == (found["counts"], found["not_judged"])
    all_three = {**beat, "on": ["failure", "recovery", "success"]}
    both = await here.ask("POST", "/notification-rules:preview", 200, all_three)
    assert {"success": 1, "failure": 1, "recovery": 1} == both["counts"]


async def test_a_name_is_taken_once(here: Scene) -> None:
    """And a change keeps what is not sent; null takes a field away."""
    made = await stored(here, in_a_row=2, repeat="4h")
    path = f"/notification-rules/{made['rule_id']}"
    await here.ask("POST", "/notification-rules", 409, RULE)
    await stored(here, name="other")
    await here.ask("PATCH", path, 409, {"name": "other"})
    changed = await here.ask("PATCH", path, 200, {"repeat": None, "enabled": False})
    assert (2, None, False, ["on-call"]) == tuple(
        changed[name] for name in ("in_a_row", "repeat", "enabled", "channels")
    )
    refused = await here.ask("PATCH", path, 422, {"on": ["late"]})
    assert "/in_a_row" == refused["pointer"]
    gone = await here.ask("DELETE", path)
    assert "broken" == gone["name"]
    await here.ask("GET", path, 404)


async def test_a_list_goes_page_by_page(here: Scene) -> None:
    """In the order of names."""
    for name in ("c", "a", "b"):
        await stored(here, name=name)
    first = await here.world.client.get("/api/v1/notification-rules?limit=2")
    assert ["a", "b"] == [each["name"] for each in first.json()]
    following = first.headers["link"].partition("<")[2].partition(">")[0]
    assert ["c"] == [each["name"] for each in (await here.world.client.get(following)).json()]


async def test_a_removed_channel_leaves_its_rules(here: Scene) -> None:
    """The rule stays, and tells the others."""
    made = await stored(here, channels=["on-call", "boss"])
    [boss] = [each for each in await here.ask("GET", "/channels") if each["name"] == "boss"]
    await here.ask("DELETE", f"/channels/{boss['channel_id']}")
    assert ["on-call"] == (await here.ask("GET", f"/notification-rules/{made['rule_id']}"))["channels"]


async def test_a_preview_says_what_a_rule_would_have_told(here: Scene) -> None:
    """Of the runs of the last day of its jobs; nothing is stored."""
    job = await here.create(name="nightly", cron="0 * * * *", labels={"team": "a"}, max_retries=0)
    await here.create(name="other", cron="0 * * * *", labels={"team": "b"})
    number = await here.join()
    for state in (RunState.FAILED, RunState.FAILED, RunState.SUCCESS, RunState.FAILED):
        await here.ask("POST", f"/jobs/{job}/runNow", 202, {})
        claims = await here.take(number)
        await here.begin(number, claims)
        await here.pass_time(10)
        await here.finish(number, claims, state, **({} if state is RunState.SUCCESS else {"error": "exit code 1"}))
    body = {**RULE, "labels": {"team": "a"}}
    found = await here.ask("POST", "/notification-rules:preview", 200, body)
    assert (1, ["nightly"], 4, False) == (
        found["jobs"], [each["name"] for each in found["sample"]], found["runs"], found["more"],
    )  # fmt: skip
    assert {"failure": 3, "recovery": 1} == found["counts"]
    assert ["failure", "recovery", "failure", "failure"] == [each["event"] for each in found["told"]]
    assert {"nightly"} == {each["job_name"] for each in found["told"]}
    twice = await here.ask("POST", "/notification-rules:preview", 200, {**body, "in_a_row": 2})
    assert {"failure": 1, "recovery": 1} == twice["counts"]
    first = await here.ask("POST", "/notification-rules:preview", 200, {**body, "on": ["first_failure", "fuse"]})
    assert ({"first_failure": 2}, ["fuse"]) == (first["counts"], first["not_judged"])
    whole = await here.ask("POST", "/notification-rules:preview", 200, RULE)
    assert 2 == whole["jobs"]
    named = await here.ask("POST", "/notification-rules:preview", 200, {**RULE, "jobs": ["other"]})
    assert (1, {}) == (named["jobs"], named["counts"])
    assert [] == await here.ask("GET", "/notification-rules")


async def test_a_test_tells_each_channel_of_a_rule(here: Scene) -> None:
    """Or those of its escalation."""
    made = await stored(here, escalate={"after": "30m", "channels": ["boss"]})
    path = f"/notification-rules/{made['rule_id']}/test"
    names = {each["channel_id"]: each["name"] for each in await here.ask("GET", "/channels")}
    for query, expected in (("", "on-call"), ("?escalation=true", "boss")):
        [notice] = await here.ask("POST", path + query, 202)
        assert (expected, True, "broken") == (names[notice["channel_id"]], notice["test"], notice["rule"])
    other = await stored(here, name="other")
    await here.ask("POST", f"/notification-rules/{other['rule_id']}/test?escalation=true", 422)


async def test_permissions_of_rules_and_alerts(here: Scene) -> None:
    """`notices:write` writes, `notices:operate` decides, `notices:read` looks; labels are not enough."""
    made = await stored(here)
    path = f"/notification-rules/{made['rule_id']}"
    alert = await opened(here.store, UUID(made["rule_id"]), alert_id=uuid4())
    reader, operator = await key_of(here, "notices:read"), await key_of(here, "notices:operate")
    writer = await key_of(here, "notices:write")
    for key in (reader, operator):
        await here.ask("POST", "/notification-rules", 403, {**RULE, "name": "x"}, key=key)
        await here.ask("POST", "/notification-rules:preview", 403, RULE, key=key)
        await here.ask("PATCH", path, 403, {}, key=key)
        await here.ask("DELETE", path, 403, key=key)
        await here.ask("POST", f"{path}/test", 403, key=key)
    await here.ask("GET", path, 403, key=writer)
    assert ["on-call"] == (await here.ask("PATCH", path, 200, {"in_a_row": 2}, key=writer))["channels"]
    await here.ask("POST", f"/alerts/{alert}/acknowledge", 403, key=reader)
    await here.ask("POST", f"/alerts/{alert}/acknowledge", 200, key=operator)
    await here.ask("POST", f"/alerts/{alert}/reopen", 200, key=writer)
    labelled = await key_of(here, "notices:write", "notices:read", labels={"team": "a"})
    await here.ask("POST", "/notification-rules", 403, {**RULE, "labels": {"team": "a"}}, key=labelled)
    await here.ask("GET", "/alerts", 403, key=labelled)


async def test_rules_of_the_installation_are_about_executors(here: Scene) -> None:
    """For its administrators; they use its channels."""
    body = {**RULE, "on": ["executor_lost"], "installation": True}
    refused = await here.ask("POST", "/notification-rules", 422, body)
    assert "/channels" == refused["pointer"]
    await here.ask("POST", "/channels", 201, {**HOOK, "name": "on-call", "installation": True})
    made = await here.ask("POST", "/notification-rules", 201, body)
    assert made["installation"]
    assert [] == await here.ask("GET", "/notification-rules")
    assert [made] == await here.ask("GET", "/notification-rules?installation=true")
    refused = await here.ask("POST", "/notification-rules", 422, {**body, "name": "x", "on": ["failure"]})
    assert "about jobs" in refused["detail"]
    ours = await key_of(here, "*")
    await here.ask("POST", "/notification-rules", 403, {**body, "name": "x"}, key=ours)
    await here.ask("GET", f"/notification-rules/{made['rule_id']}", 404, key=ours)


async def test_an_alert_is_acknowledged_snoozed_closed_and_opened_again(here: Scene) -> None:
    """With a note, by the caller; each is on record."""
    rule = await stored(here)
    alert = await opened(here.store, UUID(rule["rule_id"]), alert_id=uuid4(), at=here.clock.now())
    path = f"/alerts/{alert}"
    [found] = await here.ask("GET", "/alerts")
    assert ("open", "nightly", "failure", rule["rule_id"]) == tuple(
        found[name] for name in ("state", "subject_name", "event", "rule_id")
    )
    taken = await here.ask("POST", f"{path}/acknowledge", 200, {"note": "on it"})
    assert ("acknowledged", "admin", "on it") == (taken["state"], taken["acknowledged_by"], taken["note"])
    again = await here.ask("POST", f"{path}/reopen")
    assert ("open", None) == (again["state"], again["acknowledged_by"])
    slept = await here.ask("POST", f"{path}/snooze", 200, {"for": "2h"})
    assert ("snoozed", "2027-01-15T10:00:00Z") == (slept["state"], slept["snoozed_until"])
    closed = await here.ask("POST", f"{path}/close")
    assert "closed" == closed["state"]
    assert [] == await here.ask("GET", "/alerts")
    assert [closed] == await here.ask("GET", "/alerts?state=closed")
    assert closed == await here.ask("GET", path)
    rows = await here.store.audit.find(AuditQuery(namespace="default", limit=50))
    actions = [row.action for row in rows if row.action.startswith("alert.")]
    assert ["alert.closed", "alert.snoozed", "alert.reopened", "alert.acknowledged"] == actions


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"for": "2h", "until": "2027-01-15T10:00:00Z"}, "/for"),
        ({"until": "2027-01-15T07:00:00Z"}, "/until"),
        ({"until": "2028-01-15T07:00:00Z"}, "/until"),
        ({"for": "a while"}, "/for"),
        ({"for": 0}, "/for"),
    ],
)
async def test_a_snooze_that_is_none_is_refused(here: Scene, body: Any, pointer: str) -> None:
    """And the alert stays open."""
    rule = await stored(here)
    alert = await opened(here.store, UUID(rule["rule_id"]), alert_id=uuid4())
    assert pointer == (await here.ask("POST", f"/alerts/{alert}/snooze", 422, body))["pointer"]
    assert "open" == (await here.ask("GET", f"/alerts/{alert}"))["state"]


async def test_alerts_go_page_by_page_and_by_filter(here: Scene) -> None:
    """The newest event first."""
    rule = await stored(here)
    ids = [
        str(
            await opened(
                here.store, UUID(rule["rule_id"]), alert_id=uuid4(), subject=f"job-{n}", at=1_800_000_000.0 + n
            )
        )
        for n in range(3)
    ]
    first = await here.world.client.get("/api/v1/alerts?limit=2")
    assert [ids[2], ids[1]] == [each["alert_id"] for each in first.json()]
    following = first.headers["link"].partition("<")[2].partition(">")[0]
    assert [ids[0]] == [each["alert_id"] for each in (await here.world.client.get(following)).json()]
    assert [ids[1]] == [each["alert_id"] for each in await here.ask("GET", "/alerts?subject=job-1")]
    assert [] == await here.ask("GET", f"/alerts?rule_id={NOTHING}")


async def test_ids_of_another_namespace_name_nothing(here: Scene) -> None:
    """Rules and alerts."""
    rule = await stored(here)
    alert = await opened(here.store, UUID(rule["rule_id"]), alert_id=uuid4())
    other = await here.world.key("another-key-of-another-namespace", "*", namespace="team-a")
    path = f"/notification-rules/{rule['rule_id']}"
    for method, address in (
        ("GET", path), ("PATCH", path), ("DELETE", path), ("POST", f"{path}/test"), ("GET", f"/alerts/{alert}"),
        *(("POST", f"/alerts/{alert}/{verb}") for verb in ("acknowledge", "snooze", "close", "reopen")),
    ):  # fmt: skip
        await here.ask(method, address, 404, {} if method == "PATCH" else None, key=other)
    assert [] == await here.ask("GET", "/alerts", key=other)
    refused = await here.ask("POST", "/notification-rules", 422, RULE, key=other)
    assert "/channels" == refused["pointer"]
