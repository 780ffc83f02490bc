"""The roles at work with nothing but what each needs: a user of Kafka each, under the ACLs of a Kafka that is set up as
the compose file sets it up, a database role each, made by the compose file's script, and a Redis with a password.

What is sent here is sent by real processes, and what is forged is forged by a client with the rights of a role.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import asyncpg
import httpx2
import msgspec
import pytest
import pytest_asyncio

from tests.deploy.files import COMPOSE
from tests.integration.processes.fleet import KEY, Fleet, Role
from tests.services.kafka import Access, Kafka
from tests.services.redis import Redis
from tests.support import databases
from tests.support.waiting import eventually
from tickwise.adapters.broker.kafka import KafkaBroker
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded.binaries import find_binaries
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.domain.errors import BrokerUnavailable
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome
from tickwise.ports.broker import DEAD, REQUESTS, RESULTS, Channel, Delivery, Message
from tickwise.roles.shared.messages import Request, Results, decode, encode
from tickwise.testing.contracts.broker import member

OWNER: Final = "tickwise-owner"
USERS: Final = {role: f"tickwise-{role}" for role in ("api", "scheduler", "executor", "recorder")}
SECRET: Final = "5c0f1e9b7a3d48269f10c7be42d8a693"
DATABASE_ROLES: Final = (*USERS, "channels")
REDIS_PASSWORD: Final = "a-password-of-redis"
API: Final = "/api/v1"


@dataclass
class Stage:
    """The roles, what they stand on, and a client of the API."""

    kafka: Kafka
    fleet: Fleet
    roles: dict[str, Role]
    client: httpx2.AsyncClient
    database_url: str

    def address(self, user: str) -> str:
        """Of Kafka, for a user."""
        login = f"{user}:password-of-{user}"
        return f"kafka://{login}@{self.kafka.secure_address}?sasl=SCRAM-SHA-512&lanes=1&partitions=2"

    @asynccontextmanager
    async def as_user(self, user: str) -> AsyncIterator[KafkaBroker]:
        """A client with the rights of this user."""
        broker = KafkaBroker(self.address(user), SystemClock())
        store = PostgresStore(self.database_url, clock=SystemClock())
        await store.open()
        try:
            await broker.open(store.upkeep.cluster_id)
            yield broker
        finally:
            await broker.close()
            await store.close()

    async def read(self, channel: Channel, is_enough: Callable[[Sequence[Delivery]], bool]) -> Sequence[Delivery]:
        """The messages of a channel, from its beginning, as its owner reads them; marks left out."""
        found: list[Delivery] = []

        async def enough() -> bool:
            deliveries = await consumer.take(100, 0.5)
            found.extend(each for each in deliveries if each.value)
            return is_enough(found)

        async with self.as_user(OWNER) as broker, member(broker, [channel]) as consumer:
            await eventually(enough, within_seconds=60, what=f"all of {channel.name} is read")
        return found

    async def ended(self, job_id: str) -> Any:
        """The first run of a job, once it has ended."""

        async def run() -> Any:
            answer = await self.client.get(f"{API}/jobs/{job_id}/runs")
            runs = answer.json() if answer.status_code == 200 else []
            return runs[0] if runs and runs[0]["status"] in ("SUCCESS", "FAILED") else None

        return await eventually(run, within_seconds=60, what="the run has ended")


def users() -> dict[str, str]:
    return {user: f"password-of-{user}" for user in (OWNER, *USERS.values())}


@pytest_asyncio.fixture(scope="module")
async def stage(postgres_url: str) -> AsyncIterator[Stage]:
    """Everything at work. The topics and the rights are made by the command that operators use."""
    with tempfile.TemporaryDirectory() as name:
        access = Access(users=users())
        async with (
            databases.database(postgres_url) as url,
            Kafka(access=access, deployed=COMPOSE.with_name("kafka.properties")) as kafka,
            Redis(password=REDIS_PASSWORD) as redis,
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60.0) as client,
        ):
            fleet = Fleet(url, Path(name))
            fleet.untell("TICKWISE_BOOTSTRAP_KEY")
            for _ in range(2):
                make_database_roles(url, Path(name))
            here = Stage(kafka, fleet, {}, client, url)
            try:
                await start(here, redis)
                yield here
            finally:
                fleet.stop()
        await drop_database_roles(postgres_url)


def make_database_roles(url: str, folder: Path) -> None:
    """As the compose file does, by its own script."""
    server = urlsplit(url)
    (folder / "postgres_password").write_text(unquote(server.password or ""))
    for role in DATABASE_ROLES:
        (folder / f"postgres_{role}").write_text(password_of(role))
    environment = {
        "PATH": f"{find_binaries().bin_dir}:/usr/bin:/bin",
        "SECRETS": str(folder),
        "PGHOST": server.hostname or parse_qs(server.query)["host"][0],
        "PGPORT": str(server.port or 5432),
        "PGUSER": unquote(server.username or ""),
        "PGDATABASE": server.path.removeprefix("/"),
    }
    subprocess.run(["sh", COMPOSE.with_name("database_roles.sh")], env=environment, check=True)


def password_of(role: str) -> str:
    """Of a database role."""
    return f"it's a password of {role}'s"


def login_of(role: str, url: str) -> str:
    """The address of the database for the service of this name."""
    return databases.with_role(url, f"tickwise_{role}", quote(password_of(role)))


async def drop_database_roles(postgres_url: str) -> None:
    """Their rights went with the database."""
    connection = await asyncpg.connect(postgres_url)
    for role in DATABASE_ROLES:
        await connection.execute(f"DROP ROLE tickwise_{role}")
    await connection.close()


async def start(here: Stage, redis: Redis) -> None:
    """The roles first, which wait; then the schema, the topics and the rights."""
    fleet = here.fleet
    fleet.tell(TICKWISE_SIGNALS_URL=redis.url, TICKWISE_DRAIN_SECONDS="0")
    secrets = {
        "api": {"TICKWISE_BOOTSTRAP_KEY": KEY, "TICKWISE_REQUESTS_KEYS": SECRET, "TICKWISE_INGEST": "buffered"},
        "executor": {"TICKWISE_RESULTS": "broker"},
        "recorder": {"TICKWISE_REQUESTS_KEYS": SECRET},
    }
    for role, user in USERS.items():
        words = (role, "--port", "0") if role == "api" else (role,)
        addresses = {
            "TICKWISE_BROKER_URL": here.address(user),
            "TICKWISE_DATABASE_URL": login_of(role, here.database_url),
        }
        own = {**addresses, **secrets.get(role, {})}
        here.roles[role] = fleet.start(*words, **own)
    await here.roles["recorder"].event("awaited", within_seconds=60)
    granted = [f"--{'executor' if role == 'executor' else 'service'}-role=tickwise_{role}" for role in DATABASE_ROLES]
    assert 0 == await fleet.start("db", "upgrade", *granted).ended(60)
    allowed = [word for role, user in USERS.items() for word in ("--allow", f"{role}={user}")]
    owner = {
        "TICKWISE_BROKER_URL": here.address(OWNER),
        "TICKWISE_DATABASE_URL": login_of("channels", here.database_url),
    }
    for _ in range(2):
        prepared = fleet.start("broker", "prepare", *allowed, **owner)
        assert 0 == await prepared.ended(60), prepared.log.read_text()
    for started in here.roles.values():
        await started.ready()
    here.client.base_url = str((await here.roles["api"].event("up"))["url"])


async def test_each_role_works_with_its_own_user(stage: Stage) -> None:
    """A job goes all the way: taken in by Kafka, applied, claimed by a hint, its result applied through Kafka."""
    body = {"name": "whole", "task": {"kind": "shell", "command": "echo hello"}, "schedule_type": "IMMEDIATE"}
    answer = await stage.client.post(f"{API}/jobs", json=body)
    assert 202 == answer.status_code, answer.text
    assert "SUCCESS" == (await stage.ended(answer.json()["job_id"]))["status"]
    (sent, *_) = await stage.read(RESULTS, bool)
    assert ["signature"] == [name for name, _ in sent.headers]
    for role in stage.roles.values():
        assert role.process.poll() is None, role.log.read_text()
        assert [] == role.events("results_unapplied"), role.log.name
        _, up, since = role.log.read_text().partition('"event": "up"')
        assert (True, False) == (bool(up), "permission denied" in since), role.log.name


async def test_the_executors_role_of_the_compose_file_reads_no_keys(stage: Stage) -> None:
    """It logs in with the password of its secret; the schema's migration gave it its rights."""
    connection = await asyncpg.connect(login_of("executor", stage.database_url))
    try:
        assert 0 <= await connection.fetchval("SELECT count(*) FROM tickwise.runs")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM tickwise.keys")
    finally:
        await connection.close()


async def test_no_service_logs_in_as_the_owner_of_the_schema(stage: Stage) -> None:
    """Each has sessions under its own name, and the owner has none but this one."""
    connection = await asyncpg.connect(stage.database_url)
    try:
        # A session may end a moment after its client. Autovacuum has no user; more is not told of others' sessions.
        query = (
            "SELECT array_agg(DISTINCT usename::text) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND usename IS NOT NULL"
        )

        async def only_the_roles() -> bool:
            return {f"tickwise_{role}" for role in USERS} == {*(await connection.fetchval(query) or ())}

        await eventually(only_the_roles, what="the roles have sessions, and nobody else")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("role", "channel"),
    [
        ("api", RESULTS),
        ("api", DEAD),
        ("scheduler", REQUESTS),
        ("scheduler", RESULTS),
        ("executor", REQUESTS),
        ("recorder", RESULTS),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
async def test_a_role_cannot_write_what_it_has_no_business_with(stage: Stage, role: str, channel: Channel) -> None:
    """Kafka itself refuses it."""
    async with stage.as_user(USERS[role]) as broker:
        with pytest.raises(BrokerUnavailable, match="uthoriz"):
            await broker.send(channel, [Message(b"anything", b"key")])


async def test_a_request_that_is_forged_by_a_user_who_may_write_the_topic_is_parked(stage: Stage) -> None:
    """The recorder may write requests, because its marks go there; without the secret it still speaks for nobody. What
    is behind the forged ones is applied."""
    body = {"name": "honest", "task": {"kind": "shell", "command": "true"}, "schedule_type": "ON_DEMAND"}
    first = (await stage.client.post(f"{API}/jobs", json=body)).json()["job_id"]

    def of_first(sent: Sequence[Delivery]) -> list[Delivery]:
        return [each for each in sent if str(decode(Request, each.value).job_id) == first]

    (real,) = of_first(await stage.read(REQUESTS, lambda sent: bool(of_first(sent))))
    stolen = msgspec.structs.replace(decode(Request, real.value), namespace="payroll", principal="cfo")
    forged = [
        Message(encode(stolen), real.key),
        Message(encode(stolen), real.key, real.headers),
        Message(real.value, real.key, real.headers, 1 - real.partition),
    ]
    before = len(stage.roles["recorder"].events("message_parked"))
    async with stage.as_user(USERS["recorder"]) as broker:
        await broker.send(REQUESTS, forged)
    second = (await stage.client.post(f"{API}/jobs", json={**body, "name": "behind"})).json()["job_id"]

    async def stored() -> bool:
        return (await stage.client.get(f"{API}/jobs/{second}")).status_code == 200

    await eventually(stored, within_seconds=60, what="what is behind them is applied")
    await stage.roles["recorder"].event("message_parked", count=before + 3)
    wanted = {each.value for each in forged}
    await stage.read(DEAD, lambda parked: wanted <= {each.value for each in parked})


async def test_a_result_that_is_forged_by_a_user_who_may_write_the_topic_is_parked(stage: Stage) -> None:
    """Somebody with the rights of an executor invents how a run of another one ended."""
    body = {"name": "long", "task": {"kind": "shell", "command": "sleep 300"}, "schedule_type": "IMMEDIATE"}
    job_id = (await stage.client.post(f"{API}/jobs", json=body)).json()["job_id"]

    async def running() -> Any:
        answer = await stage.client.get(f"{API}/jobs/{job_id}/runs")
        runs = answer.json() if answer.status_code == 200 else []
        return runs[0] if runs and runs[0]["status"] == "RUNNING" else None

    run = await eventually(running, within_seconds=60, what="it runs")
    connection = await asyncpg.connect(stage.database_url)
    row = await connection.fetchrow("SELECT run_id, token, holder FROM tickwise.runs WHERE run_id = $1", run["run_id"])
    await connection.close()
    now = time.time()
    outcome = Outcome(row["run_id"], row["token"], CODES[RunState.SUCCESS], now, now)
    before = len(stage.roles["recorder"].events("message_parked"))
    invented = Message(encode(Results(row["holder"], 1_000, (outcome,))), b"%d" % row["holder"])
    async with stage.as_user(USERS["executor"]) as broker:
        await broker.send(RESULTS, [invented])
    parked = await stage.roles["recorder"].event("message_parked", count=before + 1)
    assert "results" == parked["channel"]
    assert await running()


async def test_redis_lets_nobody_in_without_the_password(stage: Stage) -> None:
    """And the roles came in: none of them complains."""
    for role in stage.roles.values():
        said = await asyncio.to_thread(role.log.read_text)
        assert "NOAUTH" not in said
        assert REDIS_PASSWORD not in said
