"""The API on a virtual clock, with a scheduler and executors that do what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from tests.support.app import API, World, world
from tests.unit.roles.rig import Silent
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.rules.capacities import MEMORY, offered_of
from tickwise.ports.store import Began, ClaimRequest, Incident, Retention
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings
from tickwise.testing.factories import executor, outcome

START = 1_800_000_000.0
"""2027-01-15T08:00:00Z, a Friday, where the virtual clock begins."""
SHELL = {"kind": "shell", "command": "date"}
HOUR = 3_600.0
FOREVER = 1e9
DAY = 86_400.0
KEPT = Retention(runs_seconds=30 * DAY, failed_seconds=30 * DAY)


class Scene:
    """A world, and hands to move what is in it."""

    def __init__(self, here: World) -> None:
        self.world = here
        self.store = here.store
        self.clock = cast(VirtualClock, here.clock)
        self._begun: dict[int, float] = {}
        self.scheduler = Scheduler(
            store=here.store,
            blobs=open_blobs("memory://"),
            signals=here.bell,
            clock=here.clock,
            settings=SchedulerSettings(retention=KEPT),
            telemetry=Silent(),
        )

    async def ask(
        self, method: str, path: str, status: int = 200, /, body: Any = None, *, key: str | None = None
    ) -> Any:
        """The answer, which must have this status. `key`: another one than the administrator's."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        answer = await self.world.client.request(method, API + path, json=body, headers=headers)
        assert status == answer.status_code, answer.text
        return answer.json()

    async def create(self, **body: Any) -> str:
        """A stored job's id."""
        return str((await self.ask("POST", "/jobs", 201, {"name": "a", "task": SHELL, **body}))["job_id"])

    async def pass_time(self, seconds: float) -> None:
        """Time in which nobody does anything."""
        await self.clock.advance(seconds)

    async def schedule(self, seconds: float, step: float = 30.0) -> None:
        """Time in which a scheduler is at work, looking every `step` seconds and at the end."""
        left = seconds
        while left > 0:
            await self.pass_time(min(step, left))
            left -= step
            await self.scheduler.fire_due()

    async def join(self, **fields: Any) -> int:
        """An executor that lives as long as the test."""
        return await self.store.executors.join(executor(**{"lease_seconds": FOREVER, **fields}))

    async def take(self, number: int, limit: int = 10, queues: Sequence[str] = ("default",)) -> list[Claimed]:
        """Claim as this executor, for labels `task:http` and `task:shell`; its memory is not counted."""
        labels = ("task:http", "task:shell", *offered_of(MEMORY, None))
        request = ClaimRequest(executor=number, queues=queues, labels=labels, limit=limit, ahead_seconds=0.0)
        return list(await self.store.attempts.claim(request))

    async def begin(self, number: int, claims: Sequence[Claimed]) -> int:
        """Record that they begin now; how many were let."""
        starts = [Began(each.run_id, each.token, self.clock.now()) for each in claims]
        self._begun |= {each.token: each.started for each in starts}
        return len(claims) - len(await self.store.attempts.start(number, starts))

    async def finish(
        self, number: int, claims: Sequence[Claimed], state: RunState = RunState.SUCCESS, **more: Any
    ) -> None:
        """Report their end, now."""
        now = self.clock.now()
        ends = [outcome(each, state, **{"started": self._begun[each.token], "ended": now, **more}) for each in claims]
        assert [] == list(await self.store.attempts.finish(number, ends))

    async def work(self, number: int, seconds: float = 1.0) -> list[Claimed]:
        """Take all there is, begin it, and be done with it after so long."""
        claims = await self.take(number)
        assert len(claims) == await self.begin(number, claims)
        await self.pass_time(seconds)
        await self.finish(number, claims)
        return claims

    async def away(self, kind: str, begin: float, end: float, who: str = "scheduler-1") -> None:
        """Somebody noticed an absence; times in seconds after `START`."""
        await self.store.incidents.add(Incident(kind=kind, begin=START + begin, end=START + end, who=who))

    async def explain(self, job_id: str, at: str | None = None) -> Any:
        """Explain the job's state, or its state at `at`: a time of day or a whole time."""
        if at is not None and "T" not in at:
            at = f"2027-01-15T{at}Z"
        return await self.ask("GET", f"/jobs/{job_id}/explain" + (f"?at={at}" if at else ""))

    async def explain_run(self, run_id: object) -> Any:
        """Explain the state of a run."""
        return await self.ask("GET", f"/runs/{run_id}/explain")


@asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[Scene]:
    """At `START`, with nobody at work yet. `options` are those of `world`."""
    async with world(clock=VirtualClock(START), **options) as made:
        yield Scene(made)
