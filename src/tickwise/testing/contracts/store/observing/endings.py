"""Jobs and runs by the end of their ids, as lists show them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.selectors import Selector
from tickwise.ports.store import EndingQuery, Store
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract
from tickwise.testing.factories import Factory, outcome

BILLING: Selector = ((("team", "billing"),),)


def ending(identifier: UUID, namesake: str) -> UUID:
    """The id with this as its last characters."""
    text = str(identifier)
    return UUID(text[: -len(namesake)] + namesake)


class EndingsContract(StoreContract):
    """`EndingQuery`, of jobs and of runs."""

    async def jobs(self, store: Store, make: Factory, text: str, **fields: Any) -> list[UUID]:
        """The jobs that are found since a day ago."""
        asked: dict[str, Any] = {"namespace": "default", "since": make.now - DAY_SECONDS, **fields}
        return [row.job_id for row in await store.searches.jobs(EndingQuery(ending=text, **asked))]

    async def runs(self, store: Store, make: Factory, text: str, **fields: Any) -> list[UUID]:
        """The runs that are found since a day ago."""
        asked: dict[str, Any] = {"namespace": "default", "since": make.now - DAY_SECONDS, **fields}
        return [row.run_id for row in await store.searches.runs(EndingQuery(ending=text, **asked))]

    async def test_a_job_is_found_by_the_end_of_its_id(self, store: Store, make: Factory) -> None:
        """The newest first, so many at most; in one namespace, within a selector."""
        ids = [ending(make.identifier(60.0 * number), "0badcafe") for number in range(3)]
        labels = {"team": "billing"}
        await self.add(
            store,
            make.job(job_id=ids[0], labels=labels),
            make.job(job_id=ids[1]),
            make.job(job_id=ids[2]),
            make.job(job_id=ending(make.identifier(), "0badcaff")),
            make.job(job_id=ending(make.identifier(300.0), "0badcafe"), namespace="elsewhere"),
        )
        assert [ids[2], ids[1], ids[0]] == await self.jobs(store, make, "0badcafe")
        assert [ids[2], ids[1]] == await self.jobs(store, make, "badcafe", limit=2)
        assert [ids[0]] == await self.jobs(store, make, "0badcafe", within=BILLING)
        assert [ids[1]] == await self.jobs(store, make, str(ids[1])[4:])
        assert [] == await self.jobs(store, make, "1badcafe")

    async def test_an_old_job_is_found_if_it_lasts_or_is_planned(self, store: Store, make: Factory) -> None:
        """A one-time job that is over is looked for among those of the last day."""
        executor = await self.register(store)
        over = make.job(job_id=ending(make.identifier(-3 * DAY_SECONDS), "0badcafe"))
        waits = make.job(job_id=ending(make.identifier(-2 * DAY_SECONDS), "0badcafe"))
        recurs = make.recurring(make.now + 60.0, job_id=ending(make.identifier(-4 * DAY_SECONDS), "0badcafe"))
        await self.add(store, over)
        (claimed,) = await self.claim(store, executor)
        await self.finish(store, executor, outcome(claimed, RunState.SUCCESS))
        await self.add(store, waits, recurs)
        assert [waits.job_id, recurs.job_id] == await self.jobs(store, make, "0badcafe")
        since = {"since": make.now - 5 * DAY_SECONDS}
        assert [waits.job_id, over.job_id, recurs.job_id] == await self.jobs(store, make, "0badcafe", **since)

    async def test_a_run_is_found_by_the_end_of_its_id(self, store: Store, make: Factory) -> None:
        """One that goes on however old it is; one that has ended if it is not older than asked."""
        executor = await self.register(store)
        names = [ending(make.identifier(-days * DAY_SECONDS), "0badcafe") for days in (0.5, 3, 4)]
        billed = make.job(run_id=names[0], labels={"team": "billing"})
        await self.add(store, billed, make.job(run_id=names[1]))
        for claimed in await self.claim(store, executor):
            await self.finish(store, executor, outcome(claimed, RunState.FAILED, error="it broke"))
        await self.add(store, make.job(run_id=names[2]))
        await self.add(store, make.job(run_id=ending(make.identifier(), "0badcafe"), namespace="elsewhere"))
        assert [names[0], names[2]] == await self.runs(store, make, "0badcafe")
        assert [names[0]] == await self.runs(store, make, "0badcafe", limit=1)
        assert [names[0]] == await self.runs(store, make, "0badcafe", within=BILLING)
        assert names == await self.runs(store, make, "badcafe", since=make.now - 5 * DAY_SECONDS)
        (row,) = await store.searches.runs(
            EndingQuery(namespace="default", ending="0badcafe", since=make.now - DAY_SECONDS, within=BILLING)
        )
        assert (RunState.FAILED, None, None) == (row.state, row.result, row.definition)
