"""One thing after another happens to the runs of a job: no two go on at once, and nobody waits for ever."""

from __future__ import annotations

import contextlib
from uuid import UUID

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Claimed
from tickwise.ports.store import RunCancel, RunPostpone, RunQuery, RunSkip, Store
from tickwise.testing.contracts.base import UNSEEN_SECONDS
from tickwise.testing.contracts.store.dispatch.overlap import LineContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
STEPS = 120
MAX_ROUNDS = 400
"""To end what is left: in each round at least one run begins, waits or ends."""


class Walk:
    """A job, two executors, and one thing after another that may happen to its runs. Repeatable by its seed."""

    def __init__(self, contract: LineContract, store: Store, make: Factory, policy: Overlap) -> None:
        self.contract, self.store, self.make, self.policy = contract, store, make, policy
        self.job_id = make.identifier()
        self.executors: list[int] = []
        self.held: dict[UUID, tuple[int, Claimed]] = {}
        """The runs that executors have claimed and not begun."""
        self.running: dict[UUID, tuple[int, Claimed]] = {}
        self.made: list[UUID] = []

    def draw(self, below: int) -> int:
        """A number from 0 on."""
        return int.from_bytes(self.make.random_bytes()[:4], "big") % below

    async def step(self) -> None:
        """Something happens. What is likelier stands there more often."""
        likely = (self.fire, self.fire, self.claim, self.claim, self.claim, self.begin, self.begin, self.finish)
        rare = (self.retry, self.give_back, self.leave, self.cancel, self.skip, self.postpone, self.store.runs.unblock)
        steps = (*likely, *likely, *rare)
        await steps[self.draw(len(steps))]()
        assert len(self.running) <= 1, "two runs of one job go on"

    async def fire(self) -> None:
        """The next occurrence, now and then spread beyond the one after it."""
        async with self.contract.near(self.store, HOUR) as batch:
            [timer] = batch.timers
            nominal = timer.pending.due
            due = nominal + (0.0 if self.draw(3) else 0.25 * self.draw(12))
            run = self.make.scheduled(self.job_id, due, nominal=nominal, overlap=self.policy)
            assert await batch.commit([self.make.fire(self.job_id, nominal, nominal + 1.0, runs=[run])]) == 1
        self.made.append(run.run_id)

    async def claim(self) -> None:
        """An executor takes what it can get, and holds it."""
        await self.contract.shift(self.store, 1.0)
        executor = self.executors[self.draw(2)]
        await self.store.executors.beat(executor, HOUR)
        for claimed in await self.contract.claim(self.store, executor, limit=1 + self.draw(3)):
            self.held[claimed.run_id] = executor, claimed

    async def begin(self) -> None:
        """One that is held begins, if it may."""
        if not self.held:
            return
        executor, claimed = self.held.pop(sorted(self.held)[self.draw(len(self.held))])
        if not claimed.guarded or await self.contract.starts(self.store, executor, claimed) == [True]:
            self.running[claimed.run_id] = executor, claimed

    async def finish(self, state: RunState = RunState.SUCCESS) -> None:
        """One that goes on ends."""
        for executor, claimed in self.running.values():
            report = outcome(claimed, state, retry_at=await self.store.now())
            assert list(await self.store.attempts.finish(executor, [report])) == []
        self.running.clear()

    async def retry(self) -> None:
        """It failed and will be tried again."""
        await self.finish(RunState.RETRYING)

    async def give_back(self) -> None:
        """One that is held is not wanted by its holder."""
        if self.held:
            executor, claimed = self.held.pop(sorted(self.held)[self.draw(len(self.held))])
            await self.store.attempts.finish(executor, [outcome(claimed, RunState.QUEUED)])

    async def leave(self) -> None:
        """An executor stops all that it has and goes; another one registers."""
        number = self.draw(2)
        gone, self.executors[number] = (
            self.executors[number],
            await self.contract.register(self.store, lease_seconds=HOUR),
        )
        for mine in (self.held, self.running):
            for run in [run for run, (executor, _) in mine.items() if executor == gone]:
                del mine[run]
        await self.store.executors.leave(gone)

    def some(self) -> UUID | None:
        """A run that was made lately."""
        lately = self.made[-8:]
        return lately[self.draw(len(lately))] if lately else None

    async def cancel(self) -> None:
        """A person cancels one."""
        if (run := self.some()) is not None:
            await self.store.runs.move(RunCancel("default", run, "grace"))

    async def skip(self) -> None:
        """A person does not want one."""
        if (run := self.some()) is not None:
            await self.store.runs.move(RunSkip("default", run, "not this one"))

    async def postpone(self) -> None:
        """A person wants one later."""
        if (run := self.some()) is not None:
            due = await self.store.now() + 1.0 + self.draw(10)
            with contextlib.suppress(Conflict):
                await self.store.runs.move(RunPostpone("default", run, due))

    async def end(self) -> None:
        """Everything that is there comes to its end, one after the other."""
        for _ in range(MAX_ROUNDS):
            await self.finish()
            while self.held:
                await self.begin()
                await self.finish()
            stats = await self.store.upkeep.stats()
            if (stats.queued, stats.held, stats.retrying) == (0, 0, 0):
                return
            await self.store.runs.unblock()
            await self.contract.shift(self.store, UNSEEN_SECONDS)
            await self.claim()


class WalksContract(LineContract):
    """Overlap, whatever happens in whatever order."""

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL])
    async def test_whatever_happens_no_two_go_on_and_nobody_waits_for_ever(
        self, store: Store, policy: Overlap, seed: int
    ) -> None:
        """A hundred and twenty things happen to a job; then all that is left comes to its end."""
        make = Factory(await store.now(), seed=f"walk {seed} {policy}")
        walk = Walk(self, store, make, policy)
        walk.executors = [await self.register(store, name, lease_seconds=HOUR) for name in ("one", "two")]
        await self.add(store, make.recurring(make.now, job_id=walk.job_id))
        for _ in range(STEPS):
            await walk.step()
        await walk.end()
        rows = await store.searches.runs(RunQuery(namespace="default", job_id=walk.job_id, limit=1000))
        assert FINAL.issuperset(row.state for row in rows)
        assert {row.run_id for row in rows} == set(walk.made)
