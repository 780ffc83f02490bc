"""The audit log on PostgreSQL: what the database refuses, what sealing takes, and what `verify` finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from tests.support.databases import with_role
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.adapters.store.postgres.records import audit
from tickwise.control.audit.verification import Anchor, AuditFindingKind, AuditReport, verify
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source, entry_digest, seal_hash
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.audit import AuditQuery, AuditSpan
from tickwise.ports.store import Retention
from tickwise.wiring.audit import AnchorFile, read_anchors

DAY_SECONDS: Final = 86_400.0
RETENTION: Final = Retention(
    runs_seconds=40 * DAY_SECONDS, failed_seconds=40 * DAY_SECONDS, audit_seconds=40 * DAY_SECONDS
)
SOURCE: Final = Source(CallerKind.KEY, None, "ada", "192.0.2.1", "r1")
LATE: Final = """
    WITH a AS (
      INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller, address, request_id, target_kind)
      VALUES (tickwise.now(), 'default', 'job.changed', 'key', 'late', '', '', 'job')
      RETURNING at, entry, namespace)
    INSERT INTO tickwise.audit_unsealed SELECT at, entry, namespace FROM a"""
"""An entry of a transaction that commits late."""
TABLES: Final = ("audit", "audit_unsealed", "audit_seals", "audit_checkpoints")


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)  # one database for all of these tests
    await harmed(connection, *(f"DELETE FROM tickwise.{table}" for table in TABLES))
    await connection.close()
    made = PostgresStore(database_url, clock=SystemClock())
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def owner(store: PostgresStore, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the role that owns the tables."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


def entries(count: int, namespace: str = "default") -> list[AuditEntry]:
    """Entries to write."""
    return [
        AuditEntry(namespace, AuditAction.JOB_CHANGED, SOURCE, "job", target=str(number)) for number in range(count)
    ]


async def sealed(store: PostgresStore, *sizes: int) -> list[Anchor]:
    """Entries in seals of these sizes; the anchors of all heads."""
    anchors = []
    for size in sizes:
        await store.audit.add(entries(size))
        assert await store.audit.seal(10_000) == size
        anchors += [Anchor(*head) for head in await store.audit.heads(None, 10)]
    return anchors


async def aged(store: PostgresStore, owner: asyncpg.Connection, *days: int) -> list[Anchor]:
    """For each of these numbers two entries of so many days ago, sealed then; the anchors of all heads."""
    anchors = []
    for age in days:
        await owner.execute(f"""
            WITH a AS (
              INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller, address, request_id, target_kind)
              SELECT tickwise.now() - interval '{age} days', 'default', 'job.changed', 'key', 'ada', '', '', 'job'
              FROM generate_series(1, 2)
              RETURNING at, entry, namespace)
            INSERT INTO tickwise.audit_unsealed SELECT at, entry, namespace FROM a""")
        assert await store.audit.seal(10_000) == 2
        newest = "(SELECT max(seq) FROM tickwise.audit_seals)"
        await harmed(owner, f"UPDATE tickwise.audit_seals SET at = at - interval '{age} days' WHERE seq = {newest}")
        anchors += [Anchor(*head) for head in await store.audit.heads(None, 10)]
    return anchors


async def dropped(store: PostgresStore, owner: asyncpg.Connection) -> list[Anchor]:
    """A log of which retention has dropped the seals 1 and 2, and left 3 to 5; its anchors."""
    anchors = await aged(store, owner, 50, 45, 38, 35, 1)
    await store.upkeep.maintain(RETENTION)
    assert [seal.seq for seal in await store.audit.seals("default", 0, 10)] == [3, 4, 5]
    return anchors


@asynccontextmanager
async def unguarded(owner: asyncpg.Connection) -> AsyncIterator[None]:
    """A transaction of somebody who has all rights, and takes the triggers away for it."""
    async with owner.transaction():
        for what in ("DISABLE", "ENABLE"):
            for table in ("audit", "audit_seals", "audit_checkpoints"):
                await owner.execute(f"ALTER TABLE tickwise.{table} {what} TRIGGER USER")
            if what == "DISABLE":
                yield


async def harmed(owner: asyncpg.Connection, *statements: str) -> None:
    """Change the tables with all rights."""
    async with unguarded(owner):
        for statement in statements:
            await owner.execute(statement)


def found(report: AuditReport) -> list[tuple[AuditFindingKind, int | None, int | None]]:
    """The findings: what, in which seal, which entry."""
    assert report.found == len(report.findings)
    return [(each.kind, each.seq, each.entry) for each in report.findings]


@asynccontextmanager
async def another_role(owner: asyncpg.Connection, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of a role whose sessions the owner does not see into."""
    name = f"writer_{uuid4().hex[:12]}"
    await owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'writes'")
    connection = None
    try:
        await owner.execute(f"SELECT tickwise.grant_service('{name}')")
        connection = await asyncpg.connect(with_role(database_url, name, "writes"))
        yield connection
    finally:
        if connection is not None:
            await connection.close()
        for what in ("ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA", "ALL FUNCTIONS IN SCHEMA", "SCHEMA"):
            await owner.execute(f"REVOKE ALL ON {what} tickwise FROM {name}")
        await owner.execute(f"DROP ROLE {name}")


async def rewritten(owner: asyncpg.Connection) -> None:
    """Change the first entry, and all hashes from it on, as somebody would who knows how they are made."""
    await owner.execute(
        "UPDATE tickwise.audit SET caller = 'eve' WHERE entry = (SELECT min(entry) FROM tickwise.audit)"
    )
    previous = bytes(32)
    content = """
        SELECT convert_to(json_build_array(entry, (date_part('epoch', at) * 1000000)::bigint, namespace, action,
          caller_kind, caller_id, caller, address, request_id, target_kind, target, targets, before, after,
          detail)::text, 'UTF8') FROM tickwise.audit WHERE entry = $1"""
    for seal in await owner.fetch("SELECT * FROM tickwise.audit_seals ORDER BY seq"):
        numbers = seal["entries"]
        digests = b"".join([entry_digest(await owner.fetchval(content, number)) for number in numbers])
        new = seal_hash(previous, seal["namespace"], seal["seq"], numbers, digests)
        await owner.execute(
            "UPDATE tickwise.audit_seals SET previous = $1, digests = $2, hash = $3 WHERE seq = $4",
            previous, digests, new, seal["seq"],
        )  # fmt: skip
        previous = new


async def test_a_log_that_nobody_touched_is_good(store: PostgresStore) -> None:
    """All entries, seals and anchors are counted, of all namespaces."""
    anchors = await sealed(store, 3, 1_200, 1)
    await store.audit.add(entries(2, "elsewhere"))
    await store.audit.seal(10_000)
    report = await verify(store.audit, anchors)
    assert found(report) == []
    assert (report.namespaces, report.entries, report.seals, report.anchors) == (2, 1_206, 5, 3)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE tickwise.audit SET caller = 'eve' WHERE target = '1'", AuditFindingKind.EDITED),
        ("UPDATE tickwise.audit SET at = at + interval '1 microsecond' WHERE target = '1'", AuditFindingKind.EDITED),
        ("DELETE FROM tickwise.audit WHERE target = '1'", AuditFindingKind.DELETED),
    ],
)
async def test_an_entry_that_was_changed_or_removed_is_named(
    store: PostgresStore, owner: asyncpg.Connection, statement: str, kind: AuditFindingKind
) -> None:
    """With its seal; the chain shows it without any anchor."""
    await sealed(store, 3, 1)
    second = await owner.fetchval("SELECT entry FROM tickwise.audit WHERE target = '1'")
    await harmed(owner, statement)
    report = await verify(store.audit)
    assert (kind, 1, second) in found(report)
    assert {each.seq for each in report.findings} == {1}


async def test_entries_that_changed_places_are_named(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """Both: a number belongs to what it says."""
    await sealed(store, 2)
    first, second = [row["entry"] for row in await owner.fetch("SELECT entry FROM tickwise.audit ORDER BY entry")]
    swap = "UPDATE tickwise.audit SET entry = CASE entry WHEN {0} THEN {1} ELSE {0} END"
    await harmed(owner, swap.format(first, second))
    assert found(await verify(store.audit)) == [
        (AuditFindingKind.EDITED, 1, first),
        (AuditFindingKind.EDITED, 1, second),
    ]


async def test_seals_that_changed_places_are_found(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """Neither follows from the one before then."""
    await sealed(store, 1, 1, 1)
    await harmed(
        owner,
        "UPDATE tickwise.audit_seals SET seq = -seq WHERE seq IN (2, 3)",
        "UPDATE tickwise.audit_seals SET seq = 5 + seq WHERE seq < 0",
    )
    assert {(kind, seq) for kind, seq, _ in found(await verify(store.audit))} == {
        (AuditFindingKind.SEAL_ALTERED, 2), (AuditFindingKind.SEAL_ALTERED, 3),
    }  # fmt: skip


async def test_a_seal_that_was_removed_is_missed(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """With its entries, in the middle of the chain."""
    await sealed(store, 1, 1, 1)
    await harmed(owner, "DELETE FROM tickwise.audit_seals WHERE seq = 2")
    assert (AuditFindingKind.SEAL_MISSING, 2, None) in found(await verify(store.audit))


async def test_an_end_that_was_cut_off_is_found_by_an_anchor(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """The chain alone is as good as one that was never longer: without anchors nothing is found."""
    anchors = await sealed(store, 2, 2)
    last = await owner.fetchval("SELECT entries FROM tickwise.audit_seals WHERE seq = 2")
    await harmed(
        owner,
        f"DELETE FROM tickwise.audit WHERE entry IN ({last[0]}, {last[1]})",
        "DELETE FROM tickwise.audit_seals WHERE seq = 2",
    )
    assert found(await verify(store.audit)) == []
    assert found(await verify(store.audit, anchors)) == [(AuditFindingKind.TRUNCATED, 2, None)]


async def test_a_log_that_was_removed_whole_is_found_by_an_anchor(
    store: PostgresStore, owner: asyncpg.Connection
) -> None:
    """Of a namespace of which nothing is left, too."""
    anchors = await sealed(store, 2)
    await harmed(owner, "DELETE FROM tickwise.audit", "DELETE FROM tickwise.audit_seals")
    assert found(await verify(store.audit, anchors)) == [(AuditFindingKind.TRUNCATED, 1, None)]


async def test_a_chain_that_was_written_anew_is_found_by_an_anchor(
    store: PostgresStore, owner: asyncpg.Connection
) -> None:
    """It holds in itself, and differs from what was noted outside."""
    anchors = await sealed(store, 2, 2)
    async with unguarded(owner):
        await rewritten(owner)
    assert found(await verify(store.audit)) == []
    assert found(await verify(store.audit, anchors)) == [
        (AuditFindingKind.REWRITTEN, 1, None), (AuditFindingKind.REWRITTEN, 2, None),
    ]  # fmt: skip


async def test_a_database_that_was_set_back_differs_from_the_anchors(
    store: PostgresStore, owner: asyncpg.Connection
) -> None:
    """The chain goes on from the earlier state: first it is shorter than noted, then another one."""
    anchors = await sealed(store, 1, 1)
    lost = await owner.fetchval("SELECT entries[1] FROM tickwise.audit_seals WHERE seq = 2")
    await harmed(
        owner, f"DELETE FROM tickwise.audit WHERE entry = {lost}", "DELETE FROM tickwise.audit_seals WHERE seq = 2"
    )
    assert found(await verify(store.audit, anchors)) == [(AuditFindingKind.TRUNCATED, 2, None)]
    later = await sealed(store, 1)
    assert found(await verify(store.audit, anchors)) == [(AuditFindingKind.REWRITTEN, 2, None)]
    assert found(await verify(store.audit, later)) == []


async def test_an_entry_that_was_put_in_is_found(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """It has no mark, so nothing ever seals it. A fresh one is left in peace: it may be about to be sealed."""
    await sealed(store, 1)
    put = """
        INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller, address, request_id, target_kind)
        VALUES (tickwise.now() - interval '{} seconds', 'default', 'job.changed', 'key', 'ada', '', '', 'job')
        RETURNING entry"""
    old = await owner.fetchval(put.format(120))
    await owner.fetchval(put.format(1))
    assert await store.audit.seal(10_000) == 0
    assert found(await verify(store.audit)) == [(AuditFindingKind.UNSEALED, None, old)]


async def test_an_entry_that_was_removed_before_its_seal_is_missed(
    store: PostgresStore, owner: asyncpg.Connection
) -> None:
    """Its mark is left, and is sealed in its place."""
    await store.audit.add(entries(1))
    number = await owner.fetchval("SELECT entry FROM tickwise.audit")
    await harmed(owner, "DELETE FROM tickwise.audit")
    assert await store.audit.seal(10_000) == 1
    assert found(await verify(store.audit)) == [(AuditFindingKind.DELETED, 1, number)]


async def test_a_transaction_that_commits_late_is_sealed_later(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """Though entries with greater numbers were sealed before it was seen."""
    transaction = owner.transaction()
    await transaction.start()
    await owner.execute(LATE)
    await sealed(store, 2)
    await transaction.commit()
    assert await store.audit.seal(10_000) == 1
    first, second = await store.audit.seals("default", 0, 10)
    assert second.entries[0] < first.entries[0]
    assert found(await verify(store.audit)) == []


async def test_two_exports_have_the_entry_of_a_transaction_that_is_open(
    store: PostgresStore, owner: asyncpg.Connection
) -> None:
    """It has the time of its statement, and is seen only later: the first export ends before it, the next has it."""
    await store.audit.add(entries(1))
    transaction = owner.transaction()
    await transaction.start()
    await owner.execute(LATE)
    await store.audit.add(entries(2))
    first = await store.audit.settled()
    seen = await store.audit.find(AuditQuery(namespace="default", until=first))
    assert len(seen) == 1
    await transaction.commit()
    second = await store.audit.settled()
    later = await store.audit.find(AuditQuery(namespace="default", since=first, until=second))
    assert sorted(row.source.name for row in later) == ["ada", "ada", "late"]


async def test_an_export_waits_for_a_writer_whose_begin_it_cannot_see(
    store: PostgresStore, owner: asyncpg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A role without rights sees of the sessions of others that they write, and not since when. What does not end is
    named, and the export is refused: it could lose an entry."""
    monkeypatch.setattr(audit, "WRITERS_SECONDS_MAX", 1.0)
    async with another_role(owner, database_url) as writer:
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute(LATE)
        with pytest.raises(StoreUnavailable, match="has been writing for more than 1 s"):
            await store.audit.settled()
        monkeypatch.setattr(audit, "WRITERS_SECONDS_MAX", 60.0)
        settling = asyncio.create_task(store.audit.settled())
        await asyncio.wait([settling], timeout=1.0)
        assert not settling.done()
        await transaction.commit()
        settled = await settling
    [late] = await store.audit.find(AuditQuery(namespace="default", until=settled))
    assert late.source.name == "late"


async def test_the_spelling_of_an_entry_is_as_ever(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """Seals of before hold digests of it: this text never changes."""
    source = Source(CallerKind.PERSON, UUID(int=7), 'A"da ü', "192.0.2.1", "r1")
    ids = [UUID(int=1), UUID(int=2)]
    said = AuditEntry("default", AuditAction.JOB_CREATED, source, "job", targets=ids, after='{"a": 1}')
    await store.audit.add([said])
    number, at = await owner.fetchrow("SELECT entry, (date_part('epoch', at) * 1000000)::bigint FROM tickwise.audit")
    now = await store.now()
    [content] = await store.audit.contents(AuditSpan("default", now - 60, now + 60))
    assert content.content.decode() == (
        f'[{number}, {at}, "default", "job.created", "person", "00000000-0000-0000-0000-000000000007", "A\\"da ü", '
        f'"192.0.2.1", "r1", "job", null, ["{ids[0]}","{ids[1]}"], null, "{{\\"a\\": 1}}", null]'
    )
    await store.audit.seal(10)
    [seal] = await store.audit.seals("default", 0, 10)
    assert seal.digests == entry_digest(content.content)


@pytest.mark.parametrize("table", ["audit", "audit_seals"])
@pytest.mark.parametrize(
    "statement", ["UPDATE tickwise.{} SET at = at", "DELETE FROM tickwise.{}", "TRUNCATE tickwise.{}"]
)
async def test_the_database_refuses_changes_also_of_the_owner(
    store: PostgresStore, owner: asyncpg.Connection, table: str, statement: str
) -> None:
    """The tables only grow."""
    await sealed(store, 1)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await owner.execute(statement.format(table))
    partition = await owner.fetchval("SELECT tableoid::regclass::text FROM tickwise.audit")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await owner.execute(f"TRUNCATE {partition}")
    assert found(await verify(store.audit)) == []


async def test_entries_of_the_last_30_days_are_not_dropped_on_request(
    store: PostgresStore, owner: asyncpg.Connection
) -> None:
    """Whoever may call the function removes nothing that happened lately."""
    await sealed(store, 1)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="30 days"):
        await owner.fetchval("SELECT tickwise.audit_retire(current_date - 29)")
    assert len(await store.audit.find(AuditQuery(namespace=None))) == 1


async def test_a_log_of_which_retention_dropped_days_is_good(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """Its chain begins at the checkpoint; anchors of dropped seals are as good as the others."""
    anchors = await dropped(store, owner)
    report = await verify(store.audit, anchors, kept_seconds=RETENTION.audit_seconds)
    assert found(report) == []
    assert (report.seals, report.entries, report.anchors) == (3, 6, 4)
    assert [(begin.namespace, begin.seq) for begin in report.dropped] == [("default", 2)]


FIRST_KEPT: Final = "(SELECT entries[1] FROM tickwise.audit_seals WHERE seq = 3)"
SECOND_DROP: Final = (
    "UPDATE tickwise.audit_checkpoints SET seq = 4, hash = (SELECT hash FROM tickwise.audit_seals WHERE seq = 4)",
    "DELETE FROM tickwise.audit WHERE entry IN (SELECT unnest(entries) FROM tickwise.audit_seals WHERE seq IN (3, 4))",
    "DELETE FROM tickwise.audit_seals WHERE seq IN (3, 4)",
)
"""Seals that retention keeps, removed, and the checkpoint moved on to where the chain begins then."""
LATER: Final = "UPDATE tickwise.audit_checkpoints SET dropped_before = tickwise.now() - interval '34 days'"
"""And as if retention had come so far."""


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ((f"UPDATE tickwise.audit SET caller = 'eve' WHERE entry = {FIRST_KEPT}",), (AuditFindingKind.EDITED, 3)),
        ((f"DELETE FROM tickwise.audit WHERE entry = {FIRST_KEPT}",), (AuditFindingKind.DELETED, 3)),
        (("DELETE FROM tickwise.audit_seals WHERE seq = 3",), (AuditFindingKind.SEAL_MISSING, 3)),
        (("UPDATE tickwise.audit_checkpoints SET hash = sha256('')",), (AuditFindingKind.SEAL_ALTERED, 3)),
        (("DELETE FROM tickwise.audit_checkpoints",), (AuditFindingKind.SEAL_MISSING, 1)),
        (SECOND_DROP, (AuditFindingKind.DROPPED_EARLY, 3)),
        ((*SECOND_DROP, LATER), (AuditFindingKind.DROPPED_EARLY, 4)),
    ],
)  # fmt: skip
async def test_harm_right_behind_what_retention_dropped_is_found(
    store: PostgresStore, owner: asyncpg.Connection, statements: tuple[str, ...], expected: tuple[AuditFindingKind, int]
) -> None:
    """The first entry and the first seal that are left, the checkpoint itself, and a checkpoint that was moved on."""
    anchors = await dropped(store, owner)
    await harmed(owner, *statements)
    report = await verify(store.audit, anchors, kept_seconds=RETENTION.audit_seconds)
    assert expected in [(kind, seq) for kind, seq, _ in found(report)]


async def test_an_old_entry_that_was_put_in_is_found(store: PostgresStore, owner: asyncpg.Connection) -> None:
    """On a day with sealed entries, and on a day of its own; also of a time that retention has dropped."""
    await dropped(store, owner)
    put = [
        await owner.fetchval(f"""
            INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller, address, request_id, target_kind)
            VALUES (tickwise.now() - interval '{age} days', 'default', 'job.changed', 'key', 'ada', '', '', 'job')
            RETURNING entry""")
        for age in (60, 38, 20)
    ]
    assert found(await verify(store.audit)) == [(AuditFindingKind.UNSEALED, None, number) for number in put]
    assert [row.entry for row in await store.audit.unsealed(60.0, 2)] == put[:2]


async def test_anchors_are_read_from_their_file_and_from_a_log(store: PostgresStore, tmp_path: Path) -> None:
    """Lines of other events and a line that was cut off are passed over; the file is its owner's alone."""
    anchors = await sealed(store, 1, 1)
    path = tmp_path / "anchors"
    for _ in range(2):
        AnchorFile(path)(await store.audit.heads(None, 10))
    with path.open("a") as file:
        file.write('{"event": "up"}\n{"event": "audit_anchored", "namespace": "default", "seq": 1, "hash": "')
        file.write(anchors[0].hash.hex() + '"}\n{"namespace": "default", "seq": 3, "hash": "ab')
    read = list(read_anchors(path))
    assert read == [anchors[1], anchors[1], anchors[0]._replace(sealed_at=None)]
    assert path.stat().st_mode & 0o077 == 0
    assert (await verify(store.audit, read)).anchors == 2
