"""Roles on Cassandra, attacked by a tenant who has an API key, by somebody who reaches the keeper's port, and by a
reader of the tables. The keeper keeps its shards, and what was acknowledged is in the tables and runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx2
import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet, Role, api_client
from tests.support.cassandras import CLOCK, keyspace, linked
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.link import CassandraLink

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(240)]

TASK: Final = {"kind": "function", "name": "tests.nothing_at_all"}
NAMESPACE: Final = "Tickwise-Namespace"
DEEP: Final = "[" * 5_000 + "]" * 5_000
FORGED: Final = "'); DROP TABLE jobs; --"
HOSTILE: Final[Mapping[str, str]] = {
    "nul": "a\0b",
    "cql": FORGED,
    "cql-literal": "{'a': 1} AND token(x) > 0 ALLOW FILTERING",
    "half a pair": "\ud800x",
    "private": "\U0010ffff\ufffe",
    "right to left": "\u202egnp.exe",
    "empty": "",
    "line": "a\r\nb",
    "large": "x" * 70_000,
}
BODIES: Final[Mapping[str, bytes]] = {
    "bytes": bytes(range(256)),
    "deep": f'{{"name":"deep","schedule_type":"IMMEDIATE","task":{json.dumps(TASK)},"params":{DEEP}}}'.encode(),
    "half a pair": rb'{"name":"\ud800","schedule_type":"IMMEDIATE","task":{"kind":"function","name":"\udfff"}}',
    "no utf-8": b'{"name":"\xff\xfe","schedule_type":"IMMEDIATE"}',
    "number": b'{"name":"n","schedule_type":"IMMEDIATE","priority":' + b"9" * 4_000 + b"}",
    "depth of names": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
}
FAULTS: Final = (
    "log_lost", "log_not_written", "effects_refused", "row_refused", "tables_failed", "tables_not_followed",
    "keeper_call_failed", "checkpoint_not_kept",
)  # fmt: skip
"""What a keeper says when something of a caller has reached further than it may."""


@dataclass
class Attacked:
    """The installation, and clients of it."""

    fleet: Fleet
    keeper: Role
    url: str
    admin: httpx2.AsyncClient
    link: CassandraLink

    def faults(self) -> list[dict[str, Any]]:
        """What the keeper had to say of faults until now."""
        return [each for name in FAULTS for each in self.keeper.events(name)]

    async def posted(self, body: Mapping[str, Any]) -> httpx2.Response:
        """The answer to a new job, sent in ASCII: half a pair has no UTF-8."""
        return await self.admin.post("/jobs", content=json.dumps(body), headers={"Content-Type": "application/json"})

    async def goes_on(self) -> None:
        """A job that anybody might send is taken, runs, and is in the tables as it ended."""
        answer = await self.posted({"name": "good", "schedule_type": "IMMEDIATE", "task": TASK})
        assert 201 == answer.status_code, answer.text
        job_id = UUID(answer.json()["job_id"])
        await eventually(partial(self._succeeded, job_id), what="a good job runs")
        await eventually(partial(self.row, job_id), what="it is in the tables")
        assert not self.faults()
        assert 2 == len(self.keeper.events("log_opened")), "the keeper started over"

    async def _succeeded(self, job_id: UUID) -> bool:
        return await self.are_all(str(job_id), "SUCCESS", 1)

    async def are_all(self, job_id: str, status: str, count: int) -> bool:
        """Check whether a job has so many runs, all of that status."""
        runs = (await self.admin.get("/runs", params={"job_id": job_id, "limit": 500})).json()
        return [status] * count == [each["status"] for each in runs]

    async def row(self, job_id: UUID, namespace: str = "default") -> tuple[Any, ...] | None:
        """The name and the definition of a job, as its table has them."""
        where = f"namespace = '{namespace}' AND part = {job_id.int % 16} AND job_id = {job_id}"
        rows = await self.link.run(f"SELECT name, labels, definition FROM jobs WHERE {where}")
        return rows[0] if rows else None


@pytest_asyncio.fixture(scope="module")
async def attacked(
    cassandra_server_url: str, redis_server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Attacked]:
    """A keeper of two shards, an API, a scheduler and an executor."""
    folder = Path(tmp_path_factory.mktemp("attacked"))
    async with keyspace(cassandra_server_url, shards=2) as url:
        fleet = Fleet(
            url,
            folder,
            TICKWISE_SIGNALS_URL=redis_server_url,
            TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks",
        )
        try:
            keeper = fleet.start("keeper")
            await keeper.ready()
            roles = [fleet.start(*words) for words in (("api", "--port", "0"), ("scheduler",), ("executor",))]
            urls = [await role.ready() for role in roles]
            async with api_client(urls[0] or "", timeout=60) as admin, linked(url) as link:
                yield Attacked(fleet, keeper, urls[0] or "", admin, link)
        except BaseException as failure:
            failure.add_note(fleet.logs())
            raise
        finally:
            fleet.stop()


async def test_no_value_of_a_tenant_stops_a_keeper_or_its_tables(attacked: Attacked) -> None:
    """NUL, halves of pairs, CQL, 70 kB and depth, as names, keys, labels, queues, owners and parameters of jobs."""
    taken = dict[UUID, str]()
    for name, value in HOSTILE.items():
        for change in (
            {"name": value},
            {"key": value},
            {"labels": {"a": value}},
            {"labels": {value: "a"}},
            {"queue": value},
            {"owner": value},
            {"params": {value: [value, {"x": value}]}},
            {"task": {"kind": "function", "name": value}},
            {"schedule": value},
        ):
            answer = await attacked.posted({"name": name, "schedule_type": "IMMEDIATE", "task": TASK, **change})
            assert answer.status_code < 500, (name, change, answer.text[:500])
            if answer.status_code == 201:
                taken[UUID(answer.json()["job_id"])] = name
    for body in BODIES.values():
        answer = await attacked.admin.post("/jobs", content=body, headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, answer.text[:500]
    assert taken, "nothing of it was taken, so nothing reached the keeper"
    for job_id, name in taken.items():
        assert await eventually(partial(attacked.row, job_id), what=f"{name} is in the tables")
    await attacked.goes_on()


async def test_parameters_of_a_megabyte_at_once_hold_nobody_up(attacked: Attacked) -> None:
    """Ninety jobs with 900 kB each, three bytes a character, at once: more than a message or an entry holds."""
    value = "\u20ac" * 300_000
    body = {"name": "large", "schedule_time": "2099-01-01T00:00:00Z", "task": TASK, "params": {"x": value}}
    text = json.dumps(body, ensure_ascii=False).encode()

    async def post() -> httpx2.Response:
        return await attacked.admin.post("/jobs", content=text, headers={"Content-Type": "application/json"})

    answers = await asyncio.gather(*(post() for _ in range(90)))
    assert {each.status_code for each in answers} <= {201, 429, 503}, {each.text[:300] for each in answers}
    taken = [UUID(each.json()["job_id"]) for each in answers if each.status_code == 201]
    assert taken
    for job_id in taken:
        assert await eventually(partial(attacked.row, job_id), what="it is in the tables")
    await attacked.goes_on()


async def test_runs_with_large_payloads_that_end_at_once_stop_no_shard(attacked: Attacked) -> None:
    """Ninety-six waiting runs with 900 kB each, cancelled in one request with their job."""
    hourly = {"name": "hourly", "every": "1h", "task": TASK, "queue": "nobody"}
    job_id = (await attacked.posted(hourly)).json()["job_id"]
    for day in range(1, 5):
        ends = {"from": f"2026-01-0{day}T00:00:00Z", "to": f"2026-01-0{day + 1}T00:00:00Z"}
        body = {**ends, "params": {"x": str(day) * 900_000}}
        answer = await attacked.admin.post(f"/jobs/{job_id}/backfill", json=body)
        assert 202 == answer.status_code, answer.text[:500]
    answer = await attacked.admin.delete(f"/jobs/{job_id}", timeout=120)
    assert answer.status_code < 300, answer.text[:500]
    await eventually(
        partial(attacked.are_all, job_id, "CANCELLED", 96), what="all runs are cancelled", within_seconds=60.0
    )
    await attacked.goes_on()


async def test_a_key_of_a_namespace_opens_no_other(attacked: Attacked) -> None:
    """On the same shard and on another one: by the id of a job, by its run, and by the namespace of the request."""
    for name in ("mine", "a", "b", "c", "d"):
        assert (await attacked.admin.post("/namespaces", json={"name": name})).status_code < 300
    made = await attacked.admin.post(
        "/keys", json={"name": "mine", "namespace": "mine", "permissions": ["jobs:read", "jobs:write", "jobs:operate"]}
    )
    assert made.status_code < 300, made.text
    mine = {"Authorization": f"Bearer {made.json()['key']}"}
    for other in ("a", "b", "c", "d", "default"):
        body, there = {"name": "theirs", "every": "1h", "task": TASK}, {NAMESPACE: other}
        answer = await attacked.admin.post("/jobs", headers=there, json=body)
        assert answer.status_code == 201, answer.text
        job_id = answer.json()["job_id"]
        for named in (mine, mine | there):
            for method, path in (("GET", ""), ("POST", "/runNow"), ("POST", "/pause"), ("DELETE", "")):
                content: dict[str, Any] | None = {} if method == "POST" else None
                answer = await attacked.admin.request(method, f"/jobs/{job_id}{path}", headers=named, json=content)
                assert answer.status_code in {401, 403, 404}, (method, path, named, answer.text)
        seen = (await attacked.admin.get(f"/jobs/{job_id}", headers=there)).json()
        assert "SCHEDULED" == seen["status"], "the job of another namespace is as it was"
    await attacked.goes_on()


async def test_a_token_that_is_read_in_the_tables_opens_nothing(attacked: Attacked) -> None:
    """The API takes no execution token, as a key or in a body: it fences a run, and proves nobody."""
    await attacked.goes_on()
    tokens = await attacked.link.run("SELECT execution_token, job_id, run_id FROM attempts LIMIT 5")
    assert tokens
    async with api_client(attacked.url, timeout=60) as stranger:
        for token, job_id, run_id in tokens:
            for given in (str(token), f"tw_{token}", f"{token}.{run_id}", hex(token)):
                headers = {"Authorization": f"Bearer {given}"}
                for path in (f"/jobs/{job_id}", f"/runs/{run_id}", f"/runs/{run_id}/logs"):
                    assert 401 == (await stranger.get(path, headers=headers)).status_code
            del stranger.headers["Authorization"]
            answer = await stranger.post(f"/runs/{run_id}/cancel", json={"execution_token": token})
            assert 401 == answer.status_code
            stranger.headers["Authorization"] = "Bearer x"
    schema = (await attacked.admin.get(f"{attacked.url}/api/v1/openapi.json")).text
    assert "execution_token" not in schema
    assert "fencing_token" not in schema


async def test_somebody_without_the_key_stops_no_keeper(attacked: Attacked) -> None:
    """A thousand connections to its port, silent and with nonsense, while jobs run."""
    listens = await attacked.keeper.event("keeper_listens")
    host, _, port = listens["endpoint"].rpartition(":")
    writers = list[asyncio.StreamWriter]()
    for number in range(1_000):
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            continue
        if number % 2:
            writer.write(CLOCK.random_bytes(64))
        writers.append(writer)
    await attacked.goes_on()
    new = attacked.fleet.start("executor")
    await new.ready()
    await attacked.goes_on()
    for writer in writers:
        writer.close()
    assert 10 > len(attacked.keeper.events("keeper_connection_ended"))
