"""The end of a namespace: when it takes nothing new, and that a later one of its name has nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256

import pytest

from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane, Principal, Trigger
from tickwise.ports.identity import NewKey
from tickwise.ports.identity.namespaces import SETTLE_SECONDS, NamespaceState, NewNamespace
from tickwise.ports.identity.sessions import NewSession, Rotation
from tickwise.ports.identity.users import Member, RoleRow
from tickwise.ports.store import (
    Added,
    EndedOperation,
    JobAction,
    JobQuery,
    LetterStatus,
    OperationStatus,
    RuleKind,
    RuleQuery,
    RunQuery,
    Settled,
    Settlement,
    Store,
    Successor,
)
from tickwise.testing.contracts.base import StoreContract, added
from tickwise.testing.contracts.store.people.users import changed, new_user
from tickwise.testing.factories import Factory, outcome

HOUR = 3_600.0
TEAM = "team-a"
HOLD_SECONDS = 30.0


async def open_namespace(store: Store, name: str = TEAM) -> None:
    """A namespace that takes new things."""
    await store.namespaces.add(NewNamespace(name=name, display_name=name, created_by="ada"))


async def close(store: Store, name: str = TEAM) -> None:
    """Close the namespace."""
    row = await store.namespaces.get(name)
    assert row is not None
    await store.namespaces.change(replace(row, state=NamespaceState.CLOSING))


async def begin_removal(store: Store, name: str = TEAM) -> None:
    """Close the namespace, and begin to remove it."""
    await close(store, name)
    row = await store.removals.begin(name)
    assert row is not None
    assert row.state is NamespaceState.REMOVING


async def drop_all(store: Store, name: str = TEAM) -> None:
    """Delete all that a namespace without unfinished runs holds, a few at a time."""
    while ended := await store.searches.runs(RunQuery(namespace=name, limit=2)):
        assert await store.removals.drop_runs(name, [row.run_id for row in ended]) == len(ended)
    while await store.removals.drop(name, 2):
        pass


async def refused(call: Awaitable[object]) -> str:
    """The code with which a call is refused."""
    with pytest.raises(Conflict) as refusal:
        await call
    return refusal.value.code


def new_key(make: Factory, secret: bytes, home: str, *places: str) -> NewKey:
    """A key that works in these namespaces."""
    who = Principal("ci", home, frozenset({"jobs:read"}))
    return NewKey(
        key_id=make.identifier(),
        digest=sha256(secret).digest(),
        principal=who,
        namespaces=frozenset(places) or None,
    )


class ClosedNamespacesContract(StoreContract):
    """A namespace that is closing takes nothing new; what is there goes on."""

    async def test_a_closed_namespace_takes_no_job(self, store: Store, other: Store, make: Factory) -> None:
        """By any way in, also for a client that knew it as open; those of other namespaces are stored. A job that was
        stored before is answered as it was."""
        await open_namespace(store)
        there, named = make.job(namespace=TEAM), make.job(namespace=TEAM, named=True, digest=b"a" * 32)
        await self.add(other, there, named)
        await close(store)
        plain, keyed = make.job(namespace=TEAM), make.job(namespace=TEAM, key="k")
        fresh = make.job(namespace=TEAM, lane=Lane("a queue that was never used"))
        for job in (plain, keyed, fresh):
            assert added(await other.jobs.add([job])) == [Added.CLOSING]
            assert added(await other.jobs.add([job], whole=True)) == [Added.CLOSING]
            assert added(await other.jobs.add([job], make.receipt(key="once"))) == [Added.CLOSING]
        mixed = [plain, make.job(), there, keyed, named, make.job(key="k")]
        answers = [Added.CLOSING, Added.CREATED, Added.REPEATED, Added.CLOSING, Added.REPEATED, Added.CREATED]
        assert added(await other.jobs.add(mixed)) == answers
        listed = {row.job_id for row in await store.searches.jobs(JobQuery(namespace=TEAM))}
        assert listed == {there.job_id, named.job_id}

    async def test_of_a_submit_and_a_close_at_one_moment_the_submit_is_first_or_refused(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """No job is acknowledged after the answer that the namespace is closing."""
        await open_namespace(store)
        closed = asyncio.Event()
        late: list[Added] = []

        async def submit() -> None:
            while True:
                was_closed = closed.is_set()
                [answer] = added(await other.jobs.add([make.job(make.now + HOUR, namespace=TEAM)]))
                if was_closed:
                    late.append(answer)
                if answer is Added.CLOSING:
                    return

        submits = [asyncio.create_task(submit()) for _ in range(4)]
        await close(store)
        closed.set()
        jobs = {row.job_id for row in await store.searches.jobs(JobQuery(namespace=TEAM, limit=500))}
        await asyncio.gather(*submits)
        assert {row.job_id for row in await store.searches.jobs(JobQuery(namespace=TEAM, limit=500))} == jobs
        assert set(late) <= {Added.CLOSING}
        assert added(await other.jobs.add([make.job(namespace=TEAM)])) == [Added.CLOSING]

    async def test_a_closed_namespace_takes_nothing_else(self, store: Store, make: Factory) -> None:
        """Runs on demand, redrives, tasks, rules, keys, members. Opened again, it does."""
        await open_namespace(store)
        executor = await self.register(store)
        job = make.job(namespace=TEAM)
        claimed = await self.held(store, executor, job)
        await self.finish(store, executor, outcome(claimed, RunState.FAILED))
        person = await store.users.add(new_user(make))

        def redrive() -> Settlement:
            return Settlement(claimed.run_id, LetterStatus.REDRIVEN, None, make.run(job.job_id))

        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.runs.add(TEAM, job.job_id, [make.run(job.job_id)]),
            lambda: store.letters.settle(TEAM, [redrive()], by="ada"),
            lambda: store.tasks.put(make.task(namespace=TEAM)),
            lambda: store.rules.put(make.rule(namespace=TEAM)),
            lambda: store.keys.add(new_key(make, make.random_bytes(), TEAM)),
            lambda: store.keys.add(new_key(make, make.random_bytes(), "default", "default", TEAM)),
            lambda: store.users.add(new_user(make, "eve", Member(TEAM, "viewer"))),
            lambda: store.users.change(changed(person, roles=(*person.roles, Member(TEAM, "viewer")))),
        ]
        await close(store)
        for call in calls:
            assert await refused(call()) == "namespace_closing"
        row = await store.namespaces.get(TEAM)
        assert row is not None
        await store.namespaces.change(replace(row, state=NamespaceState.ACTIVE))
        for call in calls:
            await call()

    async def test_what_is_there_goes_on(self, store: Store, make: Factory) -> None:
        """Schedules fire, runs are claimed and end, jobs are paused and changed, queues are held, letters discarded."""
        await open_namespace(store)
        executor = await self.register(store)
        job = make.recurring(make.now, namespace=TEAM)
        await self.add(store, job)
        await close(store)
        async with self.near(store) as batch:
            assert await batch.commit([make.fire(job.job_id, make.now, make.now + HOUR)]) == 1
        [claimed] = await self.claim(store, executor)
        await self.finish(store, executor, outcome(claimed, RunState.FAILED))
        discarded = Settlement(claimed.run_id, LetterStatus.DISCARDED, None)
        assert await store.letters.settle(TEAM, [discarded], by="ada") == [Settled.SETTLED]
        row = await self.job_row(store, job.job_id, TEAM)
        row = await store.jobs.change(make.change(row, name="renamed"))
        assert row.name == "renamed"
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, namespace=TEAM))
        await store.queues.hold(make.hold(namespace=TEAM))
        await store.operations.add(make.operation(namespace=TEAM))

    async def test_a_sequence_goes_on_while_its_namespace_closes(self, store: Store, make: Factory) -> None:
        """The successors of a run were asked for before. In a namespace that is being removed their jobs are
        cancelled, and nothing follows."""
        await open_namespace(store)
        executor = await self.register(store, lease_seconds=HOUR)
        first, second = make.job(namespace=TEAM), make.recurring(make.now + HOUR, namespace=TEAM)
        claimed = await self.held(store, executor, first)
        await self.add(store, second)
        await self.finish(store, executor, outcome(claimed, follow=True))
        await close(store)
        follows = Successor(second.job_id, make.run(second.job_id, trigger=Trigger.SEQUENCE))
        assert await store.completions.commit(TEAM, {claimed.run_id: [follows]}) == 1
        [again] = await self.claim(store, executor)
        await self.finish(store, executor, outcome(again, follow=True))
        assert await store.removals.begin(TEAM) is not None
        await store.jobs.move(make.move(second.job_id, JobAction.CANCEL, namespace=TEAM))
        late = Successor(second.job_id, make.run(second.job_id, trigger=Trigger.SEQUENCE))
        assert await store.completions.commit(TEAM, {again.run_id: [late]}) == 0
        assert list(await self.claim(store, executor)) == []


class RemovalsContract(StoreContract):
    """A namespace goes in steps, each of which may be repeated."""

    async def test_an_open_namespace_is_not_removed(self, store: Store) -> None:
        """Nor is `default`; one that is not there is no error."""
        await open_namespace(store)
        assert await refused(store.removals.begin(TEAM)) == "namespace_not_closing"
        assert await refused(store.removals.begin("default")) == "namespace_needed"
        assert await store.removals.begin("nowhere") is None
        assert await store.removals.take(HOLD_SECONDS) is None
        assert await store.removals.drop(TEAM, 10) == 0
        assert await store.removals.end(TEAM) is False

    async def test_a_removal_begins_once_and_is_not_undone(self, store: Store) -> None:
        """The namespace stays as it is, and its name stays taken, until the end."""
        await open_namespace(store)
        await begin_removal(store)
        row = await store.namespaces.get(TEAM)
        assert row is not None
        assert await store.removals.begin(TEAM) == row
        reopened = replace(row, state=NamespaceState.ACTIVE)
        assert await refused(store.namespaces.change(reopened)) == "namespace_removing"
        assert await refused(open_namespace(store)) == "namespace_removing"
        assert [each.state for each in await store.namespaces.page(after="default", limit=1)] == [row.state]

    async def test_a_removal_is_in_the_hands_of_one_at_a_time(self, store: Store, other: Store) -> None:
        """The one that waits longest is taken first; a hold that is over frees it."""
        for name in (TEAM, "team-b"):
            await open_namespace(store, name)
            await begin_removal(store, name)
            await self.shift(store, 1.0)
        assert await store.removals.take(HOLD_SECONDS) == TEAM
        assert await other.removals.take(HOLD_SECONDS) == "team-b"
        assert await other.removals.take(HOLD_SECONDS) is None
        await store.removals.put_back(TEAM, 20.0)
        assert await other.removals.take(HOLD_SECONDS) is None
        await self.shift(store, 20.0)
        assert await other.removals.take(HOLD_SECONDS) == TEAM
        await self.shift(store, HOLD_SECONDS)
        assert {await store.removals.take(HOLD_SECONDS) for _ in range(2)} == {TEAM, "team-b"}

    async def test_a_namespace_that_is_being_removed_takes_nothing_at_all(self, store: Store, make: Factory) -> None:
        """Neither what a closing one refuses nor holds, roles, operations and changes of rules."""
        await open_namespace(store)
        await store.rules.put(make.rule(namespace=TEAM))
        await begin_removal(store)
        assert added(await store.jobs.add([make.job(namespace=TEAM)])) == [Added.CLOSING]
        for call in (
            store.rules.put(make.rule(namespace=TEAM, body='{"another": 1}')),
            store.queues.hold(make.hold(namespace=TEAM)),
            store.operations.add(make.operation(namespace=TEAM)),
            store.roles.put(RoleRow(TEAM, "rerunner", frozenset({"runs:write"}), ())),
        ):
            assert await refused(call) == "namespace_closing"

    async def test_the_jobs_that_go_on_are_named_in_order(self, store: Store, make: Factory) -> None:
        """Those with a plan, a pause or an unfinished run, and those that run on demand; page by page, and not those of
        other namespaces, ended or cancelled ones."""
        await open_namespace(store)
        executor = await self.register(store)
        ended = make.job(namespace=TEAM)
        claimed = await self.held(store, executor, ended)
        await self.finish(store, executor, outcome(claimed))
        planned, paused, cancelled = (make.recurring(make.now + HOUR, namespace=TEAM) for _ in range(3))
        going = make.job(namespace=TEAM)
        await self.add(store, planned, paused, cancelled, going, make.recurring(make.now + HOUR), make.job())
        await store.jobs.move(make.move(paused.job_id, JobAction.PAUSE, namespace=TEAM))
        await store.jobs.move(make.move(cancelled.job_id, JobAction.CANCEL, namespace=TEAM))
        expected = sorted(job.job_id for job in (planned, paused, going))
        assert list(await store.removals.jobs(TEAM, after=None, limit=10)) == expected
        first = await store.removals.jobs(TEAM, after=None, limit=2)
        assert list(first) == expected[:2]
        assert list(await store.removals.jobs(TEAM, after=first[-1], limit=2)) == expected[2:]
        assert list(await store.removals.jobs("nowhere", after=None, limit=10)) == []

    async def test_access_ends_with_the_begin_of_a_removal(self, store: Store, make: Factory) -> None:
        """Memberships, custom roles, bound sessions and the namespace's own keys go; what works elsewhere too, works
        there still."""
        await open_namespace(store)
        await store.roles.put(RoleRow(TEAM, "rerunner", frozenset({"runs:write"}), ()))
        ada = await store.users.add(new_user(make, "ada", Member(TEAM, "rerunner"), Member("default", "viewer")))
        eve = await store.users.add(new_user(make, "eve", Member("default", "viewer")))
        families = [make.identifier() for _ in range(2)]
        for family, namespace in zip(families, (TEAM, None), strict=True):
            await store.sessions.begin(
                NewSession(
                    family=family, digest=family.bytes * 2, user_id=eve.user_id, generation=eve.generation, scope=None,
                    namespace=namespace, address="", seconds=HOUR, most_seconds=HOUR,
                )
            )  # fmt: skip
        own, home, guest = (
            new_key(make, b"own", TEAM), new_key(make, b"home", TEAM, TEAM, "default", "team-b"),
            new_key(make, b"guest", "default", "default", TEAM),
        )  # fmt: skip
        everywhere = new_key(make, b"everywhere", TEAM, "*")
        for key in (own, home, guest, everywhere):
            await store.keys.add(key)
        await begin_removal(store)
        after = await store.users.get(ada.user_id)
        assert after is not None
        assert (after.roles, after.generation) == ((Member("default", "viewer"),), ada.generation + 1)
        assert await store.users.get(eve.user_id) == eve
        assert [role for role in await store.roles.all(None) if role.namespace == TEAM] == []
        assert [await store.sessions.is_good(family) for family in families] == [False, True]
        assert (await store.sessions.rotate(families[0].bytes * 2, b"n" * 32)).rotation is not Rotation.ROTATED
        assert await store.keys.find(own.digest) is None
        places = []
        for key in (home, guest, everywhere):
            found = await store.keys.find(key.digest)
            assert found is not None
            places.append((found.caller.home, {grant.namespace for grant in found.caller.grants}))
        assert places == [("default", {"default", "team-b"}), ("default", {"default"}), ("default", {"*"})]

    async def test_a_namespace_with_jobs_or_runs_does_not_end(self, store: Store, make: Factory) -> None:
        """A job with an unfinished run stays until the run has ended; its end goes too. What is left is told."""
        await open_namespace(store)
        executor = await self.register(store, lease_seconds=HOUR)
        job, idle = make.job(namespace=TEAM), make.recurring(make.now + HOUR, namespace=TEAM)
        claimed = await self.held(store, executor, job)
        await self.add(store, idle)
        await begin_removal(store)
        await self.shift(store, SETTLE_SECONDS)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL, namespace=TEAM))
        assert await store.removals.left(TEAM) == (2, 1, 0)
        assert await store.removals.drop(TEAM, 10) >= 1
        assert await store.removals.left(TEAM) == (1, 1, 0)
        assert await store.removals.drop_runs(TEAM, [claimed.run_id]) == 0
        assert await store.removals.end(TEAM) is False
        await self.finish(store, executor, outcome(claimed, RunState.CANCELLED))
        assert await store.removals.left(TEAM) == (1, 0, 1)
        assert await store.removals.end(TEAM) is False
        assert await store.removals.drop_runs("default", [claimed.run_id]) == 0
        await drop_all(store)
        assert await store.removals.left(TEAM) == (0, 0, 0)
        assert await store.removals.end(TEAM) is True
        assert await store.removals.end(TEAM) is True
        assert await store.namespaces.get(TEAM) is None

    async def test_a_removal_takes_longer_than_processes_remember(self, store: Store) -> None:
        """Access to the former namespace must not be access to a later one."""
        await open_namespace(store)
        begun = await store.now()
        await begin_removal(store)
        if await store.removals.end(TEAM):
            # The machine stood still for so long.
            assert await store.now() - begun >= SETTLE_SECONDS
            return
        await self.shift(store, SETTLE_SECONDS)
        assert await store.removals.end(TEAM) is True

    async def test_a_later_namespace_has_nothing_of_a_former_one(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Jobs, keys of jobs, runs, letters, counts, tasks, rules, queues, operations, receipts. Those of another
        namespace stay."""
        await open_namespace(store)
        executor = await self.register(store)
        for namespace in (TEAM, "default"):
            job = make.job(namespace=namespace, key="k", lane=Lane("reports"))
            claimed = await self.held(store, executor, job, queues=("reports",))
            await self.finish(store, executor, outcome(claimed, RunState.FAILED))
            note = Settlement(claimed.run_id, LetterStatus.DISCARDED, None)
            await store.letters.settle(namespace, [note], by="ada")
            await self.add(store, make.recurring(make.now + HOUR, namespace=namespace))
            await store.tasks.put(make.task(namespace=namespace))
            await store.rules.put(make.rule(namespace=namespace))
            await store.queues.hold(make.hold(namespace=namespace, queue="held"))
            await store.operations.add(make.operation(namespace=namespace))
            await store.receipts.keep(make.receipt(principal=f"{namespace}/ci", key="once"))
        await begin_removal(store)
        await self.shift(store, SETTLE_SECONDS)
        await drop_all(store)
        assert await store.removals.end(TEAM) is True
        await open_namespace(other)
        for namespace, number in ((TEAM, 0), ("default", 1)):
            assert len(await store.searches.jobs(JobQuery(namespace=namespace))) == 2 * number
            assert (await store.jobs.get(namespace, "k") is not None) is bool(number)
            assert len(await store.searches.runs(RunQuery(namespace=namespace))) == number
            assert len(await store.tasks.page(namespace, None, 10)) == number
            rules = RuleQuery(namespace=namespace, kind=RuleKind.CALENDAR)
            assert len(await store.rules.find(rules)) == number
            named = {"default", "held", "reports"} if number else set()
            assert {row.queue for row in await store.queues.all(namespace)} == named
            assert len(await store.searches.operations(namespace, None, 10)) == number
            found = await store.receipts.find(f"{namespace}/ci", make.receipt().route, "once")
            assert (found is not None) is bool(number)
            tallies = await store.searches.tally(namespace, make.now - HOUR, make.now + 2 * HOUR)
            assert sum(tally.runs for tally in tallies) == number
        assert added(await other.jobs.add([make.job(namespace=TEAM, key="k", lane=Lane("reports"))])) == [Added.CREATED]
        assert {row.queue for row in await store.queues.all(TEAM)} == {"reports"}

    async def test_what_comes_for_a_namespace_that_is_gone_is_refused(self, store: Store, make: Factory) -> None:
        """Until there is another one of its name, in which what was accepted for the former one leaves no record."""
        await open_namespace(store)
        await begin_removal(store)
        await self.shift(store, SETTLE_SECONDS)
        assert await store.namespaces.removed([TEAM, "default"]) == {}
        accepted_at = await store.now()
        assert await store.removals.end(TEAM) is True
        [(name, gone_at)] = (await store.namespaces.removed([TEAM, "default"])).items()
        assert name == TEAM
        assert gone_at >= accepted_at
        assert added(await store.jobs.add([make.job(namespace=TEAM, lane=Lane("new"))])) == [Added.CLOSING]
        assert await refused(store.keys.add(new_key(make, b"own", TEAM))) == "namespace_closing"

        def ended(accepted: float) -> EndedOperation:
            return EndedOperation(
                operation_id=make.identifier(), namespace=TEAM, kind="job:create", request="{}", created_by="ci",
                created_at=accepted, status=OperationStatus.FAILED,
            )  # fmt: skip

        await store.operations.record([ended(accepted_at)])
        assert len(await store.searches.operations(TEAM, None, 10)) == 1
        await self.shift(store, 1.0)
        await open_namespace(store)
        await store.operations.record([ended(accepted_at), own := ended(await store.now())])
        [row] = await store.searches.operations(TEAM, None, 10)
        assert row.operation_id == own.operation_id
        assert added(await store.jobs.add([make.job(namespace=TEAM)])) == [Added.CREATED]

    async def test_a_job_that_comes_alive_again_is_not_dropped_with_its_run(self, store: Store, make: Factory) -> None:
        """A timer that a scheduler has in hand may still make a run; then the job waits for the run."""
        await open_namespace(store)
        job = make.recurring(make.now, namespace=TEAM)
        await self.add(store, job)
        await begin_removal(store)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, make.now, make.now + HOUR)])
        await store.removals.drop(TEAM, 10)
        assert await store.removals.left(TEAM) == (1, 1, 0)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL, namespace=TEAM))
        await self.shift(store, SETTLE_SECONDS)
        await drop_all(store)
        assert await store.removals.end(TEAM) is True
        with pytest.raises(NotFound):
            await store.jobs.move(make.move(job.job_id, JobAction.CANCEL, namespace=TEAM))
