"""Asks a program for the job fields `cool_down_seconds` and `offset_seconds`.

    python -m tests.support.added_field FILE

A test runs it against a copy of the source to which it has added these fields. The findings go to FILE as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import tickwise
from tests.style import api_page
from tests.support.app import API, World, world
from tests.unit.api.rig import create, get, stored
from tests.unit.cli.loopback import Reply, serving
from tickwise.cli import reference
from tickwise.cli.main import main
from tickwise.documents.definition import decode_work

FIELD = "cool_down_seconds"
POLICY = "offset_seconds"
HOURLY = {"interval_seconds": 3_600, "anchor": "2031-01-01T00:00:00Z"}
MERGE = {"Content-Type": "application/merge-patch+json"}
PROBLEM = {
    "type": "about:blank", "title": "Invalid", "status": 422, "code": "invalid", "detail": "Expected `float` <= 3600",
    "pointer": f"/{FIELD}",
}  # fmt: skip


async def asked_of_the_api() -> dict[str, Any]:
    """The field in bodies, answers, changes, refusals and the store."""
    async with world() as here:
        usual, own = await create(here, schedule_type="ON_DEMAND"), await create(here, cron="0 3 * * *", **{FIELD: 30})
        found: dict[str, Any] = {
            "default": (await get(here, f"/jobs/{usual}"))[FIELD],
            "sent": (await get(here, f"/jobs/{own}"))[FIELD],
            "stored": json.loads((await stored(here, own)).definition)[FIELD],
            "default_stored": FIELD in json.loads((await stored(here, usual)).definition),
            "read_by_executors": getattr(decode_work((await stored(here, own)).definition), FIELD),
            "members": list(await get(here, f"/jobs/{own}")),
            "spelled": (await get(here, f"/jobs/{await create(here, cron='0 3 * * *', coolDownSeconds=7)}"))[FIELD],
            "too_much": await refusal(here, 3_601),
            "no_number": await refusal(here, "soon"),
        }
        for name, patch in (("changed", {FIELD: 45}), ("left", {"max_retries": 1}), ("reset", {FIELD: None})):
            answer = await here.client.patch(f"{API}/jobs/{own}", content=json.dumps(patch), headers=MERGE)
            found[name] = answer.json()[FIELD]
        return found


async def policy_of_the_api() -> dict[str, Any]:
    """The policy in bodies, answers, changes, the store and previews."""
    async with world() as here:
        usual, own = await create(here, **HOURLY), await create(here, **HOURLY, **{POLICY: 90})
        look = {"from": HOURLY["anchor"], "count": 2}
        found: dict[str, Any] = {
            "default": (await get(here, f"/jobs/{usual}"))[POLICY],
            "sent": (await get(here, f"/jobs/{own}"))[POLICY],
            "stored": json.loads((await stored(here, own)).definition)[POLICY],
            "preview_of_job": fires(await get(here, f"/jobs/{own}/preview?from={look['from']}&count=2")),
        }
        for name, more in (("preview_without", {}), ("preview", {POLICY: 90}), ("refused", {POLICY: 3_601})):
            answer = (await here.client.post(f"{API}/jobs:preview", json={**HOURLY, **look, **more})).json()
            found[name] = answer if name == "refused" else fires(answer)
        patched = await here.client.patch(f"{API}/jobs/{own}", content=json.dumps({POLICY: 30}), headers=MERGE)
        return {**found, "changed": patched.json()[POLICY]}


def fires(preview: dict[str, Any]) -> list[str]:
    """The times of a preview."""
    return [fire["utc"] for fire in preview["fires"]]


def policy_of_the_command_line() -> dict[str, Any]:
    """The body that a command sends."""
    created = {"job_id": "0" * 8, "warnings": []}
    shown = {"explanation": "", "timezone": "UTC", "viewer_timezone": "UTC", "warnings": [], "fires": []}
    option = ["--every", "1h", "--offset", "1m", "--json"]
    with serving(Reply(201, created)) as server:
        main(["run", "--shell", "date", *option, "--url", server.url, "--api-key", "k"])
        run = server.received[-1].body[POLICY]
    with serving(Reply(200, shown)) as server:
        main(["jobs", "preview", *option, "--url", server.url, "--api-key", "k"])
        return {"run_option": run, "preview_option": server.received[-1].body[POLICY]}


async def refusal(here: World, value: object) -> dict[str, Any]:
    """The problem with which a create is answered."""
    answer = await here.client.post(f"{API}/jobs", json={"name": "a", "schedule_type": "ON_DEMAND", FIELD: value})
    return {name: answer.json().get(name) for name in ("status", "pointer", "detail")}


def asked_of_the_command_line() -> dict[str, Any]:
    """The body that each command sends, and the words for a refusal of the server."""
    created, job = {"job_id": "0" * 8, "warnings": []}, {"job_id": "0" * 8, "version": 1, "name": "a"}
    run = ["run", "--shell", "date", "--on-demand", "--cool-down", "1m"]
    with serving(Reply(201, created)) as server:
        main([*run, "--json", "--url", server.url, "--api-key", "k"])
        found: dict[str, Any] = {"run": server.received[-1].body[FIELD]}
    with serving(Reply(200, job)) as server:
        one = "019c0000-0000-7000-8000-000000000000"
        main(["jobs", "edit", one, "--cool-down", "2m", "--json", "--url", server.url, "--api-key", "k"])
        found["edit"] = server.received[-1].body
    with (
        serving(Reply(422, PROBLEM, {"Content-Type": "application/problem+json"})) as server,
        redirect_stderr(StringIO()) as said,
    ):
        main([*run, "--url", server.url, "--api-key", "k"])
        found["refused"] = said.getvalue()
    return found


def findings() -> dict[str, Any]:
    described = api_page.description()["components"]["schemas"]
    with redirect_stdout(StringIO()):
        command_line, policy = asked_of_the_command_line(), policy_of_the_command_line()
    bodies = ("JobBody", "JobChangeBody", "PreviewBody", "JobView")
    api_lines, cli_lines = api_page.page().splitlines(), reference.render().splitlines()
    return {
        "source": str(Path(tickwise.__file__).parent),
        "api": asyncio.run(asked_of_the_api()),
        "cli": command_line,
        "schema": {name: described[name]["properties"].get(FIELD) for name in ("JobBody", "JobChangeBody", "JobView")},
        "api_page": [line for line in api_lines if FIELD in line],
        "cli_page": [line for line in cli_lines if "--cool-down" in line],
        "policy": {
            **asyncio.run(policy_of_the_api()),
            **policy,
            "schema": {name: described[name]["properties"].get(POLICY) for name in bodies},
            "api_page": [line for line in api_lines if POLICY in line],
            "cli_page": [line for line in cli_lines if "--offset" in line],
        },
    }


if __name__ == "__main__":
    os.environ.pop("TICKWISE_URL", None)
    Path(sys.argv[1]).write_text(json.dumps(findings()), encoding="utf-8")
