"""The audit log: written with each change and with none that changes nothing, sealed once, dropped by whole days."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tickwise.domain.audit import (
    DIGEST_BYTES,
    FIRST_HASH,
    AuditAction,
    AuditEntry,
    AuditSeal,
    CallerKind,
    Source,
    entry_digest,
)
from tickwise.domain.errors import Conflict, VersionConflict
from tickwise.ports.audit import AuditPlace, AuditQuery, AuditRow, AuditSpan
from tickwise.ports.identity import KeyOrigin
from tickwise.ports.identity.namespaces import NamespaceState, NewNamespace
from tickwise.ports.store import (
    Added,
    EndedOperation,
    JobAction,
    OperationStatus,
    Replay,
    Retention,
    RunCancel,
    RunSkip,
    Store,
)
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract
from tickwise.testing.contracts.store.jobs.transfers import TEAM, to_team
from tickwise.testing.contracts.store.people.key_rotation import rotation
from tickwise.testing.contracts.store.people.keys import new_key
from tickwise.testing.factories import Factory

ADA = Source(CallerKind.KEY, None, "ada", "192.0.2.1", "r1")
EVE = Source(CallerKind.PERSON, None, "eve", "192.0.2.2", "r2")
RETENTION = Retention(runs_seconds=40 * DAY_SECONDS, failed_seconds=40 * DAY_SECONDS, audit_seconds=40 * DAY_SECONDS)


def entry(action: AuditAction = AuditAction.JOB_CHANGED, namespace: str = "default", **fields: Any) -> AuditEntry:
    """An entry to write."""
    return AuditEntry(**{"namespace": namespace, "action": action, "source": ADA, "target_kind": "job", **fields})


async def log(store: Store, **fields: Any) -> list[AuditRow]:
    """The entries that match, the oldest first."""
    return list(await store.audit.find(AuditQuery(**{"namespace": None, "ascending": True, "limit": 1_000, **fields})))


async def written(store: Store, *changes: Callable[[AuditEntry], Awaitable[object]]) -> list[int]:
    """Make these changes one after another, each with an entry; how many entries each has left."""
    counts = []
    for change in changes:
        before = len(await log(store))
        await change(entry())
        counts.append(len(await log(store)) - before)
    return counts


async def chain(store: Store, namespace: str = "default") -> list[AuditSeal]:
    """The seals of a namespace."""
    return list(await store.audit.seals(namespace, 0, 1_000))


class AuditedJobsContract(StoreContract):
    """Entries of jobs and runs, in the transaction of their change."""

    async def test_jobs_of_one_caller_share_an_entry(self, store: Store, make: Factory) -> None:
        """It names all of them; those of another caller or another address are in another entry."""
        first, second, third, nobodys = (make.job(source=source) for source in (ADA, ADA, EVE, None))
        await self.add(store, first, second, third, nobodys)
        of_ada, of_eve = sorted(await log(store), key=lambda row: row.source.name)
        assert (of_ada.action, of_ada.source, of_ada.target) == ("job.created", ADA, None)
        assert set(of_ada.targets) == {first.job_id, second.job_id}
        assert (of_eve.source, of_eve.target, list(of_eve.targets)) == (EVE, str(third.job_id), [])

    async def test_a_job_that_is_not_stored_leaves_no_entry(self, store: Store, make: Factory) -> None:
        """Neither a repeat, nor one whose key is taken; nor a batch that is stored as a whole and was not."""
        job = make.job(source=ADA, named=True, key="nightly", digest=b"1" * 32)
        rival = make.job(source=EVE, key="nightly")
        other = make.job(source=EVE)
        await self.add(store, job)
        assert await store.jobs.add([job]) == [Added.REPEATED]
        assert await store.jobs.add([other, rival], whole=True) == [Added.CREATED, Added.KEY_TAKEN]
        assert [row.source for row in await log(store)] == [ADA]
        assert await store.jobs.add([other, rival]) == [Added.CREATED, Added.KEY_TAKEN]
        assert [row.target for row in await log(store, actor="eve")] == [str(other.job_id)]

    async def test_a_replay_leaves_no_entry(self, store: Store, make: Factory) -> None:
        """Its effect was written with the first one."""
        receipt = make.receipt()
        assert await store.jobs.add([make.job(source=ADA)], receipt) == [Added.CREATED]
        assert isinstance(await store.jobs.add([make.job(source=ADA)], receipt), Replay)
        assert len(await log(store)) == 1

    async def test_a_change_leaves_one_entry(self, store: Store, make: Factory) -> None:
        """With all that it says. The repeat of a change leaves none, nor does one that is refused."""
        job = make.recurring(make.now + 60)
        await self.add(store, job)
        row = await store.jobs.get("default", job.job_id)
        assert row is not None
        change = make.change(row, name="another")
        said = entry(target=str(job.job_id), before='{"name":"a"}', after='{"name":"b"}', detail="{}")
        await store.jobs.change(change, audit=said)
        await store.jobs.change(change, audit=said)
        with pytest.raises(VersionConflict):
            await store.jobs.change(replace(change, name="late"), audit=said)
        [found] = await log(store)
        assert (found.namespace, found.action, found.source) == ("default", "job.changed", ADA)
        assert (found.target, found.before, found.after, found.detail) == said[4:5] + said[6:]
        assert abs(found.at - await store.now()) < 60.0

    async def test_moves_of_a_job_leave_entries(self, store: Store, make: Factory) -> None:
        """Each that changes something: a pause twice is one pause, and a cancelled job is cancelled once."""
        job = make.recurring(make.now + 60)
        await self.add(store, job)
        pause, cancel = make.move(job.job_id, JobAction.PAUSE), make.move(job.job_id, JobAction.CANCEL)
        assert await written(
            store,
            lambda said: store.jobs.move(cancel, audit=said),
            lambda said: store.jobs.move(cancel, audit=said),
        ) == [1, 0]
        with pytest.raises(Conflict):
            await store.jobs.move(pause, audit=entry())
        assert len(await log(store)) == 1

    async def test_a_job_that_goes_to_another_namespace_leaves_an_entry_in_each(
        self, store: Store, make: Factory
    ) -> None:
        """Each in the chain of its namespace. The repeat of the move leaves none, nor does one that is refused."""
        job = make.recurring(make.now + 60)
        await self.add(store, job)
        arrival = entry(AuditAction.JOB_MOVED, TEAM, target=str(job.job_id), detail='{"from":"default"}')
        transfer = replace(to_team(await self.job_row(store, job.job_id)), arrival=arrival)
        assert await written(
            store,
            lambda said: store.jobs.move(transfer, audit=said),
            lambda said: store.jobs.move(transfer, audit=said),
        ) == [2, 0]
        with pytest.raises(VersionConflict):
            await store.jobs.move(replace(transfer, namespace=TEAM, to="default"), audit=entry())
        [left], [arrived] = await log(store, namespace="default"), await log(store, namespace=TEAM)
        assert (arrived.action, arrived.source, arrived.target) == ("job.moved", ADA, str(job.job_id))
        assert arrived.detail == arrival.detail
        await store.audit.seal(1_000)
        for namespace, row in (("default", left), (TEAM, arrived)):
            [seal] = await chain(store, namespace)
            assert seal.entries == [row.entry]
            assert seal.hash == seal.expected_hash()
            [content] = await store.audit.contents(AuditSpan(namespace, seal.since, seal.until))
            assert seal.digests == entry_digest(content.content)

    async def test_requests_for_runs_leave_entries(self, store: Store, make: Factory) -> None:
        """Made once, ended once: what has ended is not ended again."""
        job = make.recurring(make.now + 60)
        await self.add(store, job)
        run, skipped = make.run(job.job_id), make.run(job.job_id, make.now + 30)
        of_backfill = make.run(job.job_id, origin=make.identifier())
        cancel = RunCancel("default", run.run_id, "ada")
        skip = RunSkip("default", skipped.run_id, "not today")
        origin = of_backfill.origin
        assert origin is not None
        assert await written(
            store,
            lambda said: store.runs.add("default", job.job_id, [run, skipped, of_backfill], audit=said),
            lambda said: store.runs.add("default", job.job_id, [run], audit=said),
            lambda said: store.runs.move(cancel, audit=said),
            lambda said: store.runs.move(cancel, audit=said),
            lambda said: store.runs.move(skip, audit=said),
            lambda said: store.runs.cancel_all("default", job.job_id, origin, principal="ada", audit=said),
            lambda said: store.runs.cancel_all("default", job.job_id, origin, principal="ada", audit=said),
        ) == [1, 0, 1, 0, 1, 1, 0]

    async def test_a_request_that_stands_already_leaves_no_entry(self, store: Store, make: Factory) -> None:
        """A task that does not stop is asked again and again: the first request to its holder is on record."""
        executor, origin = await self.register(store), make.identifier()
        job = make.recurring(make.now + 60)
        await self.add(store, job)
        run = make.run(job.job_id, origin=origin)
        await store.runs.add("default", job.job_id, [run])
        [claimed] = await self.claim(store, executor)
        skip, cancel = RunSkip("default", run.run_id, "not today"), RunCancel("default", run.run_id, "ada")
        assert await written(
            store,
            lambda said: store.runs.move(skip, audit=said),
            lambda said: store.runs.move(skip, audit=said),
            lambda said: store.runs.cancel_all("default", job.job_id, origin, principal="ada", audit=said),
            lambda said: store.runs.cancel_all("default", job.job_id, origin, principal="ada", audit=said),
            lambda said: store.runs.move(cancel, audit=said),
            lambda said: store.runs.move(skip, audit=said),
        ) == [1, 0, 1, 0, 0, 0]
        assert await store.runs.cancel_all("default", job.job_id, origin, principal="ada") == 1
        begun = await self.held(store, executor, make.job())
        await self.begin(store, executor, begun)
        late = RunSkip("default", begun.run_id, "too late")
        assert await written(store, lambda said: store.runs.move(late, audit=said)) == [0]
        assert claimed.run_id == run.run_id


class AuditedThingsContract(StoreContract):
    """Entries of all else that callers change."""

    async def test_changes_of_definitions_leave_entries(self, store: Store, make: Factory) -> None:
        """Stored tasks, calendars and holds: each once."""
        task, rule = make.task(), make.rule()
        hold = make.hold()
        assert await written(
            store,
            lambda said: store.tasks.put(task, audit=said),
            lambda said: store.tasks.put(task, audit=said),
            lambda said: store.rules.put(rule, audit=said),
            lambda said: store.rules.put(rule, audit=said),
            lambda said: store.rules.delete("default", rule.kind, rule.name, audit=said),
            lambda said: store.queues.hold(hold, audit=said),
            lambda said: store.queues.resume("default", hold.queue, audit=said),
            lambda said: store.queues.resume("default", hold.queue, audit=said),
        ) == [1, 0, 1, 0, 1, 1, 1, 0]

    async def test_operations_leave_entries(self, store: Store, make: Factory) -> None:
        """A request, its end by a person, and a request that was refused after it was accepted."""
        operation = make.operation()
        ended = EndedOperation(
            operation_id=make.identifier(),
            namespace="default",
            kind="job.change",
            request="{}",
            created_by="ada",
            created_at=make.now,
            status=OperationStatus.FAILED,
            audit=entry(AuditAction.REQUEST_REFUSED),
        )
        assert await written(
            store,
            lambda said: store.operations.add(operation, audit=said),
            lambda said: store.operations.add(operation, audit=said),
            lambda said: store.operations.cancel("default", operation.operation_id, audit=said),
            lambda said: store.operations.cancel("default", operation.operation_id, audit=said),
            lambda _: store.operations.record([ended]),
            lambda _: store.operations.record([ended]),
        ) == [1, 0, 1, 0, 1, 0]

    async def test_keys_leave_entries(self, store: Store, make: Factory) -> None:
        """Made, used for the first time, rotated, and revoked: each once."""
        key = new_key(make)
        rotated = rotation(key, b"another secret")
        assert await written(
            store,
            lambda said: store.keys.add(key, audit=[said, said._replace(namespace="team-a")]),
            lambda said: store.keys.add(key, audit=[said]),
            lambda _: store.keys.used({key.key_id: 1.0}),
            lambda _: store.keys.used({key.key_id: 0.0}),
            lambda said: store.keys.rotate(rotated, audit=said),
            lambda said: store.keys.rotate(rotated, audit=said),
            lambda said: store.keys.revoke("default", key.key_id, audit=[said]),
            lambda said: store.keys.revoke("default", key.key_id, audit=[said]),
        ) == [2, 0, 1, 0, 1, 0, 1, 0]
        [used] = await log(store, action=AuditAction.KEY_USED_FIRST)
        assert (used.source, used.target) == (Source(CallerKind.KEY, key.key_id, "ada"), str(key.key_id))

    async def test_keys_of_the_program_leave_entries(self, store: Store, make: Factory) -> None:
        """The first key, that of the setting, and the one that it replaces: made and revoked by the program itself."""
        first = new_key(make, b"first", origin=KeyOrigin.FIRST)
        old, new = (new_key(make, secret, origin=KeyOrigin.SETTING) for secret in (b"old", b"new"))
        assert await written(
            store,
            lambda _: store.keys.first(first),
            lambda _: store.keys.first(first),
            lambda _: store.keys.of_setting(old),
            lambda _: store.keys.of_setting(old),
            lambda _: store.keys.of_setting(new),
            lambda _: store.keys.of_setting(old),
        ) == [1, 0, 1, 0, 2, 0]
        rows = await log(store)
        assert {row.source for row in rows} == {Source(CallerKind.PROGRAM, None, "tickwise")}
        assert {row.namespace for row in rows} == {"default"}
        assert [(row.action, row.target) for row in rows[:2]] == [
            ("key.made", str(first.key_id)),
            ("key.made", str(old.key_id)),
        ]
        assert {(row.action, row.target) for row in rows[2:]} == {
            ("key.made", str(new.key_id)),
            ("key.revoked", str(old.key_id)),
        }

    async def test_namespaces_leave_entries(self, store: Store) -> None:
        """Added, closed, and their removal asked for: each once."""
        new = NewNamespace(name="team-b", display_name="B", created_by="ada")
        row = await store.namespaces.get("default")
        assert row is not None
        closed = replace(row, name="team-b", display_name="B", state=NamespaceState.CLOSING, version=1)
        assert await written(
            store,
            lambda said: store.namespaces.add(new, audit=said),
            lambda said: store.namespaces.add(new, audit=said),
            lambda said: store.namespaces.change(closed, audit=said),
            lambda said: store.namespaces.change(closed, audit=said),
            lambda said: store.removals.begin("team-b", audit=said),
            lambda said: store.removals.begin("team-b", audit=said),
            lambda said: store.removals.begin("nowhere", audit=said),
        ) == [1, 0, 1, 0, 1, 0, 0]


class AuditSearchContract(StoreContract):
    """Entries, found again."""

    async def test_entries_are_found_by_what_they_say(self, store: Store, make: Factory) -> None:
        """By namespace, caller, action, thing and time; everything given must match."""
        things = [make.identifier() for _ in range(3)]
        await store.audit.add(
            [
                entry(target=str(things[0])),
                entry(AuditAction.SIGNED_IN, "*", source=EVE, target_kind="user"),
                entry(AuditAction.LETTER_SETTLED, "elsewhere", targets=things[1:]),
            ]
        )
        one, two, three = await log(store)
        assert [one, two, three] == sorted([one, two, three], key=lambda row: row.entry)
        now = await store.now()
        for fields, expected in (
            ({"namespace": "default"}, [one]),
            ({"actor": "eve"}, [two]),
            ({"action": AuditAction.LETTER_SETTLED}, [three]),
            ({"target": str(things[0])}, [one]),
            ({"target": str(things[2])}, [three]),
            ({"target": str(things[2]), "actor": "eve"}, []),
            ({"since": now - 60, "until": now + 60}, [one, two, three]),
            ({"until": now - 60}, []),
            ({"since": now + 60}, []),
        ):
            assert await log(store, **fields) == expected, fields

    async def test_a_list_is_read_page_by_page_in_both_directions(self, store: Store) -> None:
        """Each entry once; of one instant the number decides."""
        await store.audit.add([entry(target=str(number)) for number in range(5)])
        for ascending in (True, False):
            found: list[AuditRow] = []
            beyond = None
            while True:
                query = AuditQuery(namespace="default", ascending=ascending, beyond=beyond, limit=2)
                page = await store.audit.find(query)
                if not page:
                    break
                found += page
                beyond = AuditPlace(page[-1].at, page[-1].entry)
            targets = [row.target for row in found]
            assert targets == (list("01234") if ascending else list("43210"))

    async def test_a_search_that_may_pause_comes_to_each_entry(self, store: Store) -> None:
        """Once, in both directions, behind the pages and the places at which it paused."""
        await store.audit.add([entry(target=str(number % 2)) for number in range(7)])
        for ascending in (True, False):
            found, beyond, more = list[AuditRow](), None, True
            while more:
                query = AuditQuery(
                    namespace="default", target="0", ascending=ascending, beyond=beyond, limit=3, may_pause=True
                )
                page = await store.audit.find(query)
                found += page[:2]
                beyond = page.place_after(2)
                more = beyond is not None
            entries = [row.entry for row in found]
            assert (4, sorted(set(entries), reverse=not ascending)) == (len(entries), entries)

    async def test_contents_are_cut_as_the_list_is(self, store: Store, make: Factory) -> None:
        """Before the entry with which they hold more, and one at least; a page says so."""
        ids = [make.identifier() for _ in range(100)]
        await store.audit.add([entry(detail="x" * 900), entry(targets=ids), entry(before="ü" * 50, after="y")])
        rows = await log(store)
        assert [row.text_bytes for row in rows] == [900, 39 * 100, 101]
        now = await store.now()
        for most, expected in ((0, 1), (899, 1), (4_799, 1), (4_800, 2), (4_901, 3), (None, 3)):
            page = await store.audit.contents(AuditSpan("default", now - 60, now + 60, bytes_most=most))
            assert [each.entry for each in page] == [row.entry for row in rows[:expected]], most
            assert page.cut is (expected < 3)

    async def test_a_log_that_nobody_writes_to_is_settled_at_once(self, store: Store) -> None:
        """Up to the time of the call: each entry of before is there, and each later one is not before it."""
        await store.audit.add([entry(target="before")])
        await self.shift(store, 1.0)
        settled = await store.audit.settled()
        await store.audit.add([entry(target="after")])
        assert [row.target for row in await log(store, until=settled)] == ["before"]
        assert [row.target for row in await log(store, since=settled)] == ["after"]


class AuditSealsContract(StoreContract):
    """Seals: each entry in one, each seal after another."""

    async def test_seals_form_a_chain_of_each_namespace(self, store: Store) -> None:
        """The first has nothing before it; each holds the digests of what its entries say."""
        await store.audit.add([entry(), entry(namespace="elsewhere"), entry()])
        assert await store.audit.seal(1_000) == 3
        await store.audit.add([entry()])
        assert await store.audit.seal(1_000) == 1
        first, second = await chain(store)
        assert (first.seq, first.previous, len(first.entries)) == (1, FIRST_HASH, 2)
        assert (second.seq, second.previous, len(second.entries)) == (2, first.hash, 1)
        for seal in (first, second):
            assert seal.hash == seal.expected_hash()
            contents = await store.audit.contents(AuditSpan("default", seal.since, seal.until))
            of_seal = {each.entry: each.content for each in contents if each.entry in seal.entries}
            digests = b"".join(entry_digest(of_seal[number]) for number in seal.entries)
            assert seal.digests == digests
            assert len(digests) == DIGEST_BYTES * len(seal.entries)
        heads = await store.audit.heads(None, 10)
        assert [(head.namespace, head.seq) for head in heads] == [("default", 2), ("elsewhere", 1)]
        assert heads[0].hash == second.hash
        assert [head.namespace for head in await store.audit.heads("default", 10)] == ["elsewhere"]

    async def test_an_entry_is_sealed_once(self, store: Store, other: Store) -> None:
        """However many seal at a time."""
        await store.audit.add([entry() for _ in range(30)])
        while await store.audit.unsealed(-60.0, 1):
            await asyncio.gather(*(each.audit.seal(7) for each in (store, other, store, other)))
        assert await store.audit.seal(1_000) == 0
        sealed = [number for seal in await chain(store) for number in seal.entries]
        assert sorted(sealed) == [row.entry for row in await log(store)]
        assert [seal.seq for seal in await chain(store)] == list(range(1, len(await chain(store)) + 1))

    async def test_two_entries_are_never_spelled_alike(self, store: Store) -> None:
        """A text that moves from one field to the next is another content."""
        sources = (ADA._replace(name="a", address="b"), ADA._replace(name="ab", address=""))
        await store.audit.add([entry(source=source) for source in sources])
        now = await store.now()
        contents = await store.audit.contents(AuditSpan("default", now - 60, now + 60))
        spelled = [each.content.replace(str(each.entry).encode(), b"") for each in contents]
        assert len(set(spelled)) == 2

    async def test_what_is_not_sealed_is_found(self, store: Store) -> None:
        """Once it is old enough."""
        await store.audit.add([entry()])
        assert await store.audit.unsealed(60.0, 10) == []
        assert [row.entry for row in await store.audit.unsealed(-60.0, 10)] == [row.entry for row in await log(store)]
        await store.audit.seal(1_000)
        assert await store.audit.unsealed(-60.0, 10) == []


class AuditRetentionContract(StoreContract):
    """Old days go; the chain goes on."""

    async def test_retention_drops_days_and_notes_where_the_chain_begins(self, store: Store) -> None:
        """Younger entries stay with their seals; the next seal continues from the last one."""
        await store.audit.add([entry(target="old")])
        await store.audit.seal(1_000)
        [old] = await chain(store)
        await self.shift(store, 41 * DAY_SECONDS)
        await store.audit.add([entry(target="new")])
        await store.audit.seal(1_000)
        await store.upkeep.maintain(RETENTION)
        assert [row.target for row in await log(store)] == ["new"]
        [new] = await chain(store)
        [checkpoint] = await store.audit.checkpoints()
        assert (checkpoint.namespace, checkpoint.seq, checkpoint.hash) == ("default", old.seq, old.hash)
        assert old.until < checkpoint.dropped_before <= new.since
        assert new.previous == old.hash

    async def test_a_chain_that_was_dropped_whole_goes_on(self, store: Store) -> None:
        """Its next seal follows the last one, which is known by the checkpoint alone."""
        await store.audit.add([entry()])
        await store.audit.seal(1_000)
        [old] = await chain(store)
        await self.shift(store, 42 * DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert await chain(store) == []
        await store.audit.add([entry()])
        await store.audit.seal(1_000)
        [new] = await chain(store)
        assert (new.seq, new.previous) == (old.seq + 1, old.hash)

    async def test_what_is_not_sealed_is_not_dropped(self, store: Store) -> None:
        """Nobody could tell later that it was there."""
        await store.audit.add([entry()])
        await self.shift(store, 42 * DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert len(await log(store)) == 1
