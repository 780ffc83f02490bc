"""Notification rules on PostgreSQL: plans, the cost of successes, and schedulers that die in a fold."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.schema import FOLDER
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.judging import UNCHOSEN
from tickwise.domain.notices.rules import PASSES, NoticeEvent, NotificationRule
from tickwise.ports.store import AlertQuery, ClaimRequest
from tickwise.roles.scheduler.alerting import LOOK_SECONDS, Alerting
from tickwise.testing.factories import Factory, executor, outcome

pytestmark = pytest.mark.usefixtures("patient_locks")

NONE = UUID(int=0)
CHANNEL = """
    INSERT INTO tickwise.channels (created_at, channel_id, namespace, name, kind, settings, allow_private, created_by)
    VALUES (tickwise.now(), $1, 'default', 'ops', 'webhook', '{}', false, 'ada')"""
FILL = """
    INSERT INTO tickwise.alerts (first_at, last_at, next_at, closed_at, events, alert_id, rule_id, namespace, event,
                                 subject, subject_name, severity, state, sentence)
    SELECT t, t, CASE WHEN n % 50 = 0 THEN t + interval '1 day' END, CASE WHEN n % 50 > 0 THEN t END, 1,
           gen_random_uuid(), gen_random_uuid(), 'n' || n % 10, 'failure', 's' || n, 'job', 'warning',
           CASE WHEN n % 50 > 0 THEN 'closed' ELSE 'open' END, 'a run failed'
    FROM generate_series(1, 50000) n, LATERAL (SELECT now() - n * interval '1 minute' AS t) c;
    INSERT INTO tickwise.notices (made_at, first_at, last_at, due, ended_at, events, notice_id, channel_id, rule_id,
                                  namespace, rule_name, severity, state, lines)
    SELECT t, t, t, t, t, 1, gen_random_uuid(), ('00000000-0000-0000-0000-0000000000' || (10 + n % 10))::uuid,
           gen_random_uuid(), 'n' || n % 10, 'rule', 'warning', 'delivered', '[]'
    FROM generate_series(1, 50000) n, LATERAL (SELECT now() - n * interval '1 minute' AS t) c;
    INSERT INTO tickwise.notices (made_at, first_at, last_at, due, events, notice_id, channel_id, rule_id, namespace,
                                  rule_name, severity, state, lines)
    SELECT now(), now(), now(), now(), 1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'n', 'rule',
           'warning', 'waiting', '[]' FROM generate_series(1, 5000);
    INSERT INTO tickwise.notices_events (at, token, event_id, job_id, state, attempt, namespace)
    SELECT now() - n * interval '1 second', n, gen_random_uuid(), gen_random_uuid(), 6, 1, 'default'
    FROM generate_series(1, 50000) n;
    INSERT INTO tickwise.timers (due, job_id) SELECT now() + n * interval '1 second', gen_random_uuid()
    FROM generate_series(1, 50000) n;
    INSERT INTO tickwise.lanes (namespace, queue, priority, requires)
    SELECT 'default', 'q' || n, 5, '{}' FROM generate_series(1, 20) n;
    INSERT INTO tickwise.runs (due, ready, queued, run_id, job_id, lane, namespace)
    SELECT t, t, t, gen_random_uuid(), gen_random_uuid(), 1 + n % 20, 'default'
    FROM generate_series(1, 100000) n, LATERAL (SELECT now() + n * interval '1 second' AS t) c;
    ANALYZE;"""
EMPTY = """
    TRUNCATE tickwise.channels, tickwise.channel_secrets, tickwise.notification_rules, tickwise.notices_watched,
             tickwise.notices_successes, tickwise.notices_events, tickwise.alerts, tickwise.notices, tickwise.runs,
             tickwise.timers"""
RULES = """
    INSERT INTO tickwise.notification_rules (created_at, rule_id, namespace, name, created_by, channels, jobs, events,
                                             enabled, body)
    SELECT now(), gen_random_uuid(), 'default', 'r' || n, 'ada', '{}', ARRAY[gen_random_uuid()],
           CASE WHEN n % 100 = 0 THEN '{success}' ELSE '{failure}' END::text[], true, '{}'
    FROM generate_series(1, 20000) n;
    ANALYZE tickwise.notification_rules, tickwise.notices_successes;"""
PLANS: dict[str, tuple[list[Any], set[str]]] = {
    "notices_events_pending": ([100], {"notices_events_at"}),
    "notices_events_take": ([[NONE], [1]], {"notices_events_pkey"}),
    "alerts_standing": (["n1", ["s1", "s2"]], {"alerts_of_subject"}),
    "alerts_due": ([10], {"alerts_next"}),
    "alerts_find_standing": (["n1", ["open"], None, None, None, None, None, 50], {"alerts_stand"}),
    "alerts_matching": (["n1", ["open"], None, None, None, 1e9, 10_001], {"alerts_stand"}),
    "alerts_decide_all": (["n1", None, None, None, None, None, 10_000, "closed", "ada", None], {"alerts_stand"}),
    "notice_test": ([NONE], {"notices_tests"}),
    "notices_take": (["one", 16, 60.0, 4, 2, 4, 2.0, 16], {"notices_due"}),
    "alerts_find": (["n1", None, None, None, None, None, None, 50], {"alerts_seen"}),
    "notices_bursts": ([[NONE, None], [NONE, NONE], [300.0, 600.0], 10, 20], {"notices_made"}),
    "notices_waiting": ([[NONE], [NONE]], {"notices_one"}),
    "notices_under_way": ([[NONE], [NONE]], {"notices_held"}),
    "notices_hurry": ([NONE], {"notices_one"}),
    "notification_rule_silence": ([NONE], {"alerts_of_rule"}),
    "delays_timers": ([["default"], 60.0, 100, 0.0, NONE], {"timers_decided", "timers_once"}),
    "delays_runs": ([["default"], 60.0, 100, NONE, UUID(int=(1 << 128) - 1)], {"runs_pkey"}),
    "delays_executors": ([600.0, 10], set()),
    "alerts_trim": ([1.0, 100], {"alerts_closed"}),
    "notices_trim": ([1.0, 100], {"notices_ended"}),
}
LARGE = {"alerts", "notices_events", "timers", "runs"}
"""Tables that no look may read from end to end."""


@pytest_asyncio.fixture(scope="module")
async def filled(postgres_url: str, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session on tables with many rows."""
    del postgres_url
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(FILL, timeout=120)
    yield connection
    await connection.close()


@pytest.mark.parametrize("name", PLANS)
async def test_a_look_goes_by_its_index(filled: asyncpg.Connection, name: str) -> None:
    """And reads no large table from end to end."""
    arguments, indexes = PLANS[name]
    plan = json.dumps(json.loads(await filled.fetchval(f"EXPLAIN (FORMAT JSON) {statement(name)}", *arguments)))
    used = set(re.findall(r'"Index Name": "(\w+)"', plan))
    scanned = set(re.findall(r'"Node Type": "Seq Scan"[^{}]*?"Relation Name": "(\w+)"', plan))
    assert indexes <= used, (used, scanned)
    assert not scanned & LARGE


async def test_a_success_is_noted_by_the_jobs_that_rules_about_successes_name(filled: asyncpg.Connection) -> None:
    """Beside 20,000 other rules: the look of the trigger whether there is one, and its question of each job."""
    text = (FOLDER / "0062_successes.sql").read_text()
    [look] = re.findall(r"IF EXISTS \((SELECT FROM tickwise.notices_successes .*)\) THEN", text)
    [ask] = re.findall(r"AND EXISTS \((SELECT FROM tickwise.notices_successes .*?) OFFSET 0\)", text)
    ask = ask.replace("e.job_id", f"'{NONE}'::uuid").replace("e.namespace", "'default'")
    async with rolled_back(filled):
        await filled.execute(RULES)
        assert 200 == await filled.fetchval("SELECT count(*) FROM tickwise.notices_successes")
        plans = [
            await filled.fetchval(f"EXPLAIN (FORMAT JSON) {asked}")
            for asked in (look.replace("ANY(watched)", "ANY('{n1}')"), ask)
        ]
    used = [set(re.findall(r'"Index Name": "(\w+)"', plan)) for plan in plans]
    assert [{"notices_successes_namespace"}, {"notices_successes_pkey"}] == used


@asynccontextmanager
async def rolled_back(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """A transaction that leaves nothing."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


def test_the_trigger_and_the_rules_agree() -> None:
    """On the alerts that a success closes, and on the skips that nobody chose."""
    text = (FOLDER / "0062_successes.sql").read_text()
    for pattern, members in (
        (r"passes CONSTANT text\[\] := ARRAY\[(.*?)\]", PASSES),
        (r"e.reason IN \((.*?)\)", UNCHOSEN),
    ):
        found = re.findall(pattern, text)
        assert [set(map(str, members))] == [set(re.findall(r"\w+", each)) for each in found]


class Night:
    """A store with a rule, and runs that end."""

    def __init__(self, url: str, store: PostgresStore, make: Factory) -> None:
        self.url, self.store, self.make = url, store, make

    async def rule(self) -> NotificationRule:
        """A rule about failures of the whole namespace."""
        channel_id = uuid4()
        await self.query(CHANNEL, channel_id)
        events = frozenset({NoticeEvent.FAILURE, NoticeEvent.RECOVERY})
        rule = NotificationRule(
            rule_id=uuid4(), namespace="default", name="nights", on=events, channels=(channel_id,)
        )  # fmt: skip
        return await self.store.notification_rules.add(rule)

    async def ended(self, state: RunState, number: int = 1) -> None:
        """Jobs of one run each, which ends so."""
        await self.store.jobs.add([self.make.job() for _ in range(number)])
        holder = await self.store.executors.join(executor(lease_seconds=1e6))
        request = ClaimRequest(executor=holder, queues=("default",), labels=(), limit=number, ahead_seconds=0.0)
        claims = await self.store.attempts.claim(request)
        assert number == len(claims)
        assert [] == list(await self.store.attempts.finish(holder, [outcome(each, state) for each in claims]))

    async def query(self, query: str, *arguments: object) -> Any:
        """From a session of its own."""
        connection = await asyncpg.connect(self.url)
        found = await connection.fetch(query, *arguments)
        await connection.close()
        return found

    async def told(self) -> list[int]:
        """The counts of all notices."""
        return [row[0] for row in await self.query("SELECT events FROM tickwise.notices ORDER BY made_at")]


@pytest_asyncio.fixture
async def night(database_url: str) -> AsyncIterator[Night]:
    """A database without rules."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(EMPTY)
    await connection.close()
    store = PostgresStore(database_url, clock=SystemClock())
    await store.open()
    yield Night(database_url, store, Factory(await store.now()))
    await store.close()


async def test_a_scheduler_that_dies_in_a_fold_leaves_its_events(night: Night) -> None:
    """Its session is ended while it waits for a lock; the next one tells all, once."""
    await night.rule()
    await night.ended(RunState.FAILED, 5)
    connection = await asyncpg.connect(night.url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("LOCK TABLE tickwise.notices IN EXCLUSIVE MODE")
    dying = asyncio.create_task(Alerting(night.store, SystemClock()).step())
    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%tickwise.notices%'"

    async def found() -> Any:
        return await night.query(waits)

    await eventually(found, what="the fold waits")
    await night.query(waits.replace("SELECT pid", "SELECT pg_terminate_backend(pid)"))
    with pytest.raises(Unavailable):
        await dying
    await transaction.rollback()
    await connection.close()
    assert [] == await night.told()
    await Alerting(night.store, SystemClock()).step()
    assert [5] == await night.told()
    assert 5 == len(await night.store.alerts.find(AlertQuery(namespace="default")))


async def test_many_schedulers_at_once_tell_each_failure_once(night: Night) -> None:
    """While failures come."""
    await night.rule()
    schedulers = [Alerting(night.store, SystemClock()) for _ in range(4)]
    for _ in range(3):
        await night.ended(RunState.FAILED, 50)
        await asyncio.gather(*(each.step() for each in schedulers))
    while await schedulers[0].step() < LOOK_SECONDS:
        pass
    alerts = await night.store.alerts.find(AlertQuery(namespace="default", limit=1_000))
    assert 150 == sum(alert.events for alert in alerts)
    assert 150 == sum(await night.told())


async def test_successes_without_an_alert_note_nothing_and_read_no_alert_of_their_own(night: Night) -> None:
    """With a rule of the namespace: one look for the whole statement, and none for each run."""
    await night.rule()
    scans = (
        "SELECT coalesce(sum(idx_scan), 0)::int FROM pg_stat_user_indexes "
        "WHERE indexrelname IN ('alerts_of_subject', 'notices_events_job')"
    )

    others = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'tickwise%'"

    async def alone() -> bool:
        return not await night.query(others)

    async def looks(state: RunState) -> int:
        """The looks of a statement that ends 200 runs; a session reports them when it is closed."""
        counts = []
        for number in (0, 200):
            if number:
                await night.ended(state, number)
            await night.store.close()
            await eventually(alone, what="the sessions have ended, and reported what they looked at")
            await night.store.open()
            counts.append((await night.query(scans))[0][0])
        return int(counts[1] - counts[0])

    assert await looks(RunState.SUCCESS) <= 1  # by one of these indexes or by another, as the planner likes
    assert [] == await night.query("SELECT FROM tickwise.notices_events")
    await night.ended(RunState.FAILED)
    assert 200 <= await looks(RunState.SUCCESS)
    assert 1 == len(await night.query("SELECT FROM tickwise.notices_events"))


async def test_a_rule_that_is_removed_while_a_fold_uses_it_waits_for_the_fold(night: Night) -> None:
    """What the fold makes is closed and dropped then."""
    rule = await night.rule()
    await night.ended(RunState.FAILED)
    connection = await asyncpg.connect(night.url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("LOCK TABLE tickwise.notices IN EXCLUSIVE MODE")
    folding = asyncio.create_task(Alerting(night.store, SystemClock()).step())
    waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

    async def waiting(number: int) -> bool:
        return len(await night.query(waits)) >= number

    await eventually(lambda: waiting(1), what="the fold waits")
    removing = asyncio.create_task(night.store.notification_rules.remove("default", rule.rule_id))
    await eventually(lambda: waiting(2), what="the removal waits")
    await transaction.rollback()
    await connection.close()
    await folding
    assert await removing
    states = await night.query("SELECT state FROM tickwise.notices UNION ALL SELECT state FROM tickwise.alerts")
    assert ["dropped", "closed"] == [row[0] for row in states]
