"""The same program as seven services, two of each: the whole API through a gateway, while one of each is killed."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final
from uuid import UUID

import pytest

from tests.chaos import evidence
from tests.chaos.evidence import Knowledge
from tests.chaos.rows.jobs import function
from tests.chaos.scene import CLOCK, Pace, Scene, scene
from tests.integration.processes.gateway import Gateway
from tests.integration.processes.seven import Seven, seven
from tests.support.waiting import eventually
from tickwise.domain.history.checker import judge

SECONDS: Final = 390.0
SEED: Final = 7
PACE: Final = Pace(lease=6.0, heartbeat=0.5, poll=0.5)
ENDED: Final = frozenset({"SUCCESS", "FAILED", "CANCELLED", "SKIPPED"})
HOURLY: Final = {"schedule_type": "CRON", "cron_expression": "0 * * * *"}
ON_DEMAND: Final = {"schedule_type": "ON_DEMAND"}
LOAD: Final = 10
LOAD_EVERY_SECONDS: Final = 0.5


def day(number: int) -> str:
    """Midnight so many days from now."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (today + timedelta(days=number)).isoformat().replace("+00:00", "Z")


class Drive:
    """One user after the other, each with a part of the API."""

    def __init__(self, stage: Scene, services: Seven, gateway: Gateway) -> None:
        self.stage = stage
        self.services = services
        self.gateway = gateway
        self.ask = gateway.ask
        self.until = gateway.until

    async def job(self, name: str, **body: Any) -> str:
        """The id of a job, once it can be read."""
        told = await self.ask("POST", "/jobs", 202, {"name": name, **function(self.stage, "brief"), **body})
        assert "pending" == told["status"]
        await self.until(f"/jobs/{told['job_id']}", lambda found: True, "it can be read")
        return str(told["job_id"])

    async def run_of(self, job_id: str, *, status: str = "SUCCESS") -> str:
        """The id of the newest run of that job, once it has ended so."""
        path = f"/jobs/{job_id}/runs"
        runs = await self.until(path, lambda found: found and found[0]["status"] in ENDED, "it has ended")
        assert status == runs[0]["status"], runs[0]
        return str(runs[0]["run_id"])

    async def done(self, operation: Any) -> Any:
        """An operation over many things, once it is over."""
        path = f"/operations/{operation['operation_id']}"
        return await self.until(path, lambda found: found["status"] in {"done", "cancelled", "failed"}, "it is done")

    # ------------------------------------------------------------------ the parts of the API

    async def look_around(self) -> None:
        """Health, metrics, who works."""
        for path in ("/livez", "/readyz", "/healthz", "/healthz/details", "/metrics"):
            await self.gateway.answer("GET", path)
        executors = await self.until("/executors", lambda found: len(found) >= 2, "both executors are there")
        assert all(each["queues"] == ["default"] for each in executors)
        await self.ask("GET", "/roles")

    async def trust_issuers(self) -> None:
        """A federation, from its making to its end."""
        trust = {"issuer": "https://issuer.example.com", "audience": "a", "conditions": {"sub": "x"}}
        made = await self.ask("POST", "/federations", 201, {"name": "ci", "permissions": ["jobs:read"], **trust})
        assert made == await self.ask("GET", f"/federations/{made['federation_id']}")
        assert [made] == await self.ask("GET", "/federations")
        await self.ask("DELETE", f"/federations/{made['federation_id']}")

    async def make_keys(self) -> None:
        """A key that opens every service, until it is revoked."""
        key = await self.ask("POST", "/keys", 201, {"name": "reader", "scopes": ["jobs:read"]})
        mine = {"Authorization": f"Bearer {key['key']}"}
        assert key["key_id"] in {each["key_id"] for each in await self.ask("GET", "/keys")}
        await self.gateway.answer("GET", "/jobs", headers=mine)
        await self.gateway.answer("GET", "/keys", status=403, headers=mine)
        rotated = await self.ask("POST", f"/keys/{key['key_id']}/rotate", 200, {"overlap_seconds": 600})
        await self.gateway.answer("GET", "/jobs", headers={"Authorization": f"Bearer {rotated['key']}"})
        told = await self.ask("GET", f"/audit?target={key['key_id']}")
        assert ["key.rotated", "key.made"] == [each["action"] for each in told if each["action"] != "key.used_first"]
        exported = await self.gateway.answer("GET", f"/audit/export?target={key['key_id']}&action=key.made")
        assert 1 == len(exported.text.splitlines())
        await self.ask("DELETE", f"/keys/{key['key_id']}")
        for _ in self.services.of("search service"):

            async def refused() -> bool:
                answer = await self.gateway.answer("GET", "/jobs", status=(200, 401), headers=mine)
                return answer.status_code == 401

            await eventually(refused, within_seconds=60, what="the revoked key opens nothing")

    async def store_tasks(self) -> None:
        """A stored task, and a job that names it."""
        stored = {"taskId": "greet", "task": {"kind": "shell", "command": "echo hello; echo kept > left"}}
        await self.ask("POST", "/tasks", 201, stored)
        assert ["greet"] == [each["taskId"] for each in await self.ask("GET", "/tasks")]
        await self.ask("GET", "/tasks/greet")
        script = b"print('hello from a file')\n"
        await self.gateway.answer(
            "PUT", "/tasks/file", script, status=(200, 201), headers={"Content-Type": "text/x-python"}
        )
        assert [1] == [each["version"] for each in await self.ask("GET", "/tasks/file/versions")]
        assert script == (await self.gateway.answer("GET", "/tasks/file/versions/1/source")).content
        told = await self.ask("POST", "/jobs", 202, {"name": "greets", "schedule_type": "IMMEDIATE", "taskId": "greet"})
        self.unwitnessed = frozenset({UUID(told["job_id"])})
        run_id = await self.run_of(told["job_id"])
        logs = await self.gateway.answer("GET", f"/runs/{run_id}/logs")
        assert "hello\n[kept as artefacts: left (5 bytes)]\n" == logs.text
        assert logs.text == (await self.gateway.answer("GET", f"/runs/{run_id}/logs/file")).text
        found = await self.ask("GET", f"/logs?find=hello&job_id={told['job_id']}")
        assert run_id in json.dumps(found)
        assert ["left"] == [each["name"] for each in await self.ask("GET", f"/runs/{run_id}/artefacts")]
        assert b"kept\n" == (await self.gateway.answer("GET", f"/runs/{run_id}/artefacts/left")).content

    async def keep_calendars(self) -> None:
        """Calendars and windows, from their making to their end."""
        closed = {"weekly": [{"days": ["sat", "sun"]}]}
        await self.ask("PUT", "/calendars/weekends", 201, closed)
        await self.ask("PUT", "/windows/night", 201, {"when": closed, "labels": {"tier": "test"}})
        await self.ask("POST", "/calendars:preview", 200, {"calendar": closed})
        for kind, name in (("calendars", "weekends"), ("windows", "night")):
            await self.ask("GET", f"/{kind}")
            await self.ask("GET", f"/{kind}/{name}")
            assert (await self.ask("GET", f"/{kind}/{name}/covers"))["covers"]
            await self.ask("DELETE", f"/{kind}/{name}", (200, 404))

    async def plan(self) -> None:
        """A schedule that is read, changed, paused, moved, asked for, filled up, and cancelled."""
        job_id = await self.job("nightly", key="nightly", **HOURLY)
        here = f"/jobs/{job_id}"
        assert [job_id] == [each["job_id"] for each in await self.ask("GET", "/jobs?name=nightly")]
        for path in ("/jobs/by-key/nightly", f"{here}/explain", f"{here}/status", f"{here}/preview"):
            await self.ask("GET", path, (200, 404))
        await self.ask("GET", f"{here}/occurrences")
        await self.ask("POST", f"{here}/move", 200, {"namespace": "default"})
        await self.ask("POST", "/jobs:preview", 200, HOURLY)
        await self.ask("PUT", here, 202, {"description": "changed through the broker"})
        changed = "changed through the broker"
        await self.until(here, lambda found: found.get("description") == changed, "the change is applied")
        await self.change_what_was_read(here)
        merged = {"Content-Type": "application/merge-patch+json"}
        patch = b'{"description":null,"labels":{"tier":"test"}}'
        found = (await self.gateway.answer("PATCH", here, patch, headers=merged)).json()
        assert (None, {"tier": "test"}) == (found.get("description"), found["labels"])
        await self.ask("PUT", "/jobs/by-key/nightly", 200, {"owner": "somebody"})
        assert "PAUSED" == (await self.ask("POST", f"{here}/pause"))["status"]
        assert "SCHEDULED" == (await self.ask("POST", f"{here}/resume"))["status"]
        await self.ask("POST", f"{here}/runNow", 202)
        await self.run_of(job_id)
        await self.ask("POST", f"{here}/skipNext", (200, 202), {"reason": "a test"})
        moved = (datetime.now(UTC) + timedelta(hours=3)).isoformat()
        await self.ask("POST", f"{here}/snooze", 200, {"until": moved})
        backfill = await self.ask("POST", f"{here}/backfill", 202, {"from": day(-1), "to": day(0), "limit": 3})
        await self.ask("POST", f"{here}/backfills/{backfill['backfill_id']}/cancel")
        await self.ask("DELETE", here, 202)
        await self.until(here, lambda found: found["status"] == "CANCELLED", "the cancel is applied")

    async def change_what_was_read(self, here: str) -> None:
        """A change of what was read, by its ETag; it is read again if another one has come."""

        async def changed() -> bool:
            read = {"If-Match": (await self.gateway.answer("GET", here)).headers["etag"]}
            body = {"description": "directly"}
            return (await self.gateway.answer("PUT", here, body, status=(200, 412), headers=read)).status_code == 200

        await eventually(changed, within_seconds=60, what="the version that was read is the last")

    async def run_many(self) -> None:
        """A batch, and operations over all of it."""
        labels = {"labels": {"set": "many"}}
        bodies = [
            {"name": f"many {number}", **function(self.stage, "brief"), **ON_DEMAND, **labels} for number in range(5)
        ]
        told = await self.ask("POST", "/jobs:batch", 202, {"jobs": bodies})
        for each in told["results"]:
            await self.until(f"/jobs/{each['job_id']}", lambda found: True, "it is applied")
        chosen = {"filter": {"labels": {"set": "many"}}}
        assert 5 == (await self.ask("POST", "/jobs:pause", 200, {**chosen, "dry_run": True}))["matches"]
        for action in ("pause", "resume", "cancel"):
            operation = await self.ask("POST", f"/jobs:{action}", 202, chosen)
            found = await self.done(operation)
            assert (5, 0) == (found["done"], found["refused"]), found
        await self.ask("POST", f"/operations/{operation['operation_id']}/cancel")
        assert 3 <= len(await self.ask("GET", "/operations"))

    async def fail(self) -> None:
        """Runs that fail: retried, redriven, discarded, one by one and many at once."""
        failing = function(self.stage, "failing", failures=9) | ON_DEMAND | {"max_retries": 0}
        job_id = await self.job("fails", **failing)
        letters: list[str] = []
        for number in range(4):
            await self.ask("POST", f"/jobs/{job_id}/runNow", 202)
            letters = await self.letters_of(job_id, least=number + 1)
        first, second, third, _ = letters
        await self.ask("GET", f"/dead-letters/{first}")
        await self.ask("GET", f"/runs/{first}")
        await self.ask("GET", f"/runs/{first}/explain")
        good = self.stage.witness.payload(failures=0)
        await self.ask("POST", f"/dead-letters/{first}/redrive", 202, {"payload": good})
        await self.ask("POST", f"/runs/{second}/retry", 202, {"payload": good})
        await self.ask("POST", f"/dead-letters/{third}/discard", 200, {"note": "seen"})
        mine = {"filter": {"job_id": job_id}}
        assert 1 == (await self.ask("POST", "/dead-letters:redrive", 200, {**mine, "dry_run": True}))["matches"]
        await self.done(await self.ask("POST", "/runs:retry", 202, {**mine, "payload": good}))
        for action in ("redrive", "discard"):
            await self.ask("POST", f"/dead-letters:{action}", (200, 202), mine)
        await self.until(
            f"/jobs/{job_id}/runs?status=SUCCESS", lambda found: len(found) == 3, "what was tried again ends well"
        )
        await self.ask("GET", f"/runs?job_id={job_id}")
        await self.ask("GET", "/runs/counts")
        await self.ask("GET", "/analytics?group_by=job")
        assert [] == await self.ask("GET", "/objectives")
        wanted = {"name": "of all", "start_within_seconds": 30}
        objective = f"/objectives/{(await self.ask('POST', '/objectives', 201, wanted))['objective_id']}"
        assert 1.0 == (await self.ask("GET", objective))["budget_left"]
        await self.ask("DELETE", objective)

    async def letters_of(self, job_id: str, *, least: int, status: str = "open") -> list[str]:
        """The runs of that job that failed for good, once there are so many."""
        path = f"/dead-letters?job_id={job_id}&status={status}"
        found = await self.until(path, lambda letters: len(letters) >= least, "it has failed")
        return [each["run_id"] for each in found]

    async def stop(self) -> None:
        """Runs that are cancelled while they go on, and one before it begins."""
        lasting = function(self.stage, "lasting", seconds=600) | ON_DEMAND
        job_id = await self.job("lasts", **lasting, overlap="allow")
        for path, body in (("/runs/{run_id}/cancel", None), ("/runs:cancel", {"filter": {"job_id": job_id}})):
            await self.ask("POST", f"/jobs/{job_id}/runNow", 202)
            runs = await self.until(f"/jobs/{job_id}/runs?status=RUNNING", lambda found: found, "it runs")
            await self.ask("POST", path.format(run_id=runs[0]["run_id"]), (200, 202), body)
            await self.until(f"/jobs/{job_id}/runs?status=RUNNING", lambda found: not found, "it is cancelled")

    async def hold_queues(self) -> None:
        """A queue stands still, and goes on."""
        await self.ask("POST", "/queues/default/drain")
        await self.ask("POST", "/queues/default/resume")
        await self.ask("POST", "/queues/default/hold", 200, {"reason": "a test"})
        job_id = await self.job("waits", **ON_DEMAND)
        await self.ask("POST", f"/jobs/{job_id}/runNow", 202)
        assert any(each["queue"] == "default" for each in await self.ask("GET", "/queues"))
        await self.until("/queues/default", lambda found: found["queued"] >= 1, "it waits")
        await self.ask("POST", "/queues/default/resume")
        await self.run_of(job_id)

    async def stop_for_a_time(self) -> None:
        """Something is stopped and goes on; what failed is grouped by its cause; streams are there."""
        scope = {"labels": {"customer": "nobody"}, "reason": "a test"}
        await self.ask("POST", "/stops:preview", 200, scope)
        stop_id = (await self.ask("POST", "/stops", 201, scope))["stop"]["stop_id"]
        await self.ask("GET", f"/stops/{stop_id}")
        await self.ask("POST", f"/stops/{stop_id}/lift")
        assert [] == await self.ask("GET", "/stops")
        view = {"list": "runs", "name": "failed", "query": "status=FAILED"}
        await self.ask("PUT", "/saved-views", 200, view)
        assert [view["name"]] == [each["name"] for each in await self.ask("GET", "/saved-views")]
        await self.ask("DELETE", "/saved-views?list=runs&name=failed")
        await self.keep_secrets()
        groups = await self.until("/errors", lambda found: found, "failures are grouped")
        error = f"/errors/{groups[0]['error_id']}"
        await self.ask("GET", error)
        await self.ask("POST", f"{error}/ignore", 200, {"failures": 5})
        await self.ask("POST", f"{error}/reopen")
        await self.ask("POST", f"{error}/resolve", 200, {})
        for stream in ("/events", f"/runs/{groups[0]['run_id']}/logs/stream"):
            await self.gateway.answer("GET", stream, status=406, headers={"Accept": "application/json"})

    async def keep_secrets(self) -> None:
        """A secret is set, seen and removed; the key of the installation stays."""
        await self.ask("PUT", "/secrets/db", 201, {"value": "correct horse"})
        assert ["db"] == [each["name"] for each in await self.ask("GET", "/secrets")]
        assert 1 == (await self.ask("GET", "/secrets/db"))["version"]
        assert [] == (await self.ask("GET", "/secrets/db/uses"))["jobs"]
        assert [] == (await self.ask("GET", "/secrets:keys"))["lost"]
        await self.ask("POST", "/secrets:rewrap", 200, {})
        await self.ask("DELETE", "/secrets/db")

    async def tell_people(self) -> None:
        """A channel that nobody listens at, a rule, the alert that it makes of a failure, decisions about it."""
        hook = {"name": "nobody", "kind": "webhook", "url": "https://hooks.example.invalid/x"}
        channel = f"/channels/{(await self.ask('POST', '/channels', 201, hook))['channel_id']}"
        assert [await self.ask("GET", channel)] == await self.ask("GET", "/channels")
        await self.ask("PATCH", channel, 200, {"url": "https://hooks.example.invalid/y"})
        await self.ask("POST", f"{channel}/rotate-secret")
        await self.ask("POST", f"{channel}/try-now")
        notice = f"/notices/{(await self.ask('POST', f'{channel}/test', 202))['notice_id']}"
        await self.until(notice, lambda found: found["tries"] >= 1, "its delivery was tried")
        assert await self.ask("GET", "/notices")
        await self.ask("POST", f"{notice}/send-again", 409)
        body = {"name": "told", "on": ["failure"], "channels": ["nobody"]}
        await self.ask("POST", "/notification-rules:preview", 200, body)
        rule = f"/notification-rules/{(await self.ask('POST', '/notification-rules', 201, body))['rule_id']}"
        await self.ask("PATCH", rule, 200, {"group": "1m"})
        assert [await self.ask("GET", rule)] == await self.ask("GET", "/notification-rules")
        await self.ask("POST", f"{rule}/test", 202)
        failing = function(self.stage, "failing", failures=9) | ON_DEMAND | {"max_retries": 0}
        job_id = await self.job("told", **failing)
        await self.ask("POST", f"/jobs/{job_id}/runNow", 202)
        alerts = await self.until(f"/alerts?subject={job_id}", lambda found: found, "an alert is open")
        alert = f"/alerts/{alerts[0]['alert_id']}"
        await self.ask("GET", alert)
        for verb in ("acknowledge", "snooze", "close", "reopen"):
            await self.ask("POST", f"{alert}/{verb}", 200, {})
        for verb in ("acknowledge", "close"):
            await self.ask("POST", f"/alerts:{verb}", 200, {"subject": job_id})
        await self.ask("DELETE", rule)
        await self.ask("DELETE", channel)

    async def show_status(self) -> None:
        """A status page, what is announced on it, and what a scheduler finds for it."""
        job_id = await self.job("shown", **ON_DEMAND)
        await self.ask("POST", f"/jobs/{job_id}/runNow", 202)
        await self.run_of(job_id)
        body = {"slug": "all", "title": "All", "enabled": True, "components": [{"name": "One", "jobs": [job_id]}]}
        page = f"/status-pages/{(await self.ask('POST', '/status-pages', 201, body))['page_id']}"
        assert [await self.ask("GET", page)] == await self.ask("GET", "/status-pages")
        said = {"kind": "incident", "title": "Late", "text": "We look."}
        told = f"{page}/announcements"
        one = f"{told}/{(await self.ask('POST', told, 201, said))['announcement_id']}"
        await self.ask("POST", f"{one}/updates", 200, {"state": "resolved", "text": "It is over."})
        assert 1 == len(await self.ask("GET", told))
        found = await self.until(page, lambda found: found["looked_at"], "a scheduler has looked")
        assert "operational" == found["components"][0]["state"]
        await self.ask("PATCH", page, 200, {"title": "Everything"})
        await self.ask("DELETE", one)
        await self.ask("DELETE", page)

    async def lose_an_executor(self) -> None:
        """One is killed with a run of which nobody can know what it did: it is held until a person decides."""
        lasting = function(self.stage, "lasting", seconds=600) | ON_DEMAND | {"on_unknown": "hold"}
        job_id = await self.job("unknown", **lasting)
        await self.ask("POST", f"/jobs/{job_id}/runNow", 202)
        await self.until(f"/jobs/{job_id}/runs?status=RUNNING", lambda found: found, "it runs")
        victims = [player for player in self.services.of("executor") if await self.runs_there(player.name, job_id)]
        assert 1 == len(victims)
        self.services.kill(victims[0])
        (run_id,) = await self.letters_of(job_id, least=1, status="held")
        await self.ask("POST", f"/dead-letters/{run_id}/decide", 200, {"outcome": "succeeded"})

    async def runs_there(self, name: str, job_id: str) -> bool:
        """Whether the executor of that name holds the run of that job."""
        return bool(await self.stage.ask("holds_of", name, UUID(job_id)))


async def _load(stage: Scene, over: asyncio.Event) -> int:
    """Jobs that come in all the time. How many there were."""
    made = 0
    for number in count():
        if over.is_set():
            break
        made += len(await stage.clients.submit_many(f"load {number}", [function(stage, "brief")] * LOAD))
        await CLOCK.sleep(LOAD_EVERY_SECONDS)
    return made


async def _all_of_it(drive: Drive) -> None:
    """The whole API, with one of each kind killed in between."""
    services = drive.services
    steps = {
        "job service": drive.plan,
        "search service": drive.run_many,
        "writer": drive.keep_calendars,
        "updater": drive.fail,
        "watcher": drive.stop,
    }
    await drive.look_around()
    await drive.make_keys()
    await drive.trust_issuers()
    await drive.store_tasks()
    for kind, step in steps.items():
        services.kill(services.of(kind)[0])
        await step()
    await services.kill_gateway()
    await drive.hold_queues()
    await drive.stop_for_a_time()
    await drive.tell_people()
    await drive.show_status()
    await drive.lose_an_executor()
    await services.all_back()


@pytest.mark.takes_up_to(SECONDS)
async def test_seven_services_keep_every_promise_while_one_of_each_kind_is_killed() -> None:
    """They are started in any order and before their broker; no job is lost, and none runs twice without a reason."""
    async with scene(pace=PACE, seed=SEED) as stage, seven(stage) as (services, gateway):
        try:
            drive = Drive(stage, services, gateway)
            over = asyncio.Event()
            load = asyncio.create_task(_load(stage, over))
            try:
                await _all_of_it(drive)
            finally:
                over.set()
                made = await load
            assert set() == await gateway.unasked()
            await stage.ended(made, of="loaded")
            await stage.calm()
            await services.retire()
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{stage.fleet.logs(1_500)}") from failure
        knowledge = Knowledge(unwitnessed=drive.unwitnessed, must_hit=True)
        verdict = judge(await evidence.history_of(stage, knowledge, stalls=True))
        assert "valid" == verdict.status, verdict.as_text()
        assert [] == stage.complaints
